# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# shellcheck shell=bash
# A Debian of its own without a network: a folder with the essential packages and those that are
# asked for, with what they depend on, copied from this machine along with dpkg's records (sourced).

# closure PACKAGE...: these and what they depend on, of what is installed here; a dependency that
# cannot be met is left to dpkg to complain about.
closure() {
	# shellcheck disable=SC2016 # for dpkg
	dpkg-query -W -f '${db:Status-Status}|${Package}|${Pre-Depends}, ${Depends}|${Provides}\n' |
		awk -F'|' -v want="$*" '
		# alternatives contain the separator, so put the line together again
		function names(s, out,    i, n) {
			gsub(/\([^)]*\)|:any|:native|\[[^]]*\]|[ \t]/, "", s)
			return split(s, out, ",")
		}
		$1 == "installed" {
			n = split($0, f, "|"); deps = f[3]
			for (i = 4; i < n; i++) deps = deps "|" f[i]
			needs[$2] = deps
			m = names(f[n], prov)
			for (i = 1; i <= m; i++) if (!(prov[i] in real)) real[prov[i]] = $2
		}
		function add(p,    i, j, n, m, all, alt) {
			if (!(p in needs)) p = real[p]
			if (p == "" || p in seen) return p != ""
			seen[p] = 1
			n = names(needs[p], all)
			for (i = 1; i <= n; i++) {
				m = split(all[i], alt, "|")
				for (j = 1; j <= m; j++) if (add(alt[j])) break
			}
			return 1
		}
		END {
			n = split(want, w, " ")
			for (i = 1; i <= n; i++) add(w[i])
			for (p in seen) print p
		}' | sort
}

# root_begin FOLDER: the essential packages
root_begin() {
	local d
	mkdir -p "$1"/{dev,proc,sys,run/netns,tmp,root,var/lib/dpkg/{info,updates,triggers},etc} || return
	for d in bin sbin lib lib32 lib64 libx32; do
		[ ! -L "/$d" ] || { mkdir -p "$1/usr/$d" && cp -a "/$d" "$1/$d"; } || return
	done
	cp /etc/{passwd,group,debian_version} "$1/etc"
	cp -a /etc/alternatives "$1/etc"
	cp /var/lib/dpkg/info/format "$1/var/lib/dpkg/info"
	: >"$1/var/lib/dpkg/status"
	# shellcheck disable=SC2016,SC2046 # for dpkg; names
	root_add "$1" $(dpkg-query -W -f '${Essential} ${Package}\n' | sed -n 's/^yes //p')
}

# root_add FOLDER PACKAGE...: more of them, with what they depend on
root_add() {
	local root=$1 dpkg=var/lib/dpkg arch new p f
	arch=$(dpkg --print-architecture)
	mapfile -t new < <(comm -23 <(closure "${@:2}") <(sed -n 's/^Package: //p' "$root/$dpkg/status" | sort))
	[ ${#new[@]} -gt 0 ] || return 0
	# what nobody needs to run or to build is left out
	dpkg-query -L "${new[@]}" | grep -E '^/' |
		grep -vE '^/usr/share/(doc|man|locale|info|lintian|zoneinfo)/|^/(lib|bin|sbin)[^/]*$' |
		sort -u | while read -r f; do [ ! -e "$f" ] || echo "$f"; done |
		cpio -pdu --quiet --preserve-modification-time "$root" || return
	for p in "${new[@]}"; do
		dpkg-query -s "$p" && echo
		for f in "/$dpkg/info/$p".* "/$dpkg/info/$p:$arch".*; do
			[ ! -e "$f" ] || cp -a "$f" "$root/$dpkg/info" || return
		done
	done >>"$root/$dpkg/status"
	ldconfig -r "$root"
}
