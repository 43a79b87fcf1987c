# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# make install, uninstall and deb: what goes where (included by the Makefile).

BINDIR        ?= $(PREFIX)/bin
SBINDIR       ?= $(PREFIX)/sbin
UNITDIR       ?= $(PREFIX)/lib/systemd/system
INCLUDEDIR    ?= $(PREFIX)/include
MANDIR        ?= $(PREFIX)/share/man
COMPLETIONDIR ?= $(PREFIX)/share/bash-completion/completions
PKGCONFIGDIR  ?= $(LIBDIR)/pkgconfig
# Where libxdp looks for an object that is named without a path: with PREFIX=/usr and the LIBDIR of
# the distribution in its own folder, elsewhere through LIBXDP_OBJECT_PATH.
BPFDIR        ?= $(LIBDIR)/bpf

# MODE|SOURCE|DESTINATION of each file, and the links TARGET|DESTINATION
INST_FILES := \
	755|$(O)/weft|$(BINDIR)/weft \
	755|$(O)/weftd|$(SBINDIR)/weftd \
	644|$(O)/weftd.service|$(UNITDIR)/weftd.service \
	644|tools/weftd/weftd.conf|$(PREFIX)/share/weft/weftd.conf \
	644|$(O)/libweft.a|$(LIBDIR)/libweft.a \
	644|$(O)/libweft.so|$(LIBDIR)/libweft.so.$(VERSION) \
	644|$(O)/libweft.pc|$(PKGCONFIGDIR)/libweft.pc \
	644|$(O)/weft.bpf.o|$(BPFDIR)/weft.bpf.o \
	644|include/weft/weft.h|$(INCLUDEDIR)/weft/weft.h \
	644|tools/completion/weft|$(COMPLETIONDIR)/weft \
	644|tools/wireshark/weft.lua|$(PREFIX)/share/weft/weft.lua \
	$(foreach f,$(wildcard docs/man/*.[1-8]),644|$(f)|$(MANDIR)/man$(subst .,,$(suffix $(f)))/$(notdir $(f)))
INST_LINKS := \
	libweft.so.$(VERSION)|$(LIBDIR)/libweft.so.$(SOMAJOR) \
	libweft.so.$(SOMAJOR)|$(LIBDIR)/libweft.so
INST_BUILT := $(TOOL) $(WEFTD) $(O)/weftd.service $(LIBA) $(LIBSO) $(BPF_OBJ) $(O)/libweft.pc

part = $(word $(1),$(subst |, ,$(2)))
INST_PATHS := $(foreach f,$(INST_FILES),$(call part,3,$(f))) \
	$(foreach l,$(INST_LINKS),$(call part,2,$(l)))
# Folders that go when they are empty: in DESTDIR all, else those that a system does not come with.
INST_DIRS  := $(if $(DESTDIR),$(sort $(patsubst /%,%,$(dir $(INST_PATHS)))),$(filter-out \
	$(BINDIR) $(SBINDIR) $(LIBDIR),$(patsubst %/,%,$(sort $(dir $(INST_PATHS))))) \
	$(patsubst %/,%,$(dir $(COMPLETIONDIR)) $(dir $(UNITDIR))))

# Written anew each time: PREFIX and its kin are not among the prerequisites.
.PHONY: FORCE installable install uninstall deb
FORCE:
$(O)/libweft.pc: user/libweft.pc.in FORCE
	@mkdir -p $(@D)
	@sed -e 's|@PREFIX@|$(PREFIX)|' -e 's|@LIBDIR@|$(patsubst $(PREFIX)/%,$${prefix}/%,$(LIBDIR))|' \
		-e 's|@INCLUDEDIR@|$(patsubst $(PREFIX)/%,$${prefix}/%,$(INCLUDEDIR))|' \
		-e 's|@BPFDIR@|$(patsubst $(PREFIX)/%,$${prefix}/%,$(BPFDIR))|' \
		-e 's|@VERSION@|$(VERSION)|' $< >$@

$(O)/weftd.service: tools/weftd/weftd.service FORCE
	@mkdir -p $(@D)
	@sed -e 's|@SBINDIR@|$(SBINDIR)|' $< >$@

# What `make install` installs, and nothing else.
installable: $(INST_BUILT)

define newline


endef
install: installable
	$(foreach f,$(INST_FILES),$(Q)install -D -m $(call part,1,$(f)) $(call part,2,$(f)) \
		"$(DESTDIR)$(call part,3,$(f))"$(newline)	)
	$(foreach l,$(INST_LINKS),$(Q)ln -sf $(call part,1,$(l)) "$(DESTDIR)$(call part,2,$(l))"$(newline)	)
	@echo "installed into $(DESTDIR)$(PREFIX)$(if $(DESTDIR),,; 'ldconfig' makes the library known)"

# rmdir -p stops at DESTDIR, since it sees the path from there on.
uninstall:
	$(Q)rm -f $(foreach p,$(INST_PATHS),"$(DESTDIR)$(p)")
	$(Q)$(if $(DESTDIR),cd "$(DESTDIR)" 2>/dev/null || exit 0;) for d in $(INST_DIRS); do \
		[ ! -d "$$d" ] || rmdir $(if $(DESTDIR),-p) --ignore-fail-on-non-empty "$$d"; done

# Packages for Debian, in $(O)/deb.
deb:
	@tools/install-deps.sh deb
	@VERSION=$(VERSION) O=$(O) tools/deb/build.sh
