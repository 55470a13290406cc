# What takes long or much memory is said on standard error before it runs; a bar follows on a terminal.  Runs are ended
# when they have said it.
long='--cluster h100-cx7 --num-ranks 4096 --num-experts 4096'
shape() { sed -E 's/about [0-9.]+ (s|min|h) and [0-9.]+ [MG]B of/about TIME and SIZE of/'; }
said() { # COMMAND...: the first line on standard error
    : >said
    $EPTWIN "$@" 2>said >out & pid=$!
    for turn in $(seq 1200); do [ "$(wc -l <said)" -gt 0 ] && break; sleep 0.1; done # whole lines
    kill -9 $pid; wait $pid 2>/dev/null
    head -1 said | shape; wc -c <out
}

echo '# what is short is silent'
$EPTWIN simulate --cluster h100-cx7 --num-ranks 16 >/dev/null; echo "status $?"
$EPTWIN simulate --cluster h100-cx7 --kernel normal --num-ranks 1024 --num-experts 1024 --num-tokens 512; echo "status $?"

echo '# one prediction, many of a trace, a sweep, a table'
said simulate $long
$EPTWIN trace generate t.ept --num-ranks 64 --num-tokens 1024 --num-experts 256 --steps 2 --layers 30
said simulate --cluster h100-cx7 --kernel normal --trace t.ept --steps all --layers all -j 2
said sweep --cluster h100-cx7 --kernel normal --num-ranks 64 --num-sms 2:25:2 --num-tokens 8192 --output s.csv -j 1
printf 'num-ranks,phase\n8,dispatch\n4096,dispatch\n' >cases.csv
said validate cases.csv --cluster h100-cx7 --output v.csv -j 1
ls v.csv s.csv 2>&1

echo '# a terminal gets the bar'
cat >terminal.py <<'P'
import os, pty, re, select, signal, sys
pid, terminal = pty.fork()
if pid == 0:
    os.environ['TERM'] = 'xterm'
    os.execv(os.environ['EPTWIN'], [os.environ['EPTWIN'], 'simulate'] + sys.argv[1:] + ['--output', 'record.csv'])
text = b''
while b'left' not in text and select.select([terminal], [], [], 200)[0]:
    try: text += os.read(terminal, 4096)
    except OSError: break
os.kill(pid, signal.SIGKILL)
os.waitpid(pid, 0)
words = text.decode().replace('\r', '\n').split('\n')
print(words[0].split(':')[0], [re.sub(r'[\d.]+', 'N', w.split('%')[0]) for w in words if 'events' in w][:1])
P
python3 terminal.py $long
