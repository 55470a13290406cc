# A short measurement has a row for every metric that replay/README.md explains; values are left out.
$EPTWIN measure --ranks 2 --repeat 1 --sample-ms 1 --output out.csv
grep '^# ' out.csv | grep -vE '^# (version|machine|cpus)'
grep -v '^#' out.csv | cut -d, -f1-3,5 | grep -vE '_(min|max)(_[0-9]+)?,'
