# Print an optspec for argparse to handle cmd's options that are independent of any subcommand.
function __fish_dio_global_optspecs
    string join \n h/help V/version
end

function __fish_dio_needs_command
    # Figure out if the current invocation already has a command.
    set -l cmd (commandline -opc)
    set -e cmd[1]
    argparse -s (__fish_dio_global_optspecs) -- $cmd 2>/dev/null
    or return
    if set -q argv[1]
        # Also print the command, so this can be used to figure out what it is.
        echo $argv[1]
        return 1
    end
    return 0
end

function __fish_dio_using_subcommand
    set -l cmd (__fish_dio_needs_command)
    test -z "$cmd"
    and return 1
    contains -- $cmd[1] $argv
end

complete -c dio -n "__fish_dio_needs_command" -s h -l help -d 'Print help'
complete -c dio -n "__fish_dio_needs_command" -s V -l version -d 'Print version'
complete -c dio -n "__fish_dio_needs_command" -f -a "cp" -d 'Copy files and trees past the page cache'
complete -c dio -n "__fish_dio_needs_command" -f -a "probe" -d 'Report what a path really does, by asking the kernel and by trying'
complete -c dio -n "__fish_dio_needs_command" -f -a "cache" -d 'Show which pages of files are in the page cache, and evict them'
complete -c dio -n "__fish_dio_needs_command" -f -a "bench" -d 'Measure reading and copying, direct and through the page cache'
complete -c dio -n "__fish_dio_needs_command" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c dio -n "__fish_dio_using_subcommand cp" -s t -l target-directory -d 'Copy all SOURCEs into DIRECTORY' -r -F
complete -c dio -n "__fish_dio_using_subcommand cp" -l preserve -d 'Keep these attributes: mode, ownership, timestamps, links, context, xattr, all' -r -f -a "mode\t'Permission bits and ACLs'
ownership\t'User and group'
timestamps\t'Times of access and modification, in nanoseconds'
links\t'Hard links among the files copied'
context\t'The SELinux context'
xattr\t'Extended attributes'
all\t'All of them'"
complete -c dio -n "__fish_dio_using_subcommand cp" -l no-preserve -d 'Do not keep these attributes' -r -f -a "mode\t'Permission bits and ACLs'
ownership\t'User and group'
timestamps\t'Times of access and modification, in nanoseconds'
links\t'Hard links among the files copied'
context\t'The SELinux context'
xattr\t'Extended attributes'
all\t'All of them'"
complete -c dio -n "__fish_dio_using_subcommand cp" -s u -l update -d 'Replace existing files: none of them, only those older than the source, or all' -r -f -a "none\t'Leave every existing file'
older\t'Replace files older than the source'
all\t'Replace every file'"
complete -c dio -n "__fish_dio_using_subcommand cp" -l sparse -d 'Make holes in the target: where the source has them, wherever it has zeros, or none' -r -f -a "auto\t'Where it is useful'
always\t'In every case'
never\t'In no case'"
complete -c dio -n "__fish_dio_using_subcommand cp" -l reflink -d 'Share the source\'s blocks: where the file system can, or fail if it cannot' -r -f -a "auto\t'Where it is useful'
always\t'In every case'
never\t'In no case'"
complete -c dio -n "__fish_dio_using_subcommand cp" -l mode -d 'How bytes move: past the page cache (direct), through it and out again at once (uncached), through it (cached), or chosen by size (auto)' -r -f -a "auto\t'Direct for large files, uncached for small ones'
direct\t'Between the disk and dio\'s buffers'
uncached\t'Through the page cache, dropped at once'
cached\t'Through the page cache'"
complete -c dio -n "__fish_dio_using_subcommand cp" -l small -d 'Largest file that --mode auto sends through a page cache that forgets, instead of directly' -r
complete -c dio -n "__fish_dio_using_subcommand cp" -l block -d 'Size of one transfer, 24M at most [default: 1M]' -r
complete -c dio -n "__fish_dio_using_subcommand cp" -l depth -d 'Transfers kept in flight, as far as 48M of buffers go [default: 16]' -r
complete -c dio -n "__fish_dio_using_subcommand cp" -l limit -d 'Move at most RATE bytes per second, e.g. 100M' -r
complete -c dio -n "__fish_dio_using_subcommand cp" -l progress -d 'Show how far the copy is' -r -f -a "auto\t'Where it is useful'
always\t'In every case'
never\t'In no case'"
complete -c dio -n "__fish_dio_using_subcommand cp" -l receipt -d 'Write a JSON account of the copy to FILE, or to standard output if FILE is -' -r -F
complete -c dio -n "__fish_dio_using_subcommand cp" -s T -l no-target-directory -d 'Treat DEST as a file to write, never as a directory to copy into'
complete -c dio -n "__fish_dio_using_subcommand cp" -s r -l recursive -d 'Copy directories and everything below them'
complete -c dio -n "__fish_dio_using_subcommand cp" -s a -l archive -d 'Copy everything as it is: -d -r --preserve=all'
complete -c dio -n "__fish_dio_using_subcommand cp" -s p -d 'Same as --preserve=mode,ownership,timestamps'
complete -c dio -n "__fish_dio_using_subcommand cp" -s d -d 'Same as --no-dereference --preserve=links'
complete -c dio -n "__fish_dio_using_subcommand cp" -s P -l no-dereference -d 'Copy symbolic links as links'
complete -c dio -n "__fish_dio_using_subcommand cp" -s L -l dereference -d 'Copy what symbolic links lead to'
complete -c dio -n "__fish_dio_using_subcommand cp" -s H -d 'Follow symbolic links named on the command line only'
complete -c dio -n "__fish_dio_using_subcommand cp" -s i -l interactive -d 'Ask before replacing a file'
complete -c dio -n "__fish_dio_using_subcommand cp" -s n -l no-clobber -d 'Leave existing files as they are'
complete -c dio -n "__fish_dio_using_subcommand cp" -s f -l force -d 'If an existing target cannot be opened, remove it and try again'
complete -c dio -n "__fish_dio_using_subcommand cp" -l remove-destination -d 'Remove an existing target file before trying to open it'
complete -c dio -n "__fish_dio_using_subcommand cp" -s l -l link -d 'Make hard links instead of copying'
complete -c dio -n "__fish_dio_using_subcommand cp" -s v -l verbose -d 'Name each file as it is copied'
complete -c dio -n "__fish_dio_using_subcommand cp" -s x -l one-file-system -d 'Stay on the file system of each SOURCE'
complete -c dio -n "__fish_dio_using_subcommand cp" -l parents -d 'Recreate the full path of each SOURCE under DIRECTORY'
complete -c dio -n "__fish_dio_using_subcommand cp" -l strict -d 'Fail where --mode cannot be had instead of falling back'
complete -c dio -n "__fish_dio_using_subcommand cp" -l atomic -d 'Write under a temporary name and rename, so that the target is the old or the new content at every instant'
complete -c dio -n "__fish_dio_using_subcommand cp" -l verify -d 'Read the copy back from the medium and compare it with what was read'
complete -c dio -n "__fish_dio_using_subcommand cp" -l resume -d 'Continue a copy that was cut short, keeping what is already there'
complete -c dio -n "__fish_dio_using_subcommand cp" -l no-sync -d 'Do not wait until data and names are on the disk'
complete -c dio -n "__fish_dio_using_subcommand cp" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c dio -n "__fish_dio_using_subcommand cp" -s V -l version -d 'Print version'
complete -c dio -n "__fish_dio_using_subcommand probe" -l json -d 'Print one JSON array with an object for each path'
complete -c dio -n "__fish_dio_using_subcommand probe" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c dio -n "__fish_dio_using_subcommand probe" -s V -l version -d 'Print version'
complete -c dio -n "__fish_dio_using_subcommand cache" -l evict -d 'Write dirty pages to the disk, then drop the pages, whoever loaded them'
complete -c dio -n "__fish_dio_using_subcommand cache" -l keep -d 'Never drop pages of a file that another process maps'
complete -c dio -n "__fish_dio_using_subcommand cache" -l json -d 'Print one JSON object'
complete -c dio -n "__fish_dio_using_subcommand cache" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c dio -n "__fish_dio_using_subcommand cache" -s V -l version -d 'Print version'
complete -c dio -n "__fish_dio_using_subcommand bench; and not __fish_seen_subcommand_from increments copy random help" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c dio -n "__fish_dio_using_subcommand bench; and not __fish_seen_subcommand_from increments copy random help" -s V -l version -d 'Print version'
complete -c dio -n "__fish_dio_using_subcommand bench; and not __fish_seen_subcommand_from increments copy random help" -f -a "increments" -d 'Read a cold file from front to back in small and large steps, cached and direct'
complete -c dio -n "__fish_dio_using_subcommand bench; and not __fish_seen_subcommand_from increments copy random help" -f -a "copy" -d 'Copy a cold file in blocks of 4 KiB, one at a time, and in large blocks, several in flight'
complete -c dio -n "__fish_dio_using_subcommand bench; and not __fish_seen_subcommand_from increments copy random help" -f -a "random" -d 'Read random blocks with several reads in flight'
complete -c dio -n "__fish_dio_using_subcommand bench; and not __fish_seen_subcommand_from increments copy random help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c dio -n "__fish_dio_using_subcommand bench; and __fish_seen_subcommand_from increments" -l size -d 'Bytes to read; steps below 4K read at most 2^20 steps of them' -r
complete -c dio -n "__fish_dio_using_subcommand bench; and __fish_seen_subcommand_from increments" -l dir -d 'Directory in which the file is made' -r -F
complete -c dio -n "__fish_dio_using_subcommand bench; and __fish_seen_subcommand_from increments" -l file -d 'Read at most SIZE bytes of this file instead' -r -F
complete -c dio -n "__fish_dio_using_subcommand bench; and __fish_seen_subcommand_from increments" -l runs -d 'Runs of each row, cached and direct in turns; medians are reported' -r
complete -c dio -n "__fish_dio_using_subcommand bench; and __fish_seen_subcommand_from increments" -l steps -d 'Bytes of each step, one row for each' -r
complete -c dio -n "__fish_dio_using_subcommand bench; and __fish_seen_subcommand_from increments" -l cold -d 'What is emptied before each run' -r -f -a "system\t'All caches of the system where that is allowed (for root), else the file\'s pages'
file\t'The pages of the file only'"
complete -c dio -n "__fish_dio_using_subcommand bench; and __fish_seen_subcommand_from increments" -l json -d 'Print one JSON object'
complete -c dio -n "__fish_dio_using_subcommand bench; and __fish_seen_subcommand_from increments" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c dio -n "__fish_dio_using_subcommand bench; and __fish_seen_subcommand_from increments" -s V -l version -d 'Print version'
complete -c dio -n "__fish_dio_using_subcommand bench; and __fish_seen_subcommand_from copy" -l size -d 'Bytes to copy in large blocks' -r
complete -c dio -n "__fish_dio_using_subcommand bench; and __fish_seen_subcommand_from copy" -l small-size -d 'Bytes to copy in blocks of 4 KiB' -r
complete -c dio -n "__fish_dio_using_subcommand bench; and __fish_seen_subcommand_from copy" -l block -d 'Bytes of a large block' -r
complete -c dio -n "__fish_dio_using_subcommand bench; and __fish_seen_subcommand_from copy" -l depth -d 'Large blocks in flight' -r
complete -c dio -n "__fish_dio_using_subcommand bench; and __fish_seen_subcommand_from copy" -l dir -d 'Directory in which source and target are made' -r -F
complete -c dio -n "__fish_dio_using_subcommand bench; and __fish_seen_subcommand_from copy" -l file -d 'Copy at most SIZE bytes of this file instead; the target is made in DIR' -r -F
complete -c dio -n "__fish_dio_using_subcommand bench; and __fish_seen_subcommand_from copy" -l runs -d 'Runs of each row, in turns; medians are reported' -r
complete -c dio -n "__fish_dio_using_subcommand bench; and __fish_seen_subcommand_from copy" -l cold -d 'What is emptied before each run' -r -f -a "system\t'All caches of the system where that is allowed (for root), else the file\'s pages'
file\t'The pages of the file only'"
complete -c dio -n "__fish_dio_using_subcommand bench; and __fish_seen_subcommand_from copy" -l json -d 'Print one JSON object'
complete -c dio -n "__fish_dio_using_subcommand bench; and __fish_seen_subcommand_from copy" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c dio -n "__fish_dio_using_subcommand bench; and __fish_seen_subcommand_from copy" -s V -l version -d 'Print version'
complete -c dio -n "__fish_dio_using_subcommand bench; and __fish_seen_subcommand_from random" -l size -d 'Bytes of the file' -r
complete -c dio -n "__fish_dio_using_subcommand bench; and __fish_seen_subcommand_from random" -l block -d 'Bytes of each read' -r
complete -c dio -n "__fish_dio_using_subcommand bench; and __fish_seen_subcommand_from random" -l depth -d 'Reads in flight, one row for each' -r
complete -c dio -n "__fish_dio_using_subcommand bench; and __fish_seen_subcommand_from random" -l seconds -d 'How long each run takes' -r
complete -c dio -n "__fish_dio_using_subcommand bench; and __fish_seen_subcommand_from random" -l runs -d 'Runs of each row, in turns; medians are reported' -r
complete -c dio -n "__fish_dio_using_subcommand bench; and __fish_seen_subcommand_from random" -l mode -d 'How the file is opened' -r -f -a "concurrent\t'No range locks'
direct\t'A lock of the range for each read'"
complete -c dio -n "__fish_dio_using_subcommand bench; and __fish_seen_subcommand_from random" -l engine -d 'The engine, instead of the one that probing finds' -r -f -a "uring\t'io_uring'
blocking\t'A pool of threads'"
complete -c dio -n "__fish_dio_using_subcommand bench; and __fish_seen_subcommand_from random" -l dir -d 'Directory in which the file is made' -r -F
complete -c dio -n "__fish_dio_using_subcommand bench; and __fish_seen_subcommand_from random" -l file -d 'Read at most SIZE bytes of this file instead' -r -F
complete -c dio -n "__fish_dio_using_subcommand bench; and __fish_seen_subcommand_from random" -l null -d 'Read nothing, to measure the harness itself'
complete -c dio -n "__fish_dio_using_subcommand bench; and __fish_seen_subcommand_from random" -l json -d 'Print one JSON object'
complete -c dio -n "__fish_dio_using_subcommand bench; and __fish_seen_subcommand_from random" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c dio -n "__fish_dio_using_subcommand bench; and __fish_seen_subcommand_from random" -s V -l version -d 'Print version'
complete -c dio -n "__fish_dio_using_subcommand bench; and __fish_seen_subcommand_from help" -f -a "increments" -d 'Read a cold file from front to back in small and large steps, cached and direct'
complete -c dio -n "__fish_dio_using_subcommand bench; and __fish_seen_subcommand_from help" -f -a "copy" -d 'Copy a cold file in blocks of 4 KiB, one at a time, and in large blocks, several in flight'
complete -c dio -n "__fish_dio_using_subcommand bench; and __fish_seen_subcommand_from help" -f -a "random" -d 'Read random blocks with several reads in flight'
complete -c dio -n "__fish_dio_using_subcommand bench; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c dio -n "__fish_dio_using_subcommand help; and not __fish_seen_subcommand_from cp probe cache bench help" -f -a "cp" -d 'Copy files and trees past the page cache'
complete -c dio -n "__fish_dio_using_subcommand help; and not __fish_seen_subcommand_from cp probe cache bench help" -f -a "probe" -d 'Report what a path really does, by asking the kernel and by trying'
complete -c dio -n "__fish_dio_using_subcommand help; and not __fish_seen_subcommand_from cp probe cache bench help" -f -a "cache" -d 'Show which pages of files are in the page cache, and evict them'
complete -c dio -n "__fish_dio_using_subcommand help; and not __fish_seen_subcommand_from cp probe cache bench help" -f -a "bench" -d 'Measure reading and copying, direct and through the page cache'
complete -c dio -n "__fish_dio_using_subcommand help; and not __fish_seen_subcommand_from cp probe cache bench help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c dio -n "__fish_dio_using_subcommand help; and __fish_seen_subcommand_from bench" -f -a "increments" -d 'Read a cold file from front to back in small and large steps, cached and direct'
complete -c dio -n "__fish_dio_using_subcommand help; and __fish_seen_subcommand_from bench" -f -a "copy" -d 'Copy a cold file in blocks of 4 KiB, one at a time, and in large blocks, several in flight'
complete -c dio -n "__fish_dio_using_subcommand help; and __fish_seen_subcommand_from bench" -f -a "random" -d 'Read random blocks with several reads in flight'
