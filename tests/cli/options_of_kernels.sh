# Options that only some kernels have: every command refuses them by one check, and comparisons of kernels apply them
# where they exist.
small='--num-ranks 4 --num-tokens 16 --hidden 512 --num-experts 8 --num-topk 2'
bad() { "$EPTWIN" "$@" 2>&1 | tail -n 1; }
bad simulate --cluster h800-cx7 --kernel allgather --routing zipf:1
bad simulate --cluster h800-cx7 --kernel allreduce --api hybrid-ep
bad step --cluster h800-cx7 --net gpt-oss-120b --kernel normal --num-ranks 8 --hook
bad tune --cluster h800-cx7 --kernel v2 --worst-tokens $small
bad replay --ranks 2 --kernel allgather --hidden 512
bad which --cluster h800-cx7 --kernel normal --hook $small
bad sweep --cluster h800-cx7 --kernel ll --num-sms 8,16 --cached $small --output refused.csv
bad sweep --cluster h800-cx7 --kernel ll,normal --expand false,true $small --output refused.csv
bad sweep --cluster h800-cx7 --kernel ll,normal --num-ranks 4 --output refused.csv
ls refused.csv 2>&1
echo '-- which and sweep: applied where it exists'
"$EPTWIN" which --cluster h800-cx7 --hook $small --at-tokens 16 2>&1 | grep -c hook
"$EPTWIN" sweep --cluster h800-cx7 --kernel ll,normal,allreduce --nvl-chunk 4,8 $small --output swept.csv >/dev/null 2>&1
awk -F, '/^[0-9]/ && ($4 == "layer" || $NF) { print $2, $3, ($NF ? $NF : $6) }' swept.csv
echo '-- validate: a default says nothing'
cat >table.csv <<'T'
kernel,num-ranks,num-tokens,hidden,cached,size,phase
ll,4,16,7168,false,,dispatch
normal,4,16,7168,true,,dispatch
allreduce,4,,7168,,1KiB,allreduce
allreduce,4,16,,,1KiB,allreduce
ll,4,16,7168,true,,dispatch
T
"$EPTWIN" validate table.csv --cluster h800-cx7 2>&1 >/dev/null | grep -v '^$'
