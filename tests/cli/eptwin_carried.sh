# The program with its libraries runs from any folder, takes each library from its own tree, and finds the files that ship.
source/sim/packaging/carry $EPTWIN 1.0 out.tar.gz
mkdir anywhere && tar -C anywhere -xzf out.tar.gz && cd anywhere
ls . eptwin-1.0
env -i eptwin-1.0/eptwin --version | sed 's/ .*/ VERSION/'
tree=$PWD/eptwin-1.0
"$tree"/lib/ld-* --library-path "$tree/lib" --list "$tree/bin/eptwin" | grep -v 'linux-vdso\|ld-linux' | grep -vc "=> $tree/lib/"
cd / && env -i "$tree/eptwin" cluster check h200 >/dev/null && echo "finds cluster files"
env -i "$tree/eptwin" step --net deepseek-v3 --cluster h800-cx7 --num-ranks 16 --batch 4 --layers 1 --output - |
    grep -c "^step,all,time_us,"
env -i "$tree/eptwin" replay --ranks 2 --num-experts 8 --num-tokens 8 --hidden 512 --repeat 1 | grep -c ',all,time_us,'
