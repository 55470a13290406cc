# Secret files: all of their bytes count, a size is too much, and what is easily guessed or read is warned about.
umask 077
port=$((20000 + RANDOM % 12000))
join() { timeout 60 $EPTWIN replay --rank 0 --world-size 1 --root 127.0.0.1:$port --num-experts 8 --num-tokens 8 --hidden 512 \
    --repeat 1 --output out.csv --secret-file "$1" 2>&1; echo "exit $?"; }
head -c 4096 /dev/zero >largest
head -c 4097 /dev/zero >larger
printf '\n' >empty
echo 123456789012345 >short
echo 1234567890123456 >long
echo 1234567890123456 >open
chmod 644 open
for file in largest larger empty short long open /dev/zero absent .; do echo "\$ $file"; join $file; done
echo '$ a pipe'
timeout 60 $EPTWIN replay --rank 0 --world-size 1 --root 127.0.0.1:$port --num-experts 8 --num-tokens 8 --hidden 512 --repeat 1 \
    --output out.csv --secret-file <(echo 1234567890123456)
echo "exit $?"
