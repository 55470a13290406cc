# Chakra execution traces of a tiny trace: who sends how much, byte by byte, and both sides alike.
cat >t.csv <<'END'
# experts: 2
step,layer,rank,token,expert0
0,0,0,0,1
0,0,0,1,1
0,0,0,2,0
0,0,1,0,1
END
"$EPTWIN" trace chakra t.csv out --dispatch-bytes 100 --combine-bytes 300
od -An -c out.0.et
strings -n 8 out.1.et
"$EPTWIN" trace generate skewed.ept --num-ranks 4 --num-experts 8 --num-topk 2 --num-tokens 16 --steps 2 --layers 2 >/dev/null
"$EPTWIN" trace chakra skewed.ept big --steps 1 && ls big.*
bad() { "$EPTWIN" trace chakra "$@"; echo "exit $?"; }
bad t.csv
bad t.csv x --dispatch-bytes 0
bad t.csv x --steps 3
bad t.csv no/such/folder/x
bad missing.csv x
ls
