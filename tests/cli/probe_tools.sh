# What other tools print of a machine becomes the same description; what is none of them is refused.
cp source/tests/golden/topology/*.xml source/tests/golden/topology/*.txt .
"$EPTWIN" probe nccl_h200.xml
"$EPTWIN" probe nccl_gb10.xml smi_b200_fault.txt
"$EPTWIN" probe smi_h200.txt
"$EPTWIN" probe ibnet_edr.txt
echo "exit $?"
"$EPTWIN" probe iblinkinfo.txt
"$EPTWIN" probe ibstat.txt
"$EPTWIN" probe smi_h200.txt ibstat.txt | tail -n +20
for damage in "s/^CA 'mlx5_0'/CA 'mlx5_0/" 's/Number of ports: 1/Number of ports: 99/' 's/Rate: 400/Rate: fast/' '/Port 1/d'; do
    sed "$damage" ibstat.txt >damaged.txt
    "$EPTWIN" probe damaged.txt
    echo "exit $?"
done
# A virtual machine with an H100 and no NIC, as `probe --save` kept it: its cluster file can be read again.
"$EPTWIN" probe --root source/tests/golden/topology/host_h100_vm.tar.zst --output vm.ini
grep -A6 '^.node' vm.ini
"$EPTWIN" cluster check vm.ini
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
