# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# Fuzzers: the datapath built for the host and the set-up messages under libFuzzer, with clang's sanitizers.

FUZZ_TARGETS := parse rx ack pair cm
FUZZERS      := $(FUZZ_TARGETS:%=$(O)/tests/fuzz/fuzz_%)
# Frames begin at odd multiples of 2, and a context has pointers of 32 bits, for the host as for BPF.
FUZZ_SAN     := -O1 -g -fsanitize=address,undefined -fno-sanitize=alignment,pointer-overflow \
	-fno-sanitize-recover=all -fno-omit-frame-pointer
FUZZ_FLAGS    = -std=gnu11 $(FUZZ_SAN) $(WARN) -Wno-unused-parameter $(DEFS) -Itests/fuzz/host $(INCS) -Ibpf
FUZZ_COMMON  := $(addprefix $(O)/obj/fuzz/,$(addsuffix .o,tests/fuzz/host tests/fuzz/host_sum tests/fuzz/model \
	tests/fuzz/draw tests/fuzz/queue tests/fuzz/flow tests/bpf/packet tests/bpf/setup user/tmpl))

.PHONY: fuzz fuzzers
fuzzers: $(FUZZERS) $(O)/tests/fuzz/weft-fuzz-prog

# TIME: seconds of fuzzing in all, on all processors; 10 minutes by default.
fuzz: fuzzers $(TOOL) $(O)/tests/net/netwrite
	@O=$(O) tests/fuzz/run.sh '$(or $(TIME),600)' prog rings rx ack pair parse cm

.PRECIOUS: $(O)/obj/fuzz/%.o
$(O)/obj/fuzz/%.o: %.c | $(O)/tests.probed
	$(call say,FUZZ-CC,$@)
	$(Q)mkdir -p $(@D) && $(CLANG) $(FUZZ_FLAGS) -fsanitize=fuzzer-no-link $(DEPS) -c -o $@ $<

$(O)/tests/fuzz/fuzz_cm: $(O)/obj/fuzz/tests/fuzz/fuzz_cm.o
	$(call say,LD,$@)
	$(Q)mkdir -p $(@D) && $(CLANG) $(FUZZ_SAN) -fsanitize=fuzzer -o $@ $^

$(O)/tests/fuzz/fuzz_%: $(O)/obj/fuzz/tests/fuzz/fuzz_%.o $(FUZZ_COMMON) tests/fuzz/libfuzzer.c
	$(call say,LD,$@)
	$(Q)mkdir -p $(@D) && $(CLANG) $(FUZZ_FLAGS) -DFUZZ_TARGET=fuzz_$* -fsanitize=fuzzer -o $@ \
		$(filter %.o,$^) tests/fuzz/libfuzzer.c

# The same harnesses over the loaded programs.
$(O)/tests/fuzz/weft-fuzz-prog: $(addprefix $(O)/obj/tests/,$(addsuffix .o,fuzz/prog fuzz/model fuzz/draw fuzz/flow \
		fuzz/fuzz_parse fuzz/fuzz_rx fuzz/fuzz_ack bpf/fixture bpf/setup bpf/packet)) $(LIBA)
	$(call say,LD,$@)
	$(link) -lcmocka $(TOOL_LIBS)

# An application that spoils what it shares with XDP.
RINGS := $(O)/tests/fuzz/rings
fuzzers: $(RINGS)
$(RINGS): $(O)/obj/tests/fuzz/rings.o $(LIBA)
	$(call say,LD,$@)
	$(link) $(LIBS)

# ---- failures of what the library calls --------------------------------------------------------
INJECT       := $(O)/tests/inject/inject
INJECT_CALLS := malloc calloc free mmap open openat ioctl syscall socket bind listen connect accept4 \
	setsockopt getsockname getpeername send write epoll_create1 epoll_ctl eventfd timerfd_create \
	pipe2 memfd_create mkdir mkdirat flock setns fopen opendir getaddrinfo pthread_create \
	bpf_map_create bpf_map_update_elem bpf_map_lookup_elem bpf_obj_pin bpf_obj_get_info_by_fd \
	bpf_link_create bpf_object__open_skeleton bpf_object__load_skeleton \
	bpf_object__destroy_skeleton mnl_socket_open2 \
	mnl_socket_bind mnl_socket_sendto process_vm_readv
fuzzers: $(INJECT)
$(INJECT): $(call objs,,tests/inject/*.c) $(LIBA)
	$(call say,LD,$@)
	$(link) $(INJECT_CALLS:%=-Wl,--wrap=%) $(LIBS)
