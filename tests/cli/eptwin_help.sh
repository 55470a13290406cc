# The program without a command: help on standard output when asked for, else on standard error with status 2.
$EPTWIN --help
echo "exit $?"
$EPTWIN -h | cmp - <($EPTWIN --help) && $EPTWIN help | cmp - <($EPTWIN --help) && echo "the same for -h and help"
$EPTWIN 2>&1 >/dev/null | cmp - <($EPTWIN --help) && echo "the same as an error"
$EPTWIN >/dev/null 2>&1
echo "exit $?"
$EPTWIN --version | sed 's|^eptwin [^ ]*$|eptwin VERSION|'
$EPTWIN -V | cmp - <($EPTWIN --version) && echo "the same for -V"
echo '# options shared with other commands: names alone, then explained'
$EPTWIN tune --help | sed -n '/^Options shared/,/^  On what/p'
$EPTWIN tune --help | grep -c 'Gate weights'
$EPTWIN tune --help all | grep -E 'Gate weights|--(combine-)?(nvl|rdma)-(chunk|buffer)|^Options shared' | tr -s ' '
$EPTWIN help tune all | cmp - <($EPTWIN tune -h all) && echo "the same for help COMMAND all"
$EPTWIN compare --help | cmp - <($EPTWIN compare --help all) && echo "the same where a command shares none"
$EPTWIN simulat
echo "exit $?"
$EPTWIN help simulat
echo "exit $?"
$EPTWIN colour
echo "exit $?"
$EPTWIN help simulate | cmp - <($EPTWIN simulate --help) && $EPTWIN help trace | cmp - <($EPTWIN trace --help) &&
    echo "the same for help COMMAND"
$EPTWIN ''
echo "exit $?"
$EPTWIN --help >/dev/full
echo "exit $?"
for command in trace cluster simulate which measure replay compare validate report fit; do
    $EPTWIN $command --help >help 2>errors || echo "$command --help: exit $?"
    [ -s help ] && [ ! -s errors ] || echo "$command --help: expected text on standard output alone"
done
