# Every rule of tests/tidy finds the fault planted for it, in a small tree of its own.
mkdir -p tree/tests tree/sim tree/models/moe tree/replay tree/traces
cp "$SOURCE/tests/tidy" tree/tests/tidy
cp "$SOURCE/.clang-format" tree
# Not every machine has clang-format: a stand-in that finds fault with long.c.
mkdir bin
cat >bin/clang-format <<'END'
#!/bin/sh
[ "$1" = --version ] && echo 'clang-format version 14.0.6'
for file; do [ "$file" = traces/long.c ] && echo "$file:2:1: error: code should be clang-formatted [-Wclang-format-violations]"; done
exit 0
END
chmod +x bin/clang-format
PATH=$PWD/bin:$PATH
cd tree || exit 1

echo '/* sim.h - an engine. */' >sim/sim.h
printf '%s\n' '/* fabric.h - a seam. */' >models/fabric.h
printf '%s\n' '/* good.c - nothing wrong. */' '#include <stdint.h>' '#include "models/fabric.h"' >models/moe/good.c
echo 'fabric, sim' >sim/README.md; echo '- fabric' >models/README.md
echo '# nothing wrong'
sh tests/tidy nowhere

printf '%s\n' '/* arrow.c - arrows. */' '#include <glib.h>' '#include "sim/sim.h"' '#include "models/none.h"' >models/moe/arrow.c
printf '%s\n' '/* live.c - arrows. */' '#include "sim/sim.h"' >replay/live.c
mkdir -p models/hardware/machine
printf '%s\n' '/* graph.c - owns rates. */' 'long f(void) { return c->nic.rate_bps; }' >models/hardware/machine/graph.c
printf '%s\n' '/* reads.c - rates. */' 'long f(void) { return c->nic.rate_bps; }' \
    'long g(void) { return nic->rate_bps + node->pcie_rate_bps; }' \
    'long h(void) { return link->rate_bps; }' >models/hardware/machine/reads.c
printf '%s\n' '/* other name.c - paragraph. */' >traces/paragraph.c
mkdir -p reports && printf '%s\n' '/* live.c - the same name. */' >reports/live.c
{ echo '/* long.c - shape. */'; echo 'void f(void)'; echo '{'; seq -f '    g(%g);' 80; echo '}'
  printf '%0130d\n' 0; printf '\tint tab;\n'; echo 'int blank; '; } >traces/long.c
{ echo '/* words.c - words. */'; echo "/* TO""DO later */"; echo 'int a = ato''i("3");'
  echo '/* see /ho''me/me/notes */'; echo 'g_set_error(error, TRACE_ER''ROR, 0, "why");'; } >traces/words.c
printf '%s\n' '/* clock.c - clocks. */' '#include <time.h>' 'time_t now(void) { return time(0); }' >sim/clock.c
echo '## 1.4 Low latency' >models/moe/PROTOCOLS.md
printf '%s\n' '/* cites.c - citations. */' '/* PROTOCOLS.md 1.4, PROTOCOLS.md 1.5 */' "/* proto""cols.md 1 */" >traces/cites.c
echo 'see gone.c, sim.h, *_rest.c' >>sim/README.md; echo '/* bare.h - named nowhere. */' >traces/bare.h
mkdir models/kernels && printf '%s\n' '/* sites.h - sites. */' '    X(ONE)' '    X(TWO)' >models/kernels/sites.h
printf '%s\n' '# a sheet' 'ONE load 1 @ a:1' 'THREE load 1 @ a:1' >models/kernels/a.loops
echo 'int site = SITE_ONE;' >>models/moe/good.c; echo sites >models/kernels/README.md
echo '# a fault for each rule'
sh tests/tidy nowhere
echo "exit $?"

echo '# a symbol of another library'
echo sim >sim/README.md; rm -r replay reports traces models/hardware models/kernels sim/clock.c models/moe/arrow.c
printf '%s\n' '/* good.c - a symbol. */' 'double sin(double x);' 'double f(double x) { return sin(x); }' >models/moe/good.c
mkdir -p out/models/moe && cc -c -fno-builtin -o out/models/moe/good.o models/moe/good.c
sh tests/tidy out
echo "exit $?"

echo '# a circle of objects, and one that calls into it'
mkdir -p models/hardware/sm out/models/hardware/sm && rm out/models/moe/good.o
printf '%s\n' '/* one.c - a circle. */' 'void two(void);' 'void one(void) { two(); }' >models/hardware/sm/one.c
printf '%s\n' '/* two.c - a circle. */' 'void one(void);' 'void two(void) { one(); }' >models/hardware/sm/two.c
printf '%s\n' '/* top.c - none. */' 'void two(void);' 'void top(void) { two(); }' >models/hardware/sm/top.c
for name in one two top; do cc -c -o out/models/hardware/sm/$name.o models/hardware/sm/$name.c; done
sh tests/tidy out
echo "exit $?"
