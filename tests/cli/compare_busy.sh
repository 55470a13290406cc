# A measurement on a busy machine is said to be one, with the rows to doubt; a quiet one is not mentioned.
record() { # FILE KIND HEADER...
    file=$1 kind=$2
    shift 2
    { printf '# kind: %s\n' "$kind"; printf '# %s\n' "$@"; printf 'phase,rank,metric,value,unit\n'
      printf 'dispatch,all,time_us,%s,us\ncombine,all,time_us,200,us\n' $([ "$kind" = simulate ] && echo 100 || echo 150); } >"$file"
}
record p.csv simulate 'num-ranks: 2'
record busy.csv replay 'num-ranks: 2' 'busy: yes' 'cpu-others-pct: 31.0' 'cpu-steal-pct: 2.5' 'disturbed: dispatch 3/10|combine 1/10'
record stolen.csv replay 'num-ranks: 2' 'busy: yes' 'cpu-others-pct: 0.0' 'cpu-steal-pct: 4.0' 'disturbed: none'
record once.csv replay 'num-ranks: 2' 'busy: no' 'cpu-others-pct: 1.0' 'cpu-steal-pct: 0.0' 'disturbed: combine 1/10'
record quiet.csv replay 'num-ranks: 2' 'busy: no' 'cpu-others-pct: 1.0' 'cpu-steal-pct: 0.0' 'disturbed: none'
for measured in busy stolen once quiet; do
    echo "$measured:"
    $EPTWIN compare p.csv $measured.csv | sed -n '/^dispatch:/,$p'
done
