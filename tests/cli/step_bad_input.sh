# What does not fit is said in one line, ends with 2 and leaves nothing.
run() {
    $EPTWIN step "$@" -o left.csv >out 2>err
    echo "exit $?, $(wc -l <out) lines of output"
    cat err
    [ ! -e left.csv ] || echo 'left.csv is there'
}
here='--cluster source/models/clusters/h800-cx7.ini --num-ranks 16'
ds='--net deepseek-v3'

run $here
run $ds
run $here --net nothing
run $here --net deepsek-v3
run $here --net source/README.md
run $here $ds --phase training
run $here $ds --phase train --kernel ll
run --cluster source/models/clusters/h800-cx7.ini --num-ranks 64 $ds --phase train --schedule stages # no estimate precedes
run $here $ds --phase train --cached
run $here $ds --schedule both
run $here --net qwen3-235b --schedule shared
run $here $ds --schedule two-batch --hook
run $here $ds --schedule stages --kernel normal
run $here $ds --kernel p2p
run $here $ds --batch -1
run $here $ds --batch 1 --schedule stages
run $here $ds --batch 4000
run $here $ds --batch 1000000
run $here $ds --layers 59
run $here $ds --layers some
run $here $ds --attention-tp 3
run $here $ds --redundant 3
run $here $ds --redundant 3 --routing zipf:1
run $here $ds --redundant 16 --placement eplb:16
run $here $ds --spread 30
run $here $ds --draws 3 --spread 0 --jitter 0
run $here $ds --clock 1.7,1.8
run $here $ds --clock '1.7|1.8'
run $here $ds --clock 0
run $here $ds --hidden 4096
run $here $ds --arrival uniform:20us
run $here $ds --compute copy:500GB/s
run $here $ds --compute-sms 24:32
run $here $ds --loops no.loops
run --cluster source/models/clusters/h200.ini --num-ranks 8 $ds --layers 1 --batch 8 --disable-nvlink
run $here $ds --kernel normal --disable-nvlink
run --cluster source/models/clusters/h200.ini --num-ranks 16 --ranks-per-node 16 $ds
run $here $ds --gpu a100
run --cluster source/models/clusters/mi300x-cx7.ini --num-ranks 8 $ds
run --cluster source/models/clusters/gh200-alps-host.ini --num-ranks 8 --gpu h100 $ds
run $here $ds --kernel ag-rs --phase train
run $here $ds --kernel ag-rs --schedule stages --batch 64
printf 'op,gpu,dtype,shape,tokens,context,us\nmla_decode,h800,fp8,128,16,4096,\n' >own.csv
run $here $ds --table own.csv
table() { printf 'op,gpu,dtype,shape,tokens,context,us\n%b' "$1" >own.csv; run $here $ds --table own.csv; }
table ''
table 'mla_decod,h800,fp8,128,16,4096,5\n'
table 'mla_decode,h800,fp8,128,16,4096,5\nmla_decode,h800,fp8,128,16,4096,6\n'
table 'mla_decode,h800,fp8,128,0,4096,5\n'
record() { printf "# kind: measure\n$1phase,rank,metric,value,unit\n$2" >own.csv; run $here $ds --table own.csv; }
record '# gpu: NVIDIA H100\n' 'clock,all,clock_ghz,1.98,GHz\n'
record '# gpu: A100\n' 'gemm dtype=fp8 rows=64 k=7168 n=36864,all,time_us,100,us\n'
run $here $ds --leave-sms 132
run $here $ds --num-topk 4
run $here $ds --num-topk-groups 3
run $here $ds --num-tokens 64
run --cluster source/models/clusters/h800-cx7.ini --num-ranks 12 $ds
$EPTWIN trace generate short.ept --num-ranks 16 --num-tokens 64
run $here $ds --trace short.ept
run $here $ds --trace short.ept --batch 130 --schedule stages
printf '{"hidden_size": 64}' >config.json
run $here --net config.json
run $here $ds --format xml
work='--work attention=1ms,experts=20us'
run $here --work attention=1
run $here $work $ds
run $here $work
run $here $work --batch 64
run $here $work --layers all
run $here $work --schedule stages
run $here $work --schedule shared
run $here --work attention=1ms,core=1ms
