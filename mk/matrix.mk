# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# The same BPF source by every compiler of the build matrix, and what each costs the verifier.

# weft.bpf.o is of one of them already.
CLANGS    := $(filter-out $(CLANG_MAJOR),14 16 19)
CLANG_BPF := $(if $(BPF_OBJ),$(CLANGS:%=$(O)/weft.clang%.bpf.o))

.PHONY: clangs verifier-update
clangs: $(CLANG_BPF)

$(O)/weft.clang%.bpf.o: bpf/weft.bpf.c
	$(call say,BPF,$@)
	$(call bpf_cc,clang-$*)
	$(if $(LLVM_STRIP),$(Q)$(LLVM_STRIP) -g $@)

# Here and in the guest of vm/run.sh.
verifier-update: $(BPF_OBJ) clangs
	@O=$(O) vm/run.sh --script tests/matrix/verifier-guest.sh
	@O=$(O) tests/matrix/test_verifier.sh --update
