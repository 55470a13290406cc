# eptwin - build, test, measure.  `make help` lists the targets.

CC      ?= gcc
PREFIX  ?= /usr/local
SAN     ?=
V       ?=

comma    := ,
packages := glib-2.0 libzstd jansson libarchive
build    := build$(if $(SAN),-$(subst $(comma),-,$(SAN)))$(if $(filter clang%,$(notdir $(CC))),-clang)

ifneq ($(filter-out help clean uninstall,$(or $(MAKECMDGOALS),all)),)
ifneq ($(shell pkg-config --exists $(packages) && echo yes),yes)
$(error missing packages, which .ci/install installs: $(packages), libcsv, cunit)
endif
endif

have_verbs := $(shell pkg-config --exists libibverbs && echo 1)
have_ofi   := $(shell pkg-config --exists libfabric && echo 1)
ns3_libs     := -lns3-point-to-point -lns3-network -lns3-core
simgrid_libs := -lsimgrid
peers = $(shell for p in simgrid ns3; do [ -d /usr/include/$$p ] && echo $(build)/tests/peers/$$p; done)
have_sqlite := $(shell pkg-config --exists sqlite3 && echo 1)
have_pmix  := $(shell pkg-config --exists pmix && echo 1)

# A tarball has no commit to name.
release  := 0.2.0
commit   := $(if $(wildcard .git),$(shell git describe --always --dirty --exclude='*' 2>/dev/null))
version  := $(release)$(if $(commit),+$(commit))
optional := $(if $(have_verbs),libibverbs) $(if $(have_ofi),libfabric) $(if $(have_pmix),pmix) $(if $(have_sqlite),sqlite3)
CFLAGS   ?= -O2 -g
cflags   := -std=c11 -D_GNU_SOURCE -I. -Wall -Wextra -Werror -ffp-contract=off -fno-math-errno \
            $(shell pkg-config --cflags $(packages) $(optional)) $(CFLAGS) $(if $(SAN),-fsanitize=$(SAN) -fno-sanitize-recover=all) \
            $(if $(have_verbs),-DHAVE_VERBS) $(if $(have_ofi),-DHAVE_OFI) $(if $(have_pmix),-DHAVE_PMIX) \
            $(if $(have_sqlite),-DHAVE_SQLITE)
# libfabric is loaded when it is used: linked, it would cost every start 0.2 s (replay/links/ofi_library.c).
# No run-time search path: the linker's own finds Debian's libpmix.
libs     := $(filter-out -Wl$(comma)-rpath% -Wl$(comma)/%,$(shell pkg-config --libs $(packages) \
            $(filter-out libfabric,$(optional)))) -lcsv -lm -lpthread -lrt -ldl

sources  := $(filter-out sim/main.c,$(wildcard sim/*.c $(foreach d,models traces replay reports,$(d)/*.c $(d)/*/*.c $(d)/*/*/*.c)))
tidied   := $(patsubst %.c,$(build)/tidy/%.o,$(filter $(foreach d,moe coll hardware,models/$(d)/%) reports/import/% traces/%,$(sources)))
objects  := $(sources:%.c=$(build)/%.o) $(patsubst %,$(build)/%.o,$(wildcard models/kernels/*.loops) models/backends.ini \
            models/predict/accuracy.ini)
helpers  := $(patsubst %.c,$(build)/%.o,$(wildcard tests/support_*.c))
tests    := $(patsubst tests/%.c,$(build)/tests/%,$(wildcard tests/test_*.c))
benches  := $(patsubst tests/%.c,$(build)/tests/%,$(wildcard tests/bench_*.c))
scripts  := $(sort $(wildcard tests/cli/*.sh))

.PHONY: all demo check check-unit check-cli check-readme check-report check-verbs kills accuracy bench bench-peers fuzz tidy format
.PHONY: screenshot man install uninstall deb carry clean help
.PRECIOUS: $(build)/%.o

## all: the program, build/eptwin
all: $(build)/eptwin

$(build)/libeptwin.a: $(objects)
	@rm -f $@
	$(if $(V),,@echo '  AR  $@';) ar rcs $@ $^

$(build)/eptwin: $(build)/sim/main.o $(build)/libeptwin.a
	$(if $(V),,@echo '  LD  $@';) $(CC) $(cflags) -o $@ $^ $(libs)

$(build)/%.o: %.c Makefile
	@mkdir -p $(@D)
	$(if $(V),,@echo '  CC  $<';) $(CC) $(cflags) -MMD -MP -c -o $@ $<

# What takes millions of steps a run.  Sanitizers see more to warn of at -O3 than there is.
stepped  := $(filter sim/sim.c models/hardware/% models/moe/% models/coll/%,$(sources))
$(stepped:%.c=$(build)/%.o): cflags := $(if $(SAN),$(cflags),$(cflags:-O2=-O3))

# Sheets of loops, backends and errors are part of the program: their text, under symbols of their names
# (models/kernels/loops.c).
define text_object
	@mkdir -p $(@D)
	$(if $(V),,@echo '  LD  $@';) ld -r -b binary -z noexecstack -o $@ $<
endef
$(build)/%.loops.o: %.loops
	$(text_object)
$(build)/models/%.ini.o: models/%.ini
	$(text_object)

# The version changes with every commit, PREFIX with every installation: a stamp that changes with the value has the one
# object rebuilt that holds it, and only that.
stamp = @mkdir -p $(@D); echo '$(1)' | cmp -s - $@ || echo '$(1)' >$@
$(build)/version.stamp: FORCE
	$(call stamp,$(version))
$(build)/prefix.stamp: FORCE
	$(call stamp,$(PREFIX))
$(build)/sim/version.o: $(build)/version.stamp
$(build)/sim/version.o: cflags += -DEPTWIN_VERSION='"$(version)"'
$(build)/sim/share.o: $(build)/prefix.stamp
$(build)/sim/share.o: cflags += -DEPTWIN_PREFIX='"$(PREFIX)"'
FORCE:

# main() of the CUnit programs; an archive, so that programs with one of their own take that.
$(build)/tests/libunit.a: $(build)/tests/unit_main.o
	@rm -f $@
	$(if $(V),,@echo '  AR  $@';) ar rcs $@ $^

$(build)/tests/%: $(build)/tests/%.o $(helpers) $(build)/tests/libunit.a $(build)/libeptwin.a
	$(if $(V),,@echo '  LD  $@';) $(CC) $(cflags) -o $@ $^ $(libs) -lcunit

## demo: the main job: measure this machine, predict a captured trace, replay it, compare, write a page
demo: $(build)/eptwin
	@reports/demo $(build)/eptwin

## check: everything that proves the program right: unit tests, command-line tests, tidy
check: check-unit check-cli check-readme tidy

## check-unit: the CUnit programs, one a module
check-unit: $(build)/eptwin $(tests)
	@tests/run-unit $(tests)

## check-cli: command lines with their exact output
check-cli: $(build)/eptwin
	@EPTWIN=$(abspath $(build)/eptwin) tests/run-cli $(scripts)

## check-readme: what READMEs and guides show of eptwin, run as typed; README=update writes what is printed now
check-readme: $(build)/eptwin
	@EPTWIN=$(abspath $(build)/eptwin) tests/readme-examples $(if $(README),--$(README)) \
	    $(wildcard README.md */README.md */guide-*.md */*/README.md)

## check-verbs: conformance, two worlds and replays on real verbs (soft-RoCE) in a small virtual machine
check-verbs: $(build)/eptwin $(tests) $(build)/tests/bench_verbs
	@tests/vm/check-verbs $(build)

## kills: COUNT (200) signals to ranks at random moments, over each fabric; each run ends soon, names the rank, leaves nothing
kills: $(build)/eptwin
	@EPTWIN=$(abspath $(build)/eptwin) tests/kills $(COUNT) $(SEED)

## check-report: pages in Chromium: nothing cut, crossed or too wide, readable on a telephone, nothing that axe-core finds
check-report: $(build)/eptwin
	@tests/report/check $(build)

## screenshot: the picture of a report that reports/README.md shows, anew
screenshot: $(build)/eptwin
	@tests/report/screenshot $(build) reports/report.png

## accuracy: every published and measured case against its prediction, one table; ONLY='h100_* b200_ll' for some;
## all of them write models/predict/accuracy.ini, the errors that predictions print
accuracy: $(build)/eptwin
	@set -f; tests/accuracy/run $(build)/eptwin $(ONLY)

ifdef BASE
base := $(build)/base/$(shell git rev-parse --verify --short '$(BASE)^{commit}')
endif
## bench: speed of the engine, the readers and the simulator, medians of several runs; BASE=REV: beside that commit's
bench: $(build)/eptwin $(benches) $(if $(BASE),$(base)/build/eptwin)
	@tests/bench-runs $(build)/eptwin $(if $(BASE),$(base)/build/eptwin)
	@for b in $(benches); do $$b || exit 1; done

$(build)/base/%/build/eptwin:
	@mkdir -p $(build)/base/$* && git archive $* | tar -x -C $(build)/base/$*
	@+env -u MAKEFLAGS $(MAKE) -C $(build)/base/$* BASE= build/eptwin

## bench-peers: the same all-to-allv in SimGrid and ns-3, where they are installed; PEERS=all for the large ones too
bench-peers: $(build)/eptwin $(build)/tests/peers/list $(peers)
	@tests/peers/run $(build) $(PEERS)

$(build)/tests/peers/list: $(build)/tests/peers/list.o $(build)/libeptwin.a
	$(if $(V),,@echo '  LD  $@';) $(CC) $(cflags) -o $@ $^ $(libs)

$(build)/tests/peers/simgrid $(build)/tests/peers/ns3: $(build)/tests/peers/%: tests/peers/%.cpp Makefile
	@mkdir -p $(@D)
	$(if $(V),,@echo '  CXX $<';) $(CXX) -std=c++17 -O2 -Wall -Wextra -Werror -o $@ $< $($*_libs)

## fuzz: libFuzzer targets of every parser (FUZZ_SECONDS each, default 20; needs clang)
fuzz:
	@tests/fuzz/run $(or $(FUZZ_SECONDS),20)

## tidy: the rules of the architecture (includes, symbols, function length, words)
tidy: $(tidied)
	@tests/tidy $(build)/tidy

# Only symbols of these objects are looked at, so they are compiled in the quickest way.
$(build)/tidy/%.o: %.c Makefile
	@mkdir -p $(@D)
	$(if $(V),,@echo '  CC  $<';) $(CC) $(cflags) -O0 -g0 -MMD -MP -c -o $@ $<

## format: lays out all C as .clang-format says
format:
	@clang-format -i $$(git ls-files -co --exclude-standard '*.[ch]')

## man: manual pages of all commands, from their --help (needs help2man)
man: $(build)/eptwin
	@rm -rf $(build)/man && sim/packaging/man $(build)/eptwin $(build)/man

# Where everything goes: a folder and what lies in it.
share     := $(PREFIX)/share/eptwin
# What commands read and write (keys of cluster files, columns, rows, formats), and what these pages link to.
guides    := $(foreach d,models models/clusters models/step reports replay traces tests/accuracy tests/accuracy/threads, \
             $(wildcard $(d)/*.md)) reports/report.png
installed := $(PREFIX)/bin/eptwin $(share)/clusters $(share)/samples $(share)/nets $(share)/tables \
             $(PREFIX)/share/man/man1/eptwin*.1 $(PREFIX)/share/man/man5/eptwin*.5 \
             $(PREFIX)/share/bash-completion/completions/eptwin $(guides:%=$(PREFIX)/share/doc/eptwin/%)
have_man  := $(shell command -v help2man 2>/dev/null)

## install: program, clusters, samples, completion, guides and, with help2man, manual pages below PREFIX (default /usr/local)
install: all $(if $(have_man),man)
	install -D -m 755 $(build)/eptwin $(DESTDIR)$(PREFIX)/bin/eptwin
	install -D -m 644 -t $(DESTDIR)$(share)/clusters models/clusters/*.ini
	install -D -m 644 -t $(DESTDIR)$(share)/clusters/parts models/clusters/parts/*.ini
	install -D -m 644 -t $(DESTDIR)$(share)/samples traces/samples/*
	install -D -m 644 -t $(DESTDIR)$(share)/nets models/step/nets/*.json
	install -D -m 644 -t $(DESTDIR)$(share)/tables models/step/tables/*.csv.zst models/step/tables/*.ini
	install -D -m 644 sim/packaging/eptwin.bash $(DESTDIR)$(PREFIX)/share/bash-completion/completions/eptwin
	$(if $(have_man),install -D -m 644 -t $(DESTDIR)$(PREFIX)/share/man/man1 $(build)/man/*.1)
	$(if $(have_man),install -D -m 644 -t $(DESTDIR)$(PREFIX)/share/man/man5 $(build)/man/*.5)
	for guide in $(guides); do install -D -m 644 $$guide $(DESTDIR)$(PREFIX)/share/doc/eptwin/$$guide || exit 1; done

## uninstall: what install put below PREFIX
uninstall:
	rm -rf $(addprefix $(DESTDIR),$(installed))
	-rmdir $(DESTDIR)$(share) 2>/dev/null

## deb: a Debian package in build/ (needs help2man and dpkg-dev)
deb:
	@sim/packaging/deb $(build) $(release)

## carry: build/eptwin-carry.tar.gz, the program with its libraries: for GPU images that lack them
carry: $(build)/eptwin
	@sim/packaging/carry $(build)/eptwin $(release) $(build)/eptwin-carry.tar.gz

## clean: what was built
clean:
	rm -rf build build-*

## help: this list
help:
	@sed -n 's/^## //p' Makefile

-include $(shell find $(build) -name '*.d' 2>/dev/null)
