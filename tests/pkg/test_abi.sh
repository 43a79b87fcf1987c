#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# The shared library's binary interface is the one in tests/pkg/abi: symbols with their versions,
# prototypes, layouts, enums (libweft.abi, of abidw) and constants of the header (constants).
#
#   test_abi.sh --update    # after a change that is meant: review the difference, commit it. What
#                           # programs linked before would not survive needs another SOMAJOR; a
#                           # release that is out keeps its node in user/libweft.map as it is.
# shellcheck source-path=SCRIPTDIR source=pkg.sh
set -u
. "$(dirname "${BASH_SOURCE[0]}")/pkg.sh"
cd "$ROOT" || exit
HEADER=include/weft/weft.h	# as the compiler saw it: by another name its types would count as private
REF=tests/pkg/abi
LIB=$LAB_BUILD/libweft.so

constants() {
	echo '#include <weft/weft.h>' | gcc -Iinclude -E -dM - |
		grep -E '^#define WEFT_[A-Z_]+ ' | grep -v WEFT_WEFT_H | sort
}

# exported: NAME@VERSION; declared: functions of the header
exported() {
	nm -D --defined-only --with-symbol-versions "$LIB" | awk '$2 == "T" { sub(/@@/, "@", $3); print $3 }'
}
declared() {
	gcc -Iinclude -x c -fsyntax-only -aux-info "$LAB_TMP/aux" "$HEADER" &&
		sed -nE 's/.*[ *](weft_[a-z_]+) \(.*/\1/p' "$LAB_TMP/aux"
}

abi_xml() {
	abidw --header-file "$HEADER" --exported-interfaces-only --drop-private-types --no-show-locs \
		--no-corpus-path --no-comp-dir-path --no-elf-needed --type-id-style hash --out-file "$1" "$LIB"
}

# No difference, also none that old programs would survive: all are to be seen in a review. Of two
# descriptions: compared with the library itself, what its header hides would count as filtered out.
abi_same() {
	abi_xml "$LAB_TMP/now.abi" && abidiff --harmless "$1" "$LAB_TMP/now.abi" || {
		echo "if this is meant: $0 --update"
		return 1
	}
}

# otherwise SED-SCRIPT WHAT: were the reference another, it would not pass
otherwise() {
	sed "$1" "$REF/libweft.abi" >"$LAB_TMP/other.abi"
	t ! abi_same "$LAB_TMP/other.abi" ++ "$2 would be noticed"
}

if [ "${1:-}" = --update ]; then
	mkdir -p "$REF" && abi_xml "$REF/libweft.abi" && constants >"$REF/constants"
	exit
fi

lab_begin
t -- abi_same "$REF/libweft.abi" ++ "symbols, prototypes, layouts and enums are those of tests/pkg/abi"
otherwise "s/\(layout-offset-in-bits='\)448'/\1480'/" "a moved member"
otherwise "s/name='wr_id'/name='id'/" "a renamed member"
otherwise "s/\(WEFT_WC_FLUSH_ERR' value='\)6/\19/" "another enum value"
otherwise "/elf-symbol name='weft_free'/d" "a new symbol"
otherwise "s/\(<elf-symbol name='weft_\)free'/\1release'/" "a symbol that is gone"
t -- same "$(sed -nE 's/^(struct|enum) (weft_[a-z_]+) \{.*/\2/p' "$HEADER" | sort)" \
	"$(sed -nE "s/.*<class-decl name='([a-z_]+)' size-in-bits.*/\1/p; s/.*<enum-decl name='([a-z_]+)'.*/\1/p" \
		"$REF/libweft.abi" | sort)" ++ "the reference has each struct and enum of the header"
t -- same "$(<"$REF/constants")" "$(constants)" ++ "so are the header's constants"
t -- same "$(declared | sort)" "$(exported | sed 's/@.*//' | sort)" ++ \
	"what the header declares is exported, and nothing else"
t -- empty "$(exported | grep -v '@WEFT_[0-9]*\.[0-9]*$')" ++ "every symbol has a version"
t -- same "$(exported | sed 's/.*@//' | sort -u)" \
	"$(sed -n 's/^\(WEFT_[0-9.]*\) {.*/\1/p' user/libweft.map | sort -u)" ++ \
	"and each version of the map has symbols"
t -- same "libweft.so.$(sed -n 's/^SOMAJOR := //p' Makefile)" \
	"$(readelf -d "$LIB" | sed -n 's/.*(SONAME).*\[\(.*\)\]/\1/p')" ++ "its soname has the major version"
t -- same "libbpf.so.1 libc.so.6 libmnl.so.0 libxdp.so.1" \
	"$(readelf -d "$LIB" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' | grep -v '^ld-linux' | sort | xargs)" ++ \
	"it needs libbpf, libxdp, libmnl and the C library"
t -- empty "$(readelf -lW "$LIB" | awk '$1 == "GNU_STACK" && /RWE/'; readelf -d "$LIB" | grep TEXTREL)" ++ \
	"its stack is not executable, its code not relocated"
t -- empty "$(nm -g --defined-only "$LAB_BUILD/libweft.a" |
	awk '$2 ~ /^[A-Z]$/ && $3 !~ /^weft_/ { print $3 }')" ++ \
	"the static library has no global name without weft_"
tap_end
