# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# shellcheck shell=bash
# Which files make up the tree (sourced): lint and packages take the same.

# The files, tracked or new, from the tree's top; a tarball has no git to ask.
tree_files() {
	{
		git ls-files -co --exclude-standard 2>/dev/null ||
			find . -type f -not -path './build*' | sed 's|^\./||'
	} | while read -r f; do [ ! -f "$f" ] || echo "$f"; done | sort
}
