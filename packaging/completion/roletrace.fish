# SPDX-License-Identifier: BSD-2-Clause
#
# Completion of roletrace for fish.

# The processes that run a program, with their names (kernel threads have no command line).
function __roletrace_processes
    for dir in (string match --regex '^/proc/[0-9]+$' /proc/*)
        if test -r $dir/comm && read --null --local word <$dir/cmdline && read --local comm <$dir/comm
            printf '%s\t%s\n' (string replace /proc/ '' $dir) $comm
        end
    end
end

function __roletrace_outputs
    printf '%s\n' - json: csv: csv-buckets: csv-threads: prom: html: svg: folded: pprof: speedscope:
    set --local format (string match --regex '^[a-z-]+:' -- (commandline --current-token))
    if test -n "$format"
        printf "$format%s\n" (__fish_complete_path (string replace $format '' -- (commandline --current-token)))
    else
        __fish_complete_path (commandline --current-token)
    end
end

set --local tracing 'not __fish_seen_subcommand_from list check report flame'
set --local probing 'not __fish_seen_subcommand_from check report flame'
set --local asking 'not __fish_seen_subcommand_from report flame'
set --local choosing 'not __fish_seen_subcommand_from check flame'
set --local reporting 'not __fish_seen_subcommand_from list check flame'
set --local writing 'not __fish_seen_subcommand_from list check'

complete -c roletrace -f
complete -c roletrace -n $tracing -a list -d 'What would be probed'
complete -c roletrace -n $tracing -a check -d 'What this machine allows'
complete -c roletrace -n $tracing -a report -d 'A saved snapshot again'
complete -c roletrace -n $tracing -a flame -d 'Flamegraphs of a saved snapshot'
complete -c roletrace -n '__fish_seen_subcommand_from report flame' -F
complete -c roletrace -n '__fish_seen_subcommand_from flame' -l kind -x -a 'cpu calls off-cpu wakers live alloc live-calls alloc-calls mapped faults' -d 'Which stacks'
complete -c roletrace -n '__fish_seen_subcommand_from flame' -l diff -r -F -d 'What changed since this snapshot'
complete -c roletrace -n $asking -s p -l pid -x -a '(__roletrace_processes)' -d 'The process'
complete -c roletrace -n $probing -l exe -r -F -d 'The process that runs this file; for list the file'
complete -c roletrace -n $probing -l debug-file -r -F -d 'Separate debug file'
complete -c roletrace -n $tracing -l name -x -a '(__roletrace_processes | string replace --regex ".*\t" "" | sort -u)' -d 'The process of this name'
complete -c roletrace -n $tracing -l follow -d 'Trace the next one too'
complete -c roletrace -n $choosing -l crate -x -d 'Functions of this crate'
complete -c roletrace -n $choosing -s f -l function -x -d 'Functions of this name'
complete -c roletrace -n $choosing -l exclude -x -d 'But not functions of this name'
complete -c roletrace -n $probing -l profile -x -d 'Role profile'
complete -c roletrace -n $probing -l no-functions -d 'Probe no function'
complete -c roletrace -n $probing -l exit -x -a 'auto sites uretprobe' -d 'How ends of calls are seen'
complete -c roletrace -n $tracing -l no-threads -d 'Do not watch threads'
complete -c roletrace -n $tracing -l stall -x -d 'Tell what hangs for so many seconds'
complete -c roletrace -n $asking -l memory -x -a 'off growth live stacks' -d 'What of memory'
complete -c roletrace -n $asking -l allocator -x -a 'auto rust malloc all' -d 'Which layer of allocators'
complete -c roletrace -n $tracing -l max-blocks -x -d 'Live blocks to remember'
complete -c roletrace -n $tracing -l sample-bytes -x -d 'A sample of the blocks, one of so many bytes'
complete -c roletrace -n $tracing -l leak-after -x -d 'Age from which a block may be leaked'
complete -c roletrace -n $tracing -s d -l duration -x -d 'Stop after so many seconds'
complete -c roletrace -n $tracing -s i -l interval -x -d 'Seconds between two writings'
complete -c roletrace -n $tracing -l budget -x -a off -d 'What probes may cost, percent of a CPU'
complete -c roletrace -n $tracing -l cpu-profile -d 'Sample where threads run'
complete -c roletrace -n $tracing -l off-cpu -d 'Follow where threads wait'
complete -c roletrace -n $tracing -l off-cpu-min -x -d 'But not shorter than, microseconds'
complete -c roletrace -n $tracing -l by-thread -d 'Stacks by names of threads'
complete -c roletrace -n $tracing -l wakers -d 'And who ends the waits'
complete -c roletrace -n $tracing -l may-kill-target -d 'Return probes although they may kill it'
complete -c roletrace -n $tracing -l raw -d 'Do not correct durations'
complete -c roletrace -n $writing -s o -l output -x -a '(__roletrace_outputs)' -d 'Write [FORMAT:]FILE'
complete -c roletrace -n $reporting -l sort -x -a 'total calls avg p95 max self name' -d 'Order of rows'
complete -c roletrace -n $reporting -l limit -x -d 'Rows per table'
complete -c roletrace -n '__fish_seen_subcommand_from report' -l width -x -d 'Columns'
complete -c roletrace -s v -l verbose -d 'Say more'
complete -c roletrace -s '?' -l help -d 'Help'
complete -c roletrace -l usage -d 'A short usage message'
complete -c roletrace -s V -l version -d 'The version'
