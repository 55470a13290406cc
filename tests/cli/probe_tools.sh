# What other tools print of a machine becomes the same description; what is none of them is refused.
cp source/tests/golden/topology/*.xml source/tests/golden/topology/*.txt .
"$EPTWIN" probe nccl_h200.xml
"$EPTWIN" probe nccl_gb10.xml smi_b200_fault.txt
"$EPTWIN" probe smi_h200.txt
"$EPTWIN" probe ibnet_edr.txt
echo "exit $?"
printf 'hello\n' >other.txt
"$EPTWIN" probe other.txt
echo "exit $?"
head -c 700 nccl_h200.xml >cut.xml
"$EPTWIN" probe cut.xml
echo "exit $?"
"$EPTWIN" probe missing.xml
echo "exit $?"
"$EPTWIN" probe nccl_h200.xml --save host.tar.zst
echo "exit $?"
"$EPTWIN" probe --root other.txt
echo "exit $?"
"$EPTWIN" probe --save host.tar.zst >live.txt
echo "exit $?"
"$EPTWIN" probe --root host.tar.zst | sed 's/host.tar.zst/this host/' | cmp - live.txt && echo 'the archive tells the same'
"$EPTWIN" probe --save no/folder/host.tar.zst >out.txt
echo "exit $?"
"$EPTWIN" probe nccl_h200.xml --output node.ini >out.txt
cat node.ini
"$EPTWIN" cluster check node.ini
echo "exit $?"
"$EPTWIN" probe ibnet_edr.txt --include h100-cx7 --output - | tee fabric.ini
"$EPTWIN" cluster check fabric.ini
echo "exit $?"
"$EPTWIN" simulate --cluster fabric.ini --num-ranks 32 | grep '^dispatch,all,bottleneck,'
echo "exit $?"
ls
