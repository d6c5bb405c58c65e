# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=bash
#
# Completion of roletrace for bash 4 and later; needs no other package. bash makes words of their own
# of "=" and ":".

# The processes that run a program, "PID COMM" a line (kernel threads have no command line).
_roletrace_processes() {
	local dir comm word
	for dir in /proc/[0-9]*; do
		if IFS= read -r -d '' word <"$dir/cmdline" && read -r comm <"$dir/comm"; then
			printf '%s %s\n' "${dir#/proc/}" "$comm"
		fi
	done 2>/dev/null
}

# A number completes pids, anything else names; where there are several they are listed with names.
_roletrace_pids() {
	local pid comm text
	while read -r pid comm; do
		[[ $1 == [0-9]* ]] && text=$pid || text=$comm
		[[ $text != "$1"* ]] || COMPREPLY+=("$pid ($comm)")
	done < <(_roletrace_processes)
	[ ${#COMPREPLY[@]} != 1 ] || COMPREPLY=("${COMPREPLY[0]%% *}")
}

_roletrace_names() {
	local names
	names=$(_roletrace_processes | cut -d ' ' -f 2-)
	local IFS=$'\n'
	mapfile -t COMPREPLY < <(compgen -W "$names" -- "$1" | sort -u)
}

_roletrace_words() {
	mapfile -t -O ${#COMPREPLY[@]} COMPREPLY < <(compgen -W "$1" -- "$2")
}

_roletrace_files() {
	compopt -o filenames 2>/dev/null
	mapfile -t -O ${#COMPREPLY[@]} COMPREPLY < <(compgen -f -- "$1")
}

# [FORMAT:]FILE
_roletrace_output() {
	_roletrace_words '- json: csv: csv-buckets: csv-threads: prom: html: svg: folded: pprof: speedscope:' "$1"
	[[ ${COMPREPLY[0]-} != *: ]] || compopt -o nospace 2>/dev/null
	_roletrace_files "$1"
}

_roletrace() {
	local cur=${COMP_WORDS[COMP_CWORD]} option=${COMP_WORDS[COMP_CWORD - 1]} command='' word
	local common='--crate --function --exclude --verbose'
	local list="$common --pid --exe --debug-file --profile --no-functions --exit --memory --allocator"
	local output='--output --sort --limit'
	COMPREPLY=()

	if [ "$cur" = : ] || [ "$option" = : ]; then
		_roletrace_files "${cur#:}"
		return
	fi
	if [ "$option" = = ]; then
		option=${COMP_WORDS[COMP_CWORD - 2]}
	fi
	cur=${cur#=}
	for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
		case $word in
		list | check | report | flame) command=${command:-$word} ;;
		--)
			# from there on it is the command to trace
			_roletrace_files "$cur"
			[ "$option" != -- ] || mapfile -t -O ${#COMPREPLY[@]} COMPREPLY < <(compgen -c -- "$cur")
			return
			;;
		esac
	done

	case $option in
	-p | --pid) _roletrace_pids "$cur" ;;
	-o | --output) _roletrace_output "$cur" ;;
	--name) _roletrace_names "$cur" ;;
	--exe | --debug-file | --diff) _roletrace_files "$cur" ;;
	--exit) _roletrace_words 'auto sites uretprobe' "$cur" ;;
	--budget) _roletrace_words 'off' "$cur" ;;
	--memory) _roletrace_words 'off growth live stacks' "$cur" ;;
	--allocator) _roletrace_words 'auto rust malloc all' "$cur" ;;
	--sort) _roletrace_words 'total calls avg p95 max self name' "$cur" ;;
	--kind) _roletrace_words 'cpu calls off-cpu wakers live alloc live-calls alloc-calls mapped faults' "$cur" ;;
	-d | --duration | -i | --interval | -f | --function | --stall | --crate | --exclude | --profile | --limit | --width | --max-blocks | --sample-bytes | --leak-after) ;;
	*)
		case $command,$cur in
		list,-*) _roletrace_words "$list" "$cur" ;;
		check,-*) _roletrace_words '--pid --memory --allocator --verbose' "$cur" ;;
		report,-*) _roletrace_words "$common $output --width" "$cur" ;;
		flame,-*) _roletrace_words '--output --kind --diff --verbose' "$cur" ;;
		report,* | flame,*) _roletrace_files "$cur" ;;
		,-*)
			_roletrace_words "$list $output --name --follow --no-threads --stall --duration --interval --budget --may-kill-target --raw
				--cpu-profile --off-cpu --off-cpu-min --by-thread --wakers --max-blocks --sample-bytes --leak-after
				--help --usage --version" "$cur"
			;;
		,*) _roletrace_words 'list check report flame' "$cur" ;;
		esac
		;;
	esac
}

complete -F _roletrace roletrace
