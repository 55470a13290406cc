# libfabric is loaded by who uses it and by nobody else: its constructors would cost every start 0.2 s.  Where it is
# broken or missing, --fabric ofi says so in a line.
LD_DEBUG=libs $EPTWIN --version 2>&1 | grep -c 'libfabric' || true
mkdir broken
echo "no library" >broken/libfabric.so.1
LD_LIBRARY_PATH=broken $EPTWIN replay --ranks 2 --ranks-per-node 1 --num-experts 8 --num-tokens 8 --hidden 512 --num-sms 2 \
    --fabric ofi --output out.csv 2>&1
echo "exit $?"
ls
