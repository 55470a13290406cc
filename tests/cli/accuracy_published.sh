# Every row of the table of published measurements is a case, shares its measurement with one, or has a reason.
source/tests/accuracy/check-published
mkdir broken && cp source/tests/accuracy/*.csv source/tests/accuracy/published.tsv source/tests/accuracy/check-published broken
# A row without a case or reason, a number that is not the case's, a case that is not there, a number twice.
awk 'BEGIN { FS = OFS = "\t" } NR == 2 { $7 = "" } NR == 3 { $8 = "7" } NR == 6 { $7 = "no.csv:2" } NR == 9 { $1 = 8 } 1' \
    source/tests/accuracy/published.tsv >broken/published.tsv
broken/check-published | grep '^published'; echo "status ${PIPESTATUS[0]}"
