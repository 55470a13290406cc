# No byte of an argument or a file moves the cursor of who reads an error: control characters are shown as '?'.
e=$(printf '\033[31m')
cluster=source/models/clusters/h800-cx7.ini
try() { "$@" 2>err >/dev/null; echo "status $?"; grep -c '[[:cntrl:]]' err; cat -v err | sed 's/ one of b200.* found none.*/ .../'; }
try $EPTWIN "${e}x"
try $EPTWIN simulate --cluster "${e}x"
try $EPTWIN simulate --cluster $cluster --kernel "${e}x"
try $EPTWIN simulate --cluster $cluster "--${e}x"
try $EPTWIN simulate --cluster $cluster --num-tokens "${e}x"
try $EPTWIN cluster list "${e}x"
try $EPTWIN cluster backends "${e}x"
printf "num-ranks,phase,measured_us\n${e}8,dispatch,20\n8,${e}disp,20\n" >"${e}t.csv"
try $EPTWIN validate "${e}t.csv" --cluster $cluster
printf "${e}num-ranks,phase\n" >h.csv
try $EPTWIN validate h.csv --cluster $cluster
printf "# kind: ${e}\nphase,rank,metric,value,unit\ndispatch,${e},time_us,1,us\n" >r.csv
try $EPTWIN compare r.csv r.csv
try $EPTWIN report --text r.csv
try $EPTWIN report --output out.html "${e}absent.csv"
try $EPTWIN sweep show "${e}absent.csv"
try $EPTWIN trace info "${e}absent.npy"
printf "[gpu]\n${e}pole = 1\n" >c.ini
try $EPTWIN simulate --cluster c.ini
