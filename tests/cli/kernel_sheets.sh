# What the loops of the kernels do: the sheets, a site's line with what is said above it, another build of a kernel.
$EPTWIN kernel list
$EPTWIN kernel show LL_RECEIVE_ROW COPY_ENGINE
$EPTWIN kernel words | head -n 3
for sheet in $($EPTWIN kernel list | sed -n 's/^\([a-z][a-z0-9-]*\) .*/\1/p'); do
    $EPTWIN kernel show $sheet | cmp - source/models/kernels/$(echo $sheet | tr - _).loops && echo "$sheet: as its file"
done
$EPTWIN kernel show | wc -l | grep -qx "$(($(cat source/models/kernels/*.loops | wc -l) + 8))" && echo 'all of them'

echo '-- the shipped lines again: the same prediction; a row of one load at a time: a slower one'
case='--cluster h200 --kernel normal --cached --num-ranks 4 --num-tokens 512'
times() { $EPTWIN simulate $case "$@" | awk -F, '$3 == "time_us" && $2 == "all"'; }
times >shipped
$EPTWIN kernel show deepep-v1 >same.loops && times --loops same.loops | cmp - shipped && echo same
printf '%s\n' 'INTRA_SEND_ROW (scales, choices, read) { repeat bytes / 512 { load 512, use, store 512 } }' \
    '    sought, fresh read @ mine.cu:7' >slow.loops
cat shipped
times --loops slow.loops
$EPTWIN simulate $case --loops slow.loops | grep '^# loops:'

echo '-- refused'
status() { "$@"; echo "exit $?"; }
status $EPTWIN kernel
status $EPTWIN kernel lists
status $EPTWIN kernel list all
status $EPTWIN kernel show LL_SUM
status $EPTWIN simulate $case --loops none.loops
printf '%s\n' 'LL_MESSAGE_ROW wait 1, loads 8 @ mine.cu:7' >bad.loops
status $EPTWIN simulate $case --loops bad.loops
printf '%s\n' '# mine' 'LL_MESSAGE_ROW wait 1, load 8 @ mine.cu:7' >words.loops
status $EPTWIN simulate $case --loops words.loops
status $EPTWIN simulate $case --loops source
endless='repeat 4000000000 { repeat 4000000000 { repeat 4000000000 { load 512, use } } }'
printf '%s\n' "INTRA_SEND_ROW (scales, choices, read) { $endless } @ mine.cu:7" >endless.loops
status $EPTWIN simulate $case --loops endless.loops
echo '-- nothing half shown, and no sheet without a line'
status $EPTWIN kernel show LL_RECEIVE_ROW LL_SUM
$EPTWIN kernel show LL_RECEIVE_ROW | head -n 2 >cut.loops && status $EPTWIN simulate $case --loops cut.loops
