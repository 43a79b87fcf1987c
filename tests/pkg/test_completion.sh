#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# Completion in bash: every word of the tool's help can be completed, devices and QPNs are those
# that there are, and a tabulator in an interactive shell types it.
# shellcheck source-path=SCRIPTDIR source=pkg.sh
set -u
. "$(dirname "${BASH_SOURCE[0]}")/pkg.sh"
. "$ROOT/tools/completion/weft"
PATH=$LAB_BUILD:$PATH

# complete_line "LINE": what may stand at its end, in one line
complete_line() {
	# shellcheck disable=SC2034 # what the completion function reads
	local COMP_LINE=$1 COMP_WORDS COMP_CWORD COMPREPLY
	read -ra COMP_WORDS <<<"$1"
	[[ $1 != *' ' ]] || COMP_WORDS+=('')
	COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
	_weft "${COMP_WORDS[0]}"
	echo "${COMPREPLY[*]}"
}
# c LINE WORDS: exactly these
c() {
	t -- same "$2" "$(complete_line "$1")" ++ "${3:-"\"$1\": ${2:-nothing}"}"
}
# c_has LINE WORD...: among others
c_has() {
	local w got
	got=$(complete_line "$1")
	for w in "${@:2}"; do
		[[ " $got " = *" $w "* ]] || { echo "\"$1\" does not offer $w, but $got"; return 1; }
	done
}

# Every usage line of the tool, walked word by word: [ a ] taken, the first of { a | b }, values
# made up. What stands there must have been offered.
lines() {
	local o
	"$WEFT" help | sed -n 's/^ *\(weft [a-z].*\)/\1/p'
	for o in $("$WEFT" help | sed -n 's/^ *weft \([a-z]*\).*/\1/p' | sort -u); do
		"$WEFT" "$o" --help | sed -nE '/^$/q; s/^(usage:)? *(weft [a-z].*)/\2/p'
	done
}
walk() {
	local words w line
	while read -r words; do
		line=weft
		for w in $(sed -E 's/\{ *([^ |}]+)[^}]*\}/\1/g; s/\[([^] ]*:[^]]*)\]/\1/g; s/\[|\]//g; s/ +([^ |]+) *\|[^ ]*/ \1/g' \
			<<<"${words#weft}"); do
			case $w in
			*OPTIONS | ...) continue ;;
			[A-Z]*) ;;
			-*) c_has "$line ${w:0:1}" "$w" || return ;;
			*) c_has "$line ${w:0:1}" "$w" || return ;;
			esac
			line+=" ${w/#[A-Z]*/7}"
		done
	done < <(lines | sort -u)
}
options() {	# every option of the lists in the help of OBJECT [COMMAND]
	local o
	for o in $("$WEFT" "$@" --help | grep -oE '^ +(-[a-z], )?--?[a-z][-a-z]*' | tr -d ,); do
		c_has "weft ${*:1:2} -" "$o" || return
	done
}

lab_begin
c "weft" "" "nothing for the command itself"
t -- test "$(complete -p weft)" = "complete -F _weft weft" ++ "the function is registered"
t -- same "$("$WEFT" help | sed -nE 's/^ +weft ([a-z]+) .*/\1/p' | sort -u | xargs) help" \
	"$(complete_line "weft " | tr ' ' '\n' | grep -v '^help$' | xargs) help" ++ "all objects"
t -- walk ++ "every word of every usage line"
for o in '' 'perf server' 'perf write'; do
	# shellcheck disable=SC2086 # two words
	t -- options $o ++ "every option of 'weft $o --help'"
done
t -- c_has "weft up eth0 " port csum ++ "options of a command"
t -- c_has "weft up eth0 csum on " port ++ "in any order"
t ! c_has "weft up eth0 port 5 " port ++ "none twice"
c "weft up eth0 csum " "off on"
c "weft up eth0 port " ""
c "weft perf write eth0 10.0.0.1 --siz" "--size"
c "weft perf write eth0 10.0.0.1 --size " "" "a number is not made up"
t -- same "--help --json --netns --pretty --verbose --version -V -h -j -n -p -v" \
	"$(complete_line "weft -" | tr ' ' '\n' | LC_ALL=C sort | xargs)" ++ "options of the tool, and none of its objects"
c "weft nonsense " "help" "no nonsense behind nonsense"
c "weft stats show eth0 " "all"
t -- c_has "weft qp " set show help ++ "commands of an object"

# what there is at the moment
lab_pair 3498
c "weft -n $LAB_A up veth" "veth-a" "devices of the namespace of -n"
t -- c_has "weft -n " "$LAB_A" "$LAB_B" ++ "namespaces"
lab_spawn "$WEFT" -n "$LAB_B" perf server "$LAB_IF_B" >"$LAB_TMP/server"
server=$LAB_SPAWNED
t -- lab_wait_line "$LAB_TMP/server" ready "$server" ++ "a server"
lab_spawn "$WEFT" -n "$LAB_A" perf write "$LAB_IF_A" 10.9.0.2 --time 600 --size 64 --depth 1 --event --qps 2 \
	>"$LAB_TMP/client" 2>&1
client=$LAB_SPAWNED
qpns() {
	"$WEFT" -n "$LAB_A" -j qp show "$LAB_IF_A" | jq -r '.[] | .qpn' | while read -r n; do
		printf '0x%08x\n' "$n"
	done | sort | xargs
}
three() { [ "$(qpns | wc -w)" = 3 ]; }
t -- until_true 60 three ++ "a client with its QPs"
c "weft -n $LAB_A qp set $LAB_IF_A " "$(qpns)" "QPNs of the device"
t -- test -n "$(complete_line "weft -n $LAB_A qp set $LAB_IF_A ")" ++ "of which there are some"
c "weft -n $LAB_A qp trace $LAB_IF_A " "$(qpns)" "those that have a trace"
"$WEFT" -n "$LAB_A" up "$LAB_IF_A"
lab_stop "$server"
until_true 60 ended "$client"
lab_wait "$client"
failed=$("$WEFT" -n "$LAB_A" qp trace "$LAB_IF_A" | awk '{ print $3 }' | sort | xargs)
t -- test -n "$failed" ++ "when the server is gone there are traces"
c "weft -n $LAB_A qp trace $LAB_IF_A " "$failed" "of those that have failed"
c "weft -n $LAB_A qp set $LAB_IF_A " "" "which cannot be set any more"
"$WEFT" -n "$LAB_A" down "$LAB_IF_A"

# an interactive shell, with the completion where make install puts it
weft_make install DESTDIR="$LAB_TMP/root" PREFIX=/usr >/dev/null
cat >"$LAB_TMP/rc" <<RC
PS1='> ' PATH=$LAB_BUILD:\$PATH
export XDG_DATA_DIRS=$LAB_TMP/root/usr/share
. /usr/share/bash-completion/bash_completion
RC
typed() {	# typed KEYS WANTED: what the shell runs after these keys begins like that
	# shellcheck disable=SC2016 # for that shell
	printf '%b\nexit\n' "$1" | TERM=dumb timeout 120 script -qec \
		"bash --noprofile --rcfile $LAB_TMP/rc -i" /dev/null | tr -d '\r\a' | grep -F -- "$2"
}
t -- typed 'weft sta\t --help' 'weft stats  --help' ++ "a tabulator in an interactive shell"
t -- typed 'weft stats s\t--help' 'usage: weft stats [ show ]' ++ "what it typed is run"
tap_end
