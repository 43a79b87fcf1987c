# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# Builds weft: BPF objects, library, tool, examples, tests and benches. `make help` lists targets.

VERSION := 0.1.0
SOMAJOR := 0
O       ?= build
PREFIX  ?= /usr/local
LIBDIR  ?= $(PREFIX)/lib
CC      := $(if $(filter default,$(origin CC)),$(CROSS_COMPILE)gcc,$(CC))
CLANG   ?= clang
CFLAGS  ?= -O2 -g
SEEDS   ?= 20000
SECS    ?= 600

Q    := $(if $(V),,@)
say   = @$(if $(V),:,printf '  %-8s %s\n' $(1) $(2))
MAKEFLAGS += --no-builtin-rules
.DELETE_ON_ERROR:
.SECONDARY:
.PHONY: all unit fast-tests tests demo check check-fast check-vm sim drill bench bench-vm coverage lint format \
	clean help

all:

# ---- what is there to build (the tree decides) -------------------------------------------------
objs     = $(patsubst %,$(O)/obj/$(1)%.o,$(basename $(wildcard $(2))))
progs    = $(patsubst $(1)/%.c,$(O)/$(2)/%,$(filter-out $(3),$(wildcard $(1)/*.c)))

BPF_OBJ    := $(if $(wildcard bpf/weft.bpf.c),$(O)/weft.bpf.o)
SKEL       := $(if $(BPF_OBJ),$(O)/weft.skel.h)
REAPER     := $(if $(wildcard user/reaper/*.c),$(O)/weft-reaper)
REAPER_O   := $(if $(REAPER),$(O)/reaper_blob.o)
LIB_OBJS   := $(call objs,,user/*.c) $(REAPER_O)
LIBA       := $(if $(wildcard user/*.c),$(O)/libweft.a)
LIBSO      := $(if $(wildcard user/*.c),$(O)/libweft.so)
TOOL       := $(if $(wildcard tools/weft/*.c),$(O)/weft)
WEFTD      := $(if $(wildcard tools/weftd/*.c),$(O)/weftd)
DEMO       := $(if $(wildcard tools/demo/demo.c),$(O)/weft-demo)
EXAMPLES   := $(call progs,examples,examples)
BENCHES    := $(call progs,tools/bench,bench)
WIRE_C     := $(filter-out %.bpf.c,$(wildcard tests/net/wire*.c))
CAPTURE    := $(call objs,,tools/capture/*.c)
WIRELAB    := $(patsubst tests/net/%.c,$(O)/%.o,$(wildcard tests/net/*.bpf.c)) \
	$(if $(WIRE_C),$(O)/wirelab)
NET_PROGS  := $(call progs,tests/net,tests/net,%.bpf.c $(WIRE_C))
UNIT_PROGS := $(call progs,tests/unit,tests/unit)
SIM        := $(if $(wildcard tests/sim/*.c),$(O)/tests/sim/weft-sim)
SIM_SAN    := $(addsuffix -san,$(SIM))
SIM_COV    := $(addsuffix -cov,$(SIM))
BPF_TEST   := $(if $(wildcard tests/bpf/*.c),$(O)/tests/bpf/weft-bpf-test)

# ---- probes: once, and not for targets that install what is missing ----------------------------
NO_PROBE := demo check check-fast bench bench-vm deb uninstall lint format clean help
ifneq ($(filter-out $(NO_PROBE),$(or $(MAKECMDGOALS),all)),)
include $(O)/config.mk
endif

$(O)/config.mk: mk/probe.sh tools/packages.sh
	@mkdir -p $(@D)
	@CC=$(CC) CLANG=$(CLANG) SYSROOT=$(SYSROOT) mk/probe.sh build $@

$(O)/tests.probed: mk/probe.sh tools/packages.sh
	@mkdir -p $(@D)
	@CC=$(CC) SYSROOT=$(SYSROOT) mk/probe.sh tests && touch $@

# ---- flags -------------------------------------------------------------------------------------
# SYSROOT=DIR: headers and libraries of the machine that is built for, see tests/matrix/sysroot.sh.
ROOT      := $(if $(SYSROOT),--sysroot=$(SYSROOT))
# _GNU_SOURCE is defined empty so that a source which defines it as well does not clash.
WARN      := -Wall -Wextra $(if $(filter-out 0,$(WERROR)),-Werror)
DEPS       = -MMD -MP -MF $(@:=.d) -MT $@
INCS      := -Iinclude -Iuser -Itools -I$(O)
DEFS      := -D_GNU_SOURCE= -DWEFT_VERSION='"$(VERSION)"'
# snprintf that cuts is checked by its result where it matters; clang does not know that warning.
NO_WARN   := $(if $(findstring clang,$(CC)),,-Wno-format-truncation)
C_FLAGS    = -std=gnu11 $(ROOT) $(CPPFLAGS) $(CFLAGS) $(WARN) $(DEFS) $(INCS) $(NO_WARN)
# Programs take a context that some do not read. The object names its sources (BTF): not by the
# path on the machine that builds.
BPF_FLAGS  = -O2 -g -target bpf -mcpu=v3 $(ROOT) $(WARN) -Wno-unused-parameter -Iinclude -Ibpf \
	-I$(BPF_SYSINC) -ffile-prefix-map=$(CURDIR)=.
SAN_FLAGS := -O1 -g -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer
UB_FLAGS  := -O2 -g -fsanitize=undefined -fno-sanitize-recover=all
COV_FLAGS := -O0 -g --coverage -fkeep-inline-functions
LIBS      := -Wl,--as-needed -lxdp -lbpf -lmnl -lpthread -lm
TOOL_LIBS := $(LIBS) -ljson-c -lmicrohttpd -lncursesw -ltinfo
# A make of our own uses every core unless the caller chose a number of jobs.
SUBMAKE    = $(MAKE) --no-print-directory $(if $(findstring -j,$(MAKEFLAGS)),,-j$(shell nproc))
# $(call number,GOAL,NAME): a whole number, or make ends at once.
number     = $(if $(filter $(1),$(MAKECMDGOALS)),$(if $(shell printf %s '$($(2))' | tr -d 0-9),$(error \
	$(2)=$($(2)) is no whole number)))
$(call number,sim,SEEDS)$(call number,drill,SECS)$(call number,drill,SEED)$(call number,fuzz,TIME)
link       = $(Q)mkdir -p $(@D) && $(CC) $(ROOT) $(CFLAGS) $(LDFLAGS) -o $@ $(filter %.o %.a,$^)

all: $(BPF_OBJ) $(LIBA) $(LIBSO) $(TOOL) $(WEFTD) $(DEMO) $(EXAMPLES) $(WIRELAB)
unit: $(UNIT_PROGS)
fast-tests: all $(UNIT_PROGS) $(SIM) $(BPF_TEST)
tests: fast-tests $(SIM_SAN) $(NET_PROGS)

# ---- objects -----------------------------------------------------------------------------------
# $(call compile,OUTPUT PREFIX,SOURCE FOLDER,FLAGS,ORDER-ONLY PREREQUISITES)
define compile
$(O)/obj/$(1)$(2)/%.o: $(2)/%.c | $(4)
	$$(call say,CC,$$@)
	$$(Q)mkdir -p $$(@D) && $$(CC) $$(C_FLAGS) $(3) $$(DEPS) -c -o $$@ $$<
endef
$(eval $(call compile,,user,-fPIC,$(SKEL)))
$(eval $(call compile,,tools,,$(SKEL)))
$(eval $(call compile,,examples,,))
$(eval $(call compile,,tests,-Itests,$(SKEL) $(O)/tests.probed))
$(eval $(call compile,san/,tests,-Itests $(SAN_FLAGS),$(SKEL) $(O)/tests.probed))
$(eval $(call compile,ub/,tests,-Itests $(UB_FLAGS),))
$(eval $(call compile,cov/,tests,-Itests $(COV_FLAGS),))
# The wire laboratory serves the demo too, and needs no test library.
$(WIRE_C:%.c=$(O)/obj/%.o): $(O)/obj/%.o: %.c
	$(call say,CC,$@)
	$(Q)mkdir -p $(@D) && $(CC) $(C_FLAGS) -Itests $(DEPS) -c -o $@ $<

# ---- BPF ---------------------------------------------------------------------------------------
bpf_cc = $(Q)mkdir -p $(@D) && $(1) $(BPF_FLAGS) $(DEPS) -c -o $@ $<
$(O)/weft.bpf.o: bpf/weft.bpf.c
	$(call say,BPF,$@)
	$(call bpf_cc,$(CLANG))
	$(if $(LLVM_STRIP),$(Q)$(LLVM_STRIP) -g $@)

$(O)/%.bpf.o: tests/net/%.bpf.c
	$(call say,BPF,$@)
	$(call bpf_cc,$(CLANG))
	$(if $(LLVM_STRIP),$(Q)$(LLVM_STRIP) -g $@)

# struct weft_bpf, weft_bpf__open() and so on; likewise wirelab_bpf.
$(O)/%.skel.h: $(O)/%.bpf.o
	$(call say,SKEL,$@)
	$(Q)$(BPFTOOL) gen skeleton $< name $*_bpf >$@

include mk/matrix.mk

# ---- library -----------------------------------------------------------------------------------
$(O)/weft-reaper: $(call objs,,user/reaper/*.c user/dispatcher.c user/nic_prog.c)
	$(call say,LD,$@)
	$(link) -s $(LIBS)

# Symbols weft_reaper_blob .. weft_reaper_blob_end hold the helper's executable.
$(O)/reaper_blob.o: user/reaper_blob.S $(O)/weft-reaper
	$(call say,AS,$@)
	$(Q)$(CC) -DWEFT_REAPER_FILE='"$(O)/weft-reaper"' -c -o $@ $<

$(O)/libweft.a: $(LIB_OBJS)
	$(call say,AR,$@)
	$(Q)rm -f $@ && ar rcs $@ $(filter %.o,$^)

$(O)/libweft.so: $(LIB_OBJS) user/libweft.map
	$(call say,LD,$@)
	$(link) -shared -Wl,-soname,libweft.so.$(SOMAJOR) -Wl,--no-undefined \
		-Wl,--version-script=user/libweft.map $(LIBS)
	$(Q)ln -sf libweft.so $(O)/libweft.so.$(SOMAJOR)

# ---- programs ----------------------------------------------------------------------------------
$(O)/weft: $(call objs,,tools/weft/*.c) $(CAPTURE) $(LIBA)
	$(call say,LD,$@)
	$(link) $(TOOL_LIBS)

$(O)/weftd: $(call objs,,tools/weftd/*.c) $(LIBA)
	$(call say,LD,$@)
	$(link) $(TOOL_LIBS)

$(O)/weft-demo: $(O)/obj/tools/demo/demo.o $(LIBA)
	$(call say,LD,$@)
	$(link) $(TOOL_LIBS)

$(O)/wirelab: $(WIRE_C:%.c=$(O)/obj/%.o) $(CAPTURE)
	$(call say,LD,$@)
	$(link) $(TOOL_LIBS)

$(O)/examples/%: $(O)/obj/examples/%.o $(LIBA)
	$(call say,LD,$@)
	$(link) $(TOOL_LIBS)

$(O)/bench/register: $(LIBA)
$(O)/bench/%: $(O)/obj/tools/bench/%.o
	$(call say,LD,$@)
	$(link) $(TOOL_LIBS)

$(O)/tests/net/%: $(O)/obj/tests/net/%.o $(LIBA)
	$(call say,LD,$@)
	$(link) $(TOOL_LIBS)

$(O)/tests/unit/%: $(O)/obj/san/tests/unit/%.o
	$(call say,LD,$@)
	$(link) $(SAN_FLAGS) -lcmocka -lm

$(O)/tests/sim/weft-sim: $(call objs,,tests/sim/*.c)
	$(call say,LD,$@)
	$(link) -lm

$(O)/tests/sim/weft-sim-san: $(call objs,ub/,tests/sim/*.c)
	$(call say,LD,$@)
	$(link) $(UB_FLAGS) -lm

$(O)/tests/sim/weft-sim-cov: $(call objs,cov/,tests/sim/*.c)
	$(call say,LD,$@)
	$(link) $(COV_FLAGS) -lm

$(O)/tests/bpf/weft-bpf-test: $(call objs,,tests/bpf/*.c) $(CAPTURE) $(LIBA)
	$(call say,LD,$@)
	$(link) -lcmocka $(TOOL_LIBS)

include mk/fuzz.mk

# ---- jobs --------------------------------------------------------------------------------------
demo:
	@tools/install-deps.sh demo
	@$(SUBMAKE) all
	@O=$(O) tools/demo/demo.sh $(if $(FILE),"$(FILE)")

check:
	@tools/install-deps.sh check
	@$(SUBMAKE) tests clangs fuzzers
	@O=$(O) tools/check.sh

check-fast:
	@tools/install-deps.sh check
	@$(SUBMAKE) fast-tests
	@O=$(O) tools/check.sh --fast

check-vm: tests
	@O=$(O) vm/run.sh
	@O=$(O) vm/pair.sh
	@O=$(O) vm/pair.sh --kernel 6.12

sim: $(SIM)
	@$(SIM) --seeds $(SEEDS)

drill: $(WIRELAB) $(TOOL) $(WEFTD) $(O)/tests/net/netwrite $(O)/tests/net/stallmeter $(O)/labswitch.bpf.o
	@LAB_BUILD=$(abspath $(O)) DRILL_SECS=$(SECS) $(if $(SEED),SEED=$(SEED)) tests/net/test_drill.sh

coverage: $(SIM_COV)
	@O=$(O) tools/coverage.sh

bench:
	@tools/install-deps.sh bench
	@$(SUBMAKE) all bench-programs
	@O=$(O) tools/bench/bench.sh $(ONLY)

bench-vm:
	@tools/install-deps.sh bench-vm
	@$(SUBMAKE) all
	@O=$(O) vm/bench.sh $(ONLY)

.PHONY: bench-programs
bench-programs: $(BENCHES)

lint:
	@tools/lint.sh

format:
	@tools/lint.sh --fix

include mk/install.mk

clean:
	rm -rf $(O)

help:
	@echo 'make                 build everything but the tests (no root needed)'
	@echo 'make demo [FILE=F]   install what is needed, build, move F into another host memory'
	@echo 'make check           install, build, run every test'
	@echo 'make check-fast      the tests that fit into a minute'
	@echo 'make check-vm        the tests that need another kernel (QEMU)'
	@echo 'make sim [SEEDS=N]   the simulator over N seeds'
	@echo 'make drill [SECS=N]  hosts, links and processes that fail at random [SEED=N]'
	@echo 'make fuzz [TIME=N]   the fuzzers, N seconds in all; root: the loaded programs and rings too'
	@echo 'make coverage        line coverage of the protocol core under the simulator'
	@echo 'make bench [ONLY=R]  install the peers, measure, write $(O)/bench.json'
	@echo 'make bench-vm        weft and rdma_rxe (Soft-RoCE) in one guest (QEMU); $(O)/bench-vm.json'
	@echo 'make lint | format   style checks | apply clang-format'
	@echo 'make install         into $$(DESTDIR)$$(PREFIX), PREFIX=$(PREFIX); also uninstall'
	@echo 'make deb             packages for Debian, in $(O)/deb'
	@echo 'make verifier-update renew tests/verifier.tsv: what the programs cost the verifier'
	@echo 'make clean           remove $(O)'
	@echo
	@echo 'O=DIR build folder (build)  V=1 show commands  WERROR=1 warnings are errors'
	@echo 'CC, CLANG, CPPFLAGS, CFLAGS, LDFLAGS, CROSS_COMPILE, SYSROOT as usual'

-include $(shell find $(O) -path $(O)/vm -prune -o -path $(O)/matrix -prune -o -path $(O)/deb -prune \
	-o -name '*.d' -print 2>/dev/null)
