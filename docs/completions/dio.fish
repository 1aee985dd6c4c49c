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
complete -c dio -n "__fish_dio_needs_command" -f -a "cat" -d 'Write files to standard output, past the page cache'
complete -c dio -n "__fish_dio_needs_command" -f -a "dd" -d 'Copy and convert a file, as the operands say, past the page cache'
complete -c dio -n "__fish_dio_needs_command" -f -a "tar" -d 'Write and read archives, past the page cache'
complete -c dio -n "__fish_dio_needs_command" -f -a "tee" -d 'Copy standard input to standard output and to files, past the page cache'
complete -c dio -n "__fish_dio_needs_command" -f -a "split" -d 'Put pieces of a file into files of their own, past the page cache'
complete -c dio -n "__fish_dio_needs_command" -f -a "sort" -d 'Sort lines of text, past the page cache'
complete -c dio -n "__fish_dio_needs_command" -f -a "uniq" -d 'Leave out or count lines that are as the one before, past the page cache'
complete -c dio -n "__fish_dio_needs_command" -f -a "sum" -d 'Compute or check digests, many of them in one read of each file'
complete -c dio -n "__fish_dio_needs_command" -f -a "md5sum" -d 'Compute or check MD5 digests'
complete -c dio -n "__fish_dio_needs_command" -f -a "sha1sum" -d 'Compute or check SHA-1 digests'
complete -c dio -n "__fish_dio_needs_command" -f -a "sha224sum" -d 'Compute or check SHA-224 digests'
complete -c dio -n "__fish_dio_needs_command" -f -a "sha256sum" -d 'Compute or check SHA-256 digests'
complete -c dio -n "__fish_dio_needs_command" -f -a "sha384sum" -d 'Compute or check SHA-384 digests'
complete -c dio -n "__fish_dio_needs_command" -f -a "sha512sum" -d 'Compute or check SHA-512 digests'
complete -c dio -n "__fish_dio_needs_command" -f -a "b2sum" -d 'Compute or check BLAKE2b digests'
complete -c dio -n "__fish_dio_needs_command" -f -a "b3sum" -d 'Compute or check BLAKE3 digests'
complete -c dio -n "__fish_dio_needs_command" -f -a "cksum" -d 'Compute or check a digest, by default the CRC of POSIX'
complete -c dio -n "__fish_dio_needs_command" -f -a "gzip" -d 'Compress files, or decompress them, on all cores and past the page cache'
complete -c dio -n "__fish_dio_needs_command" -f -a "gunzip" -d 'Decompress files, on all cores and past the page cache'
complete -c dio -n "__fish_dio_needs_command" -f -a "zcat" -d 'Decompress files to standard output'
complete -c dio -n "__fish_dio_needs_command" -f -a "zstd" -d 'Compress files, or decompress them, in the format of Zstandard, on all cores and past the page cache'
complete -c dio -n "__fish_dio_needs_command" -f -a "unzstd" -d 'Decompress files in the format of Zstandard'
complete -c dio -n "__fish_dio_needs_command" -f -a "zstdcat" -d 'Decompress files in the format of Zstandard to standard output'
complete -c dio -n "__fish_dio_needs_command" -f -a "mount" -d 'Mount a directory so that the I/O of every program below it is direct or concurrent'
complete -c dio -n "__fish_dio_needs_command" -f -a "umount" -d 'Unmount directories that dio mounted'
complete -c dio -n "__fish_dio_needs_command" -f -a "install-mount-helper" -d 'Make mount -t fuse.dio and lines in fstab work'
complete -c dio -n "__fish_dio_needs_command" -f -a "run" -d 'Run a command with directories mounted so that its I/O is direct or concurrent'
complete -c dio -n "__fish_dio_needs_command" -f -a "stat" -d 'Show what a dio mount does: requests, latencies, bytes by class, and what requests are blocked on'
complete -c dio -n "__fish_dio_needs_command" -f -a "stripe" -d 'Make, show and check files that are striped over several directories or devices'
complete -c dio -n "__fish_dio_needs_command" -f -a "probe" -d 'Report what a path really does, by asking the kernel and by trying'
complete -c dio -n "__fish_dio_needs_command" -f -a "cache" -d 'Show which pages of files are in the page cache, and evict them'
complete -c dio -n "__fish_dio_needs_command" -f -a "advise" -d 'Say whether the I/O of a command should be direct, what that would gain, and whether it is true'
complete -c dio -n "__fish_dio_needs_command" -f -a "record" -d 'Run a command and record its requests to files'
complete -c dio -n "__fish_dio_needs_command" -f -a "replay" -d 'Make the requests of a trace again, on other files'
complete -c dio -n "__fish_dio_needs_command" -f -a "bench" -d 'Measure reading, copying, committing and waiting for locks, direct and through the page cache'
complete -c dio -n "__fish_dio_needs_command" -f -a "report" -d 'Make one page from the results of benchmarks, with plots, tables and the published figures beside them'
complete -c dio -n "__fish_dio_needs_command" -f -a "synctest" -d 'Find the fastest way to make writes durable here, and whether the disk keeps its word'
complete -c dio -n "__fish_dio_needs_command" -f -a "wal" -d 'Look at a durable log, follow it, archive it, take out what damage has left, and measure a new one'
complete -c dio -n "__fish_dio_needs_command" -f -a "self" -d 'Set up this program'
complete -c dio -n "__fish_dio_needs_command" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c dio -n "__fish_dio_using_subcommand cp" -s t -l target-directory -d 'Copy all SOURCEs into DIRECTORY' -r -f -a "(__fish_complete_directories)"
complete -c dio -n "__fish_dio_using_subcommand cp" -l preserve -d 'Keep these attributes: mode, ownership, timestamps, links, context, xattr, all' -r -f -a "mode\t'Permission bits and ACLs'
timestamps\t'Times of access and modification, in nanoseconds'
ownership\t'User and group'
links\t'Hard links among the files copied'
context\t'The SELinux context'
xattr\t'Extended attributes'
all\t'All of them'"
complete -c dio -n "__fish_dio_using_subcommand cp" -l no-preserve -d 'Do not keep these attributes' -r -f -a "mode\t'Permission bits and ACLs'
timestamps\t'Times of access and modification, in nanoseconds'
ownership\t'User and group'
links\t'Hard links among the files copied'
context\t'The SELinux context'
xattr\t'Extended attributes'
all\t'All of them'"
complete -c dio -n "__fish_dio_using_subcommand cp" -s u -l update -d 'Replace existing files: none of them, only those older than the source, or all' -r -f -a "none\t'Leave every existing file'
older\t'Replace files older than the source'
all\t'Replace every file'"
complete -c dio -n "__fish_dio_using_subcommand cp" -l sparse -d 'Make holes in the target: where the source has them, wherever it has zeros, or none' -r -f -a "never\t'In no case'
auto\t'Where it is useful'
always\t'In every case'"
complete -c dio -n "__fish_dio_using_subcommand cp" -l reflink -d 'Share the source\'s blocks: where the file system can, or fail if it cannot' -r -f -a "auto\t'Where it is useful'
always\t'In every case'
never\t'In no case'"
complete -c dio -n "__fish_dio_using_subcommand cp" -l mode -d 'How bytes of files move: past the page cache (direct), through it and out again at once (uncached), through it (cached), or chosen by size (auto)' -r -f -a "auto\t'Direct for large files, uncached for small ones'
direct\t'Between the disk and dio\'s buffers'
uncached\t'Through the page cache, dropped at once'
cached\t'Through the page cache'"
complete -c dio -n "__fish_dio_using_subcommand cp" -l small -d 'Largest file that --mode auto sends through a page cache that forgets, instead of directly' -r
complete -c dio -n "__fish_dio_using_subcommand cp" -l block -d 'Size of one transfer, 24M at most [default: 1M]' -r
complete -c dio -n "__fish_dio_using_subcommand cp" -l depth -d 'Transfers kept in flight, as far as 48M of buffers go [default: 16; more for striped files, which have 4 for each target]' -r
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
complete -c dio -n "__fish_dio_using_subcommand cp" -s h -l help -d 'Print help'
complete -c dio -n "__fish_dio_using_subcommand cp" -s V -l version -d 'Print version'
complete -c dio -n "__fish_dio_using_subcommand cp" -l strict -d 'Fail where --mode cannot be had instead of falling back'
complete -c dio -n "__fish_dio_using_subcommand cp" -l atomic -d 'Write under a temporary name and rename, so that the target is the old or the new content at every instant'
complete -c dio -n "__fish_dio_using_subcommand cp" -l verify -d 'Read the copy back from the medium and compare it with what was read'
complete -c dio -n "__fish_dio_using_subcommand cp" -l resume -d 'Continue a copy that was cut short, keeping what is already there'
complete -c dio -n "__fish_dio_using_subcommand cp" -l no-sync -d 'Do not wait until data and names are on the disk'
complete -c dio -n "__fish_dio_using_subcommand cat" -l mode -d 'How bytes of files move: past the page cache (direct), through it and out again at once (uncached), through it (cached), or chosen by size (auto)' -r -f -a "auto\t'Direct for large files, uncached for small ones'
direct\t'Between the disk and dio\'s buffers'
uncached\t'Through the page cache, dropped at once'
cached\t'Through the page cache'"
complete -c dio -n "__fish_dio_using_subcommand cat" -l block -d 'Size of one request, 32M at most [default: 1M]' -r
complete -c dio -n "__fish_dio_using_subcommand cat" -l depth -d 'Requests kept in flight, as far as 64M of buffers go [default: 8; of a striped file, 4 for each target if that is more]' -r
complete -c dio -n "__fish_dio_using_subcommand cat" -l progress -d 'Show how far the work is' -r -f -a "auto\t'Where it is useful'
always\t'In every case'
never\t'In no case'"
complete -c dio -n "__fish_dio_using_subcommand cat" -l receipt -d 'Write a JSON account of what was moved and how to FILE, or to standard output if FILE is -' -r -F
complete -c dio -n "__fish_dio_using_subcommand cat" -s A -l show-all -d 'Show everything: -v -E -T'
complete -c dio -n "__fish_dio_using_subcommand cat" -s b -l number-nonblank -d 'Number the lines that are not empty; stronger than -n'
complete -c dio -n "__fish_dio_using_subcommand cat" -s e -d 'Same as -v -E'
complete -c dio -n "__fish_dio_using_subcommand cat" -s E -l show-ends -d 'Put $ at the end of each line'
complete -c dio -n "__fish_dio_using_subcommand cat" -s n -l number -d 'Number all lines'
complete -c dio -n "__fish_dio_using_subcommand cat" -s s -l squeeze-blank -d 'Keep one of several empty lines in a row'
complete -c dio -n "__fish_dio_using_subcommand cat" -s t -d 'Same as -v -T'
complete -c dio -n "__fish_dio_using_subcommand cat" -s T -l show-tabs -d 'Show tabs as ^I'
complete -c dio -n "__fish_dio_using_subcommand cat" -s u -d 'Accepted for POSIX: what one read gave is passed on at once in any case'
complete -c dio -n "__fish_dio_using_subcommand cat" -s v -l show-nonprinting -d 'Show what does not print, as ^X and M-X, except tabs and newlines'
complete -c dio -n "__fish_dio_using_subcommand cat" -l help -d 'Print help'
complete -c dio -n "__fish_dio_using_subcommand cat" -l version -d 'Print version'
complete -c dio -n "__fish_dio_using_subcommand cat" -l strict -d 'Fail where --mode cannot be had instead of falling back'
complete -c dio -n "__fish_dio_using_subcommand dd" -l mode -d 'How bytes of files move: past the page cache (direct), through it and out again at once (uncached), through it (cached), or chosen by size (auto)' -r -f -a "auto\t'Direct for large files, uncached for small ones'
direct\t'Between the disk and dio\'s buffers'
uncached\t'Through the page cache, dropped at once'
cached\t'Through the page cache'"
complete -c dio -n "__fish_dio_using_subcommand dd" -l block -d 'Size of one request, 32M at most [default: 1M]' -r
complete -c dio -n "__fish_dio_using_subcommand dd" -l depth -d 'Requests kept in flight, as far as 64M of buffers go [default: 8; of a striped file, 4 for each target if that is more]' -r
complete -c dio -n "__fish_dio_using_subcommand dd" -l progress -d 'Show how far the work is' -r -f -a "auto\t'Where it is useful'
always\t'In every case'
never\t'In no case'"
complete -c dio -n "__fish_dio_using_subcommand dd" -l receipt -d 'Write a JSON account of what was moved and how to FILE, or to standard output if FILE is -' -r -F
complete -c dio -n "__fish_dio_using_subcommand dd" -l strict -d 'Fail where --mode cannot be had instead of falling back'
complete -c dio -n "__fish_dio_using_subcommand dd" -s h -l help -d 'Print help'
complete -c dio -n "__fish_dio_using_subcommand dd" -s V -l version -d 'Print version'
complete -c dio -n "__fish_dio_using_subcommand tar" -l add-file -d 'Add FILE, whatever its name begins with' -r -F
complete -c dio -n "__fish_dio_using_subcommand tar" -s C -l directory -d 'Change to DIR' -r -f -a "(__fish_complete_directories)"
complete -c dio -n "__fish_dio_using_subcommand tar" -s T -l files-from -d 'Take names from FILE, one a line' -r -F
complete -c dio -n "__fish_dio_using_subcommand tar" -l exclude -d 'Leave out what matches PATTERN' -r
complete -c dio -n "__fish_dio_using_subcommand tar" -s X -l exclude-from -d 'Leave out what matches a pattern in FILE' -r -F
complete -c dio -n "__fish_dio_using_subcommand tar" -l exclude-tag -d 'Leave out the contents of directories with FILE, but for that file' -r -F
complete -c dio -n "__fish_dio_using_subcommand tar" -l exclude-tag-under -d 'Leave out everything under directories with FILE' -r -F
complete -c dio -n "__fish_dio_using_subcommand tar" -l exclude-tag-all -d 'Leave out directories with FILE' -r -F
complete -c dio -n "__fish_dio_using_subcommand tar" -s f -l file -d 'The archive; - is standard output or input [default: $TAPE, or -]' -r -F
complete -c dio -n "__fish_dio_using_subcommand tar" -s H -l format -d 'Format to create: gnu, oldgnu, pax (or posix), ustar, v7 [default: gnu]' -r
complete -c dio -n "__fish_dio_using_subcommand tar" -s b -l blocking-factor -d 'Records of N × 512 bytes [default: 20]' -r
complete -c dio -n "__fish_dio_using_subcommand tar" -l record-size -d 'Records of N bytes, a multiple of 512' -r
complete -c dio -n "__fish_dio_using_subcommand tar" -s I -l use-compress-program -d 'Compressed by PROG, which must understand -d' -r -f -a "(__fish_complete_command)"
complete -c dio -n "__fish_dio_using_subcommand tar" -s N -l newer -d 'Only files whose contents or attributes changed after DATE, or after FILE was written' -r
complete -c dio -n "__fish_dio_using_subcommand tar" -l newer-mtime -d 'Only files whose contents changed after DATE' -r
complete -c dio -n "__fish_dio_using_subcommand tar" -l sort -d 'Order of the names in a directory: none, name, inode' -r
complete -c dio -n "__fish_dio_using_subcommand tar" -s K -l starting-file -d 'Begin with the member of that name' -r
complete -c dio -n "__fish_dio_using_subcommand tar" -l occurrence -d 'Only the Nth of the members that have a name [default: 1]' -r
complete -c dio -n "__fish_dio_using_subcommand tar" -l strip-components -d 'Leave N leading parts of the names of members out' -r
complete -c dio -n "__fish_dio_using_subcommand tar" -l transform -d 'Change names by an expression of sed: s/REGEX/TEXT/FLAGS' -r
complete -c dio -n "__fish_dio_using_subcommand tar" -l one-top-level -d 'Extract into a directory DIR, by default named after the archive' -r -f -a "(__fish_complete_directories)"
complete -c dio -n "__fish_dio_using_subcommand tar" -l hole-detection -d 'How holes are found: seek or raw; implies -S' -r
complete -c dio -n "__fish_dio_using_subcommand tar" -l owner -d 'Owner of added files: NAME, NAME:UID or UID' -r
complete -c dio -n "__fish_dio_using_subcommand tar" -l group -d 'Group of added files: NAME, NAME:GID or GID' -r
complete -c dio -n "__fish_dio_using_subcommand tar" -l mtime -d 'Time of added files: a date, @SECONDS, or a FILE that has it (a name that begins with / or .)' -r
complete -c dio -n "__fish_dio_using_subcommand tar" -l xattrs-include -d 'Extended attributes whose names match; implies --xattrs' -r
complete -c dio -n "__fish_dio_using_subcommand tar" -l xattrs-exclude -d 'No extended attributes whose names match; implies --xattrs' -r
complete -c dio -n "__fish_dio_using_subcommand tar" -l index-file -d 'Write the list of files to FILE' -r -F
complete -c dio -n "__fish_dio_using_subcommand tar" -l quoting-style -d 'How names are listed: escape, literal' -r
complete -c dio -n "__fish_dio_using_subcommand tar" -l warning -d 'Which warnings are told: KEYWORD, no-KEYWORD, all or none' -r
complete -c dio -n "__fish_dio_using_subcommand tar" -l mode -d 'How bytes of files move: past the page cache (direct), through it and out again at once (uncached), through it (cached), or chosen by size (auto)' -r -f -a "auto\t'Direct for large files, uncached for small ones'
direct\t'Between the disk and dio\'s buffers'
uncached\t'Through the page cache, dropped at once'
cached\t'Through the page cache'"
complete -c dio -n "__fish_dio_using_subcommand tar" -l block -d 'Size of one request, 32M at most [default: 1M]' -r
complete -c dio -n "__fish_dio_using_subcommand tar" -l depth -d 'Requests kept in flight, as far as 64M of buffers go [default: 8; of a striped file, 4 for each target if that is more]' -r
complete -c dio -n "__fish_dio_using_subcommand tar" -l progress -d 'Show how far the work is' -r -f -a "auto\t'Where it is useful'
always\t'In every case'
never\t'In no case'"
complete -c dio -n "__fish_dio_using_subcommand tar" -l receipt -d 'Write a JSON account of what was moved and how to FILE, or to standard output if FILE is -' -r -F
complete -c dio -n "__fish_dio_using_subcommand tar" -s c -l create -d 'Create an archive'
complete -c dio -n "__fish_dio_using_subcommand tar" -s t -l list -d 'List what is in an archive'
complete -c dio -n "__fish_dio_using_subcommand tar" -s x -l extract -d 'Extract from an archive'
complete -c dio -n "__fish_dio_using_subcommand tar" -s r -l append -d 'Append files to an archive'
complete -c dio -n "__fish_dio_using_subcommand tar" -s u -l update -d 'Append files that are newer than their copy in the archive'
complete -c dio -n "__fish_dio_using_subcommand tar" -s A -l catenate -d 'Append what is in other archives'
complete -c dio -n "__fish_dio_using_subcommand tar" -s d -l diff -d 'Find differences between an archive and the files'
complete -c dio -n "__fish_dio_using_subcommand tar" -s 0 -l null -d 'Names of -T end in NUL, and are nothing but names'
complete -c dio -n "__fish_dio_using_subcommand tar" -l no-null -d 'Names of -T end with the line'
complete -c dio -n "__fish_dio_using_subcommand tar" -l verbatim-files-from -d 'Names of -T are nothing but names'
complete -c dio -n "__fish_dio_using_subcommand tar" -l no-verbatim-files-from -d 'Names of -T that begin with - are options'
complete -c dio -n "__fish_dio_using_subcommand tar" -l unquote -d '\\n and its like in names of -T are characters (default)'
complete -c dio -n "__fish_dio_using_subcommand tar" -l no-unquote -d 'Names of -T are taken as they are'
complete -c dio -n "__fish_dio_using_subcommand tar" -l recursion -d 'What is in directories too (default)'
complete -c dio -n "__fish_dio_using_subcommand tar" -l no-recursion -d 'Directories without what is in them'
complete -c dio -n "__fish_dio_using_subcommand tar" -l exclude-backups -d 'Leave out backup and lock files'
complete -c dio -n "__fish_dio_using_subcommand tar" -l exclude-caches -d 'Leave out the contents of directories with a CACHEDIR.TAG, but for that file'
complete -c dio -n "__fish_dio_using_subcommand tar" -l exclude-caches-under -d 'Leave out everything under directories with a CACHEDIR.TAG'
complete -c dio -n "__fish_dio_using_subcommand tar" -l exclude-caches-all -d 'Leave out directories with a CACHEDIR.TAG'
complete -c dio -n "__fish_dio_using_subcommand tar" -l exclude-vcs -d 'Leave out what version control systems keep'
complete -c dio -n "__fish_dio_using_subcommand tar" -l anchored -d 'Patterns match from the start of a name (default for members)'
complete -c dio -n "__fish_dio_using_subcommand tar" -l no-anchored -d 'Patterns match behind any / too (default for --exclude)'
complete -c dio -n "__fish_dio_using_subcommand tar" -l wildcards -d 'Patterns have wildcards (default for --exclude)'
complete -c dio -n "__fish_dio_using_subcommand tar" -l no-wildcards -d 'Patterns are names (default for members)'
complete -c dio -n "__fish_dio_using_subcommand tar" -l wildcards-match-slash -d 'Wildcards match / (default)'
complete -c dio -n "__fish_dio_using_subcommand tar" -l no-wildcards-match-slash -d 'Wildcards do not match /'
complete -c dio -n "__fish_dio_using_subcommand tar" -l ignore-case -d 'Upper and lower case are the same'
complete -c dio -n "__fish_dio_using_subcommand tar" -l no-ignore-case -d 'Upper and lower case differ (default)'
complete -c dio -n "__fish_dio_using_subcommand tar" -l posix -d 'Same as --format=posix'
complete -c dio -n "__fish_dio_using_subcommand tar" -l old-archive -d 'Same as --format=v7'
complete -c dio -n "__fish_dio_using_subcommand tar" -s o -d 'Creating, same as --old-archive; extracting, same as --no-same-owner'
complete -c dio -n "__fish_dio_using_subcommand tar" -s i -l ignore-zeros -d 'Read on behind blocks of zeros'
complete -c dio -n "__fish_dio_using_subcommand tar" -l no-seek -d 'Read the archive from front to back'
complete -c dio -n "__fish_dio_using_subcommand tar" -s z -l gzip -d 'Compressed by gzip'
complete -c dio -n "__fish_dio_using_subcommand tar" -l zstd -d 'Compressed by zstd'
complete -c dio -n "__fish_dio_using_subcommand tar" -s j -l bzip2 -d 'Compressed by bzip2, which runs as a process of its own'
complete -c dio -n "__fish_dio_using_subcommand tar" -s J -l xz -d 'Compressed by xz, which runs as a process of its own'
complete -c dio -n "__fish_dio_using_subcommand tar" -l lzma -d 'Compressed by lzma, which runs as a process of its own'
complete -c dio -n "__fish_dio_using_subcommand tar" -l lzip -d 'Compressed by lzip, which runs as a process of its own'
complete -c dio -n "__fish_dio_using_subcommand tar" -l lzop -d 'Compressed by lzop, which runs as a process of its own'
complete -c dio -n "__fish_dio_using_subcommand tar" -s Z -l compress -d 'Compressed by compress, which runs as a process of its own'
complete -c dio -n "__fish_dio_using_subcommand tar" -s a -l auto-compress -d 'Compressed as the end of the archive\'s name says'
complete -c dio -n "__fish_dio_using_subcommand tar" -s h -l dereference -d 'Archive what symbolic links point to'
complete -c dio -n "__fish_dio_using_subcommand tar" -l hard-dereference -d 'Archive every name of a file with its contents'
complete -c dio -n "__fish_dio_using_subcommand tar" -l one-file-system -d 'Stay in the file system of each name given'
complete -c dio -n "__fish_dio_using_subcommand tar" -s P -l absolute-names -d 'Keep leading / and .. of names'
complete -c dio -n "__fish_dio_using_subcommand tar" -l ignore-failed-read -d 'An unreadable file is no failure'
complete -c dio -n "__fish_dio_using_subcommand tar" -l remove-files -d 'Remove files when they are in the archive'
complete -c dio -n "__fish_dio_using_subcommand tar" -s S -l sparse -d 'Archive holes as holes'
complete -c dio -n "__fish_dio_using_subcommand tar" -s p -l preserve-permissions -d 'Extract permissions as they are (default of the superuser)'
complete -c dio -n "__fish_dio_using_subcommand tar" -l no-same-permissions -d 'Apply the umask to permissions (default of others)'
complete -c dio -n "__fish_dio_using_subcommand tar" -l same-owner -d 'Extract with the same owners (default of the superuser)'
complete -c dio -n "__fish_dio_using_subcommand tar" -l no-same-owner -d 'Extract as oneself (default of others)'
complete -c dio -n "__fish_dio_using_subcommand tar" -l numeric-owner -d 'Numbers instead of names of users and groups'
complete -c dio -n "__fish_dio_using_subcommand tar" -l clamp-mtime -d '--mtime only for files that are newer'
complete -c dio -n "__fish_dio_using_subcommand tar" -s m -l touch -d 'Do not extract times'
complete -c dio -n "__fish_dio_using_subcommand tar" -l xattrs -d 'Extended attributes'
complete -c dio -n "__fish_dio_using_subcommand tar" -l no-xattrs -d 'No extended attributes'
complete -c dio -n "__fish_dio_using_subcommand tar" -l acls -d 'Access control lists'
complete -c dio -n "__fish_dio_using_subcommand tar" -l no-acls -d 'No access control lists'
complete -c dio -n "__fish_dio_using_subcommand tar" -s k -l keep-old-files -d 'Do not replace existing files, which are errors'
complete -c dio -n "__fish_dio_using_subcommand tar" -l skip-old-files -d 'Do not replace existing files'
complete -c dio -n "__fish_dio_using_subcommand tar" -l keep-newer-files -d 'Do not replace existing files that are newer'
complete -c dio -n "__fish_dio_using_subcommand tar" -l overwrite -d 'Write into existing files'
complete -c dio -n "__fish_dio_using_subcommand tar" -s U -l unlink-first -d 'Remove each file before it is extracted'
complete -c dio -n "__fish_dio_using_subcommand tar" -l recursive-unlink -d 'Remove directories with all they hold where something else is extracted'
complete -c dio -n "__fish_dio_using_subcommand tar" -l keep-directory-symlink -d 'Follow symbolic links to directories'
complete -c dio -n "__fish_dio_using_subcommand tar" -l no-overwrite-dir -d 'Keep the attributes of existing directories'
complete -c dio -n "__fish_dio_using_subcommand tar" -l overwrite-dir -d 'Replace the attributes of existing directories (default)'
complete -c dio -n "__fish_dio_using_subcommand tar" -s O -l to-stdout -d 'Extract contents to standard output'
complete -c dio -n "__fish_dio_using_subcommand tar" -s v -l verbose -d 'List the files as they are dealt with; twice, with their attributes'
complete -c dio -n "__fish_dio_using_subcommand tar" -l totals -d 'Tell the bytes of the archive at the end'
complete -c dio -n "__fish_dio_using_subcommand tar" -s l -l check-links -d 'Tell if not all names of a file were archived'
complete -c dio -n "__fish_dio_using_subcommand tar" -s R -l block-number -d 'Tell the number of the block with each message'
complete -c dio -n "__fish_dio_using_subcommand tar" -l full-time -d 'List times to their full resolution'
complete -c dio -n "__fish_dio_using_subcommand tar" -l utc -d 'List times in UTC'
complete -c dio -n "__fish_dio_using_subcommand tar" -l show-transformed-names -d 'List names as --strip-components leaves them'
complete -c dio -n "__fish_dio_using_subcommand tar" -l show-omitted-dirs -d 'Tell directories that are passed over'
complete -c dio -n "__fish_dio_using_subcommand tar" -s w -l interactive -d 'Ask before each file'
complete -c dio -n "__fish_dio_using_subcommand tar" -s ? -l help -d 'Print help'
complete -c dio -n "__fish_dio_using_subcommand tar" -l version -d 'Print version'
complete -c dio -n "__fish_dio_using_subcommand tar" -l strict -d 'Fail where --mode cannot be had instead of falling back'
complete -c dio -n "__fish_dio_using_subcommand tar" -l medium -d 'Read files from the disk and not from the page cache, and fail where that is impossible: finds what has changed on the medium since it was written'
complete -c dio -n "__fish_dio_using_subcommand tar" -l in-place -d 'Overwrite an existing output instead of replacing it when its successor is complete: needs no room for both, and loses the old contents with a run that is cut short'
complete -c dio -n "__fish_dio_using_subcommand tee" -l output-error -d 'What to do when an output cannot be written: warn and go on with the others, or exit; with -nopipe, a closed pipe is no error' -r -f -a "warn\t''
warn-nopipe\t''
exit\t''
exit-nopipe\t''"
complete -c dio -n "__fish_dio_using_subcommand tee" -l mode -d 'How bytes of files move: past the page cache (direct), through it and out again at once (uncached), through it (cached), or chosen by size (auto)' -r -f -a "auto\t'Direct for large files, uncached for small ones'
direct\t'Between the disk and dio\'s buffers'
uncached\t'Through the page cache, dropped at once'
cached\t'Through the page cache'"
complete -c dio -n "__fish_dio_using_subcommand tee" -l block -d 'Size of one request, 32M at most [default: 1M]' -r
complete -c dio -n "__fish_dio_using_subcommand tee" -l depth -d 'Requests kept in flight, as far as 64M of buffers go [default: 8; of a striped file, 4 for each target if that is more]' -r
complete -c dio -n "__fish_dio_using_subcommand tee" -l progress -d 'Show how far the work is' -r -f -a "auto\t'Where it is useful'
always\t'In every case'
never\t'In no case'"
complete -c dio -n "__fish_dio_using_subcommand tee" -l receipt -d 'Write a JSON account of what was moved and how to FILE, or to standard output if FILE is -' -r -F
complete -c dio -n "__fish_dio_using_subcommand tee" -s a -l append -d 'Write behind the end of FILEs instead of replacing what they hold'
complete -c dio -n "__fish_dio_using_subcommand tee" -s i -l ignore-interrupts -d 'Ignore the interrupt signal'
complete -c dio -n "__fish_dio_using_subcommand tee" -s p -d 'Same as --output-error=warn-nopipe'
complete -c dio -n "__fish_dio_using_subcommand tee" -l help -d 'Print help'
complete -c dio -n "__fish_dio_using_subcommand tee" -l version -d 'Print version'
complete -c dio -n "__fish_dio_using_subcommand tee" -l strict -d 'Fail where --mode cannot be had instead of falling back'
complete -c dio -n "__fish_dio_using_subcommand split" -s b -l bytes -d 'Put SIZE bytes into each file' -r
complete -c dio -n "__fish_dio_using_subcommand split" -s l -l lines -d 'Put NUMBER lines into each file' -r
complete -c dio -n "__fish_dio_using_subcommand split" -s C -l line-bytes -d 'Put at most SIZE bytes of whole lines into each file' -r
complete -c dio -n "__fish_dio_using_subcommand split" -s n -l number -d 'Make CHUNKS files' -r
complete -c dio -n "__fish_dio_using_subcommand split" -s a -l suffix-length -d 'Make suffixes of length N (2, and longer ones as they are needed)' -r
complete -c dio -n "__fish_dio_using_subcommand split" -l additional-suffix -d 'Put SUFFIX behind the names of the files' -r
complete -c dio -n "__fish_dio_using_subcommand split" -l numeric-suffixes -d 'Number the files, from FROM or 0' -r
complete -c dio -n "__fish_dio_using_subcommand split" -l hex-suffixes -d 'Number the files in hexadecimal, from FROM or 0' -r
complete -c dio -n "__fish_dio_using_subcommand split" -s t -l separator -d 'Lines end in SEP; \'\\0\' is the byte zero' -r
complete -c dio -n "__fish_dio_using_subcommand split" -l filter -d 'Write to COMMAND, run by the shell; the name is $FILE' -r -f -a "(__fish_complete_command)"
complete -c dio -n "__fish_dio_using_subcommand split" -l mode -d 'How bytes of files move: past the page cache (direct), through it and out again at once (uncached), through it (cached), or chosen by size (auto)' -r -f -a "auto\t'Direct for large files, uncached for small ones'
direct\t'Between the disk and dio\'s buffers'
uncached\t'Through the page cache, dropped at once'
cached\t'Through the page cache'"
complete -c dio -n "__fish_dio_using_subcommand split" -l block -d 'Size of one request, 32M at most [default: 1M]' -r
complete -c dio -n "__fish_dio_using_subcommand split" -l depth -d 'Requests kept in flight, as far as 64M of buffers go [default: 8; of a striped file, 4 for each target if that is more]' -r
complete -c dio -n "__fish_dio_using_subcommand split" -l progress -d 'Show how far the work is' -r -f -a "auto\t'Where it is useful'
always\t'In every case'
never\t'In no case'"
complete -c dio -n "__fish_dio_using_subcommand split" -l receipt -d 'Write a JSON account of what was moved and how to FILE, or to standard output if FILE is -' -r -F
complete -c dio -n "__fish_dio_using_subcommand split" -s d -d 'Number the files from 0'
complete -c dio -n "__fish_dio_using_subcommand split" -s x -d 'Number the files from 0 in hexadecimal'
complete -c dio -n "__fish_dio_using_subcommand split" -s e -l elide-empty-files -d 'Make no empty files with -n'
complete -c dio -n "__fish_dio_using_subcommand split" -s u -l unbuffered -d 'Copy input to output at once with -n r/…'
complete -c dio -n "__fish_dio_using_subcommand split" -l verbose -d 'Say when an output file is opened'
complete -c dio -n "__fish_dio_using_subcommand split" -l help -d 'Print help'
complete -c dio -n "__fish_dio_using_subcommand split" -l version -d 'Print version'
complete -c dio -n "__fish_dio_using_subcommand split" -l strict -d 'Fail where --mode cannot be had instead of falling back'
complete -c dio -n "__fish_dio_using_subcommand sort" -l random-source -d 'Take random bytes from FILE' -r -F
complete -c dio -n "__fish_dio_using_subcommand sort" -l sort -d 'By WORD: general-numeric (-g), human-numeric (-h), month (-M), numeric (-n), random (-R) or version (-V)' -r -f -a "general-numeric\t''
human-numeric\t''
month\t''
numeric\t''
random\t''
version\t''"
complete -c dio -n "__fish_dio_using_subcommand sort" -l batch-size -d 'Merge at most N files at a time' -r
complete -c dio -n "__fish_dio_using_subcommand sort" -l check -d 'Say whether FILE is sorted: quiet or silent (-C), or diagnose-first (-c)' -r -f -a "quiet\t''
silent\t''
diagnose-first\t''"
complete -c dio -n "__fish_dio_using_subcommand sort" -l compress-program -d 'Compress temporary files with PROG; PROG -d decompresses' -r -f -a "(__fish_complete_command)"
complete -c dio -n "__fish_dio_using_subcommand sort" -l files0-from -d 'Read the names of files from F, each ended by NUL' -r -F
complete -c dio -n "__fish_dio_using_subcommand sort" -s k -l key -d 'Sort by a part of the line' -r
complete -c dio -n "__fish_dio_using_subcommand sort" -s o -l output -d 'Write to FILE, which may be one that is read' -r -F
complete -c dio -n "__fish_dio_using_subcommand sort" -s S -l buffer-size -d 'Use so much memory' -r
complete -c dio -n "__fish_dio_using_subcommand sort" -s t -l field-separator -d 'Fields are separated by SEP; \'\\0\' is the byte zero' -r
complete -c dio -n "__fish_dio_using_subcommand sort" -s T -l temporary-directory -d 'Make temporary files in DIR, or in turn in several; $TMPDIR or /tmp without' -r -f -a "(__fish_complete_directories)"
complete -c dio -n "__fish_dio_using_subcommand sort" -l parallel -d 'Sort with N threads' -r
complete -c dio -n "__fish_dio_using_subcommand sort" -l mode -d 'How bytes of files move: past the page cache (direct), through it and out again at once (uncached), through it (cached), or chosen by size (auto)' -r -f -a "auto\t'Direct for large files, uncached for small ones'
direct\t'Between the disk and dio\'s buffers'
uncached\t'Through the page cache, dropped at once'
cached\t'Through the page cache'"
complete -c dio -n "__fish_dio_using_subcommand sort" -l block -d 'Size of one request, 32M at most [default: 1M]' -r
complete -c dio -n "__fish_dio_using_subcommand sort" -l depth -d 'Requests kept in flight, as far as 64M of buffers go [default: 8; of a striped file, 4 for each target if that is more]' -r
complete -c dio -n "__fish_dio_using_subcommand sort" -l progress -d 'Show how far the work is' -r -f -a "auto\t'Where it is useful'
always\t'In every case'
never\t'In no case'"
complete -c dio -n "__fish_dio_using_subcommand sort" -l receipt -d 'Write a JSON account of what was moved and how to FILE, or to standard output if FILE is -' -r -F
complete -c dio -n "__fish_dio_using_subcommand sort" -s b -l ignore-leading-blanks -d 'Pass over blanks at the start of keys'
complete -c dio -n "__fish_dio_using_subcommand sort" -s d -l dictionary-order -d 'Only blanks, letters and digits count'
complete -c dio -n "__fish_dio_using_subcommand sort" -s f -l ignore-case -d 'Small letters count as capitals'
complete -c dio -n "__fish_dio_using_subcommand sort" -s g -l general-numeric-sort -d 'By floating-point numbers'
complete -c dio -n "__fish_dio_using_subcommand sort" -s i -l ignore-nonprinting -d 'Only bytes that can be printed count'
complete -c dio -n "__fish_dio_using_subcommand sort" -s m -l merge -d 'Merge files that are sorted'
complete -c dio -n "__fish_dio_using_subcommand sort" -s M -l month-sort -d 'By the names of months'
complete -c dio -n "__fish_dio_using_subcommand sort" -s h -l human-numeric-sort -d 'By numbers with units: 2K, 1G'
complete -c dio -n "__fish_dio_using_subcommand sort" -s n -l numeric-sort -d 'By decimal numbers'
complete -c dio -n "__fish_dio_using_subcommand sort" -s R -l random-sort -d 'At random, but equal keys together'
complete -c dio -n "__fish_dio_using_subcommand sort" -s r -l reverse -d 'In descending order'
complete -c dio -n "__fish_dio_using_subcommand sort" -s V -l version-sort -d 'By numbers within text'
complete -c dio -n "__fish_dio_using_subcommand sort" -s c -d 'Say where FILE is not sorted'
complete -c dio -n "__fish_dio_using_subcommand sort" -s C -d 'The same as -c without words'
complete -c dio -n "__fish_dio_using_subcommand sort" -s s -l stable -d 'Lines with equal keys stay as they came'
complete -c dio -n "__fish_dio_using_subcommand sort" -s u -l unique -d 'Of lines with equal keys only the first; with -c, these are out of order'
complete -c dio -n "__fish_dio_using_subcommand sort" -s z -l zero-terminated -d 'Lines end in NUL instead of a newline'
complete -c dio -n "__fish_dio_using_subcommand sort" -l help -d 'Print help'
complete -c dio -n "__fish_dio_using_subcommand sort" -l version -d 'Print version'
complete -c dio -n "__fish_dio_using_subcommand sort" -l strict -d 'Fail where --mode cannot be had instead of falling back'
complete -c dio -n "__fish_dio_using_subcommand sort" -l in-place -d 'Overwrite an existing output instead of replacing it when its successor is complete: needs no room for both, and loses the old contents with a run that is cut short'
complete -c dio -n "__fish_dio_using_subcommand uniq" -l all-repeated -d 'The same, with an empty line before each group (prepend), between groups (separate) or nowhere (none)' -r -f -a "none\t''
prepend\t''
separate\t''"
complete -c dio -n "__fish_dio_using_subcommand uniq" -l group -d 'Print all lines, with an empty line between groups (separate), before or behind each (prepend, append) or both [default: separate]' -r -f -a "prepend\t''
append\t''
separate\t''
both\t''"
complete -c dio -n "__fish_dio_using_subcommand uniq" -s f -l skip-fields -d 'Leave the first N fields out of the comparison' -r
complete -c dio -n "__fish_dio_using_subcommand uniq" -s s -l skip-chars -d 'Leave the first N bytes out of the comparison' -r
complete -c dio -n "__fish_dio_using_subcommand uniq" -s w -l check-chars -d 'Compare at most N bytes' -r
complete -c dio -n "__fish_dio_using_subcommand uniq" -l mode -d 'How bytes of files move: past the page cache (direct), through it and out again at once (uncached), through it (cached), or chosen by size (auto)' -r -f -a "auto\t'Direct for large files, uncached for small ones'
direct\t'Between the disk and dio\'s buffers'
uncached\t'Through the page cache, dropped at once'
cached\t'Through the page cache'"
complete -c dio -n "__fish_dio_using_subcommand uniq" -l block -d 'Size of one request, 32M at most [default: 1M]' -r
complete -c dio -n "__fish_dio_using_subcommand uniq" -l depth -d 'Requests kept in flight, as far as 64M of buffers go [default: 8; of a striped file, 4 for each target if that is more]' -r
complete -c dio -n "__fish_dio_using_subcommand uniq" -l progress -d 'Show how far the work is' -r -f -a "auto\t'Where it is useful'
always\t'In every case'
never\t'In no case'"
complete -c dio -n "__fish_dio_using_subcommand uniq" -l receipt -d 'Write a JSON account of what was moved and how to FILE, or to standard output if FILE is -' -r -F
complete -c dio -n "__fish_dio_using_subcommand uniq" -s c -l count -d 'Put the number of lines before each group'
complete -c dio -n "__fish_dio_using_subcommand uniq" -s d -l repeated -d 'Print only groups of more than one line, the first of each'
complete -c dio -n "__fish_dio_using_subcommand uniq" -s D -d 'Print all lines of groups of more than one'
complete -c dio -n "__fish_dio_using_subcommand uniq" -s i -l ignore-case -d 'Take upper and lower case of letters for the same'
complete -c dio -n "__fish_dio_using_subcommand uniq" -s u -l unique -d 'Print only lines that differ from those before and behind'
complete -c dio -n "__fish_dio_using_subcommand uniq" -s z -l zero-terminated -d 'Lines end in NUL, not newline'
complete -c dio -n "__fish_dio_using_subcommand uniq" -l help -d 'Print help'
complete -c dio -n "__fish_dio_using_subcommand uniq" -l version -d 'Print version'
complete -c dio -n "__fish_dio_using_subcommand uniq" -l strict -d 'Fail where --mode cannot be had instead of falling back'
complete -c dio -n "__fish_dio_using_subcommand uniq" -l in-place -d 'Overwrite an existing output instead of replacing it when its successor is complete: needs no room for both, and loses the old contents with a run that is cut short'
complete -c dio -n "__fish_dio_using_subcommand sum" -s a -l algorithm -d 'Digests to compute, in this order: any of md5, sha1, sha224, sha256, sha384, sha512, blake2b, blake3, sm3, crc, crc32b, crc32c, xxh3, bsd, sysv; or all [default: sha256; of cksum, which makes one: crc]' -r
complete -c dio -n "__fish_dio_using_subcommand sum" -s l -l length -d 'Length of blake2b or blake3 in bits, a multiple of 8' -r
complete -c dio -n "__fish_dio_using_subcommand sum" -l parts -d 'Write digests of the parts of SIZE bytes that longer files consist of, one a line: each is computed and checked by itself, several at a time' -r
complete -c dio -n "__fish_dio_using_subcommand sum" -l mode -d 'How bytes of files move: past the page cache (direct), through it and out again at once (uncached), through it (cached), or chosen by size (auto)' -r -f -a "auto\t'Direct for large files, uncached for small ones'
direct\t'Between the disk and dio\'s buffers'
uncached\t'Through the page cache, dropped at once'
cached\t'Through the page cache'"
complete -c dio -n "__fish_dio_using_subcommand sum" -l block -d 'Size of one request, 32M at most [default: 1M]' -r
complete -c dio -n "__fish_dio_using_subcommand sum" -l depth -d 'Requests kept in flight, as far as 64M of buffers go [default: 8; of a striped file, 4 for each target if that is more]' -r
complete -c dio -n "__fish_dio_using_subcommand sum" -l progress -d 'Show how far the work is' -r -f -a "auto\t'Where it is useful'
always\t'In every case'
never\t'In no case'"
complete -c dio -n "__fish_dio_using_subcommand sum" -l receipt -d 'Write a JSON account of what was moved and how to FILE, or to standard output if FILE is -' -r -F
complete -c dio -n "__fish_dio_using_subcommand sum" -s r -d 'Same as -a bsd: the 16-bit sum of BSD, in blocks of 1024 bytes'
complete -c dio -n "__fish_dio_using_subcommand sum" -s s -l sysv -d 'Same as -a sysv: the 16-bit sum of System V, in blocks of 512 bytes'
complete -c dio -n "__fish_dio_using_subcommand sum" -l raw -d 'Write the digests as they are, not in hexadecimal digits, and nothing else; of one file and digest only'
complete -c dio -n "__fish_dio_using_subcommand sum" -l base64 -d 'Write digests in base64'
complete -c dio -n "__fish_dio_using_subcommand sum" -s b -l binary -d 'Mark names as those of files read in binary mode, with *'
complete -c dio -n "__fish_dio_using_subcommand sum" -l tag -d 'Write lines with the digest\'s name: MD5 (FILE) = DIGEST'
complete -c dio -n "__fish_dio_using_subcommand sum" -s t -l text -d 'Mark names as those of files read in text mode, with a blank (the default without --tag)'
complete -c dio -n "__fish_dio_using_subcommand sum" -l untagged -d 'Write lines without the digest\'s name: digest, two blanks, file'
complete -c dio -n "__fish_dio_using_subcommand sum" -s z -l zero -d 'End lines with NUL, and write names as they are'
complete -c dio -n "__fish_dio_using_subcommand sum" -l debug -d 'Say which instructions of the CPU are used'
complete -c dio -n "__fish_dio_using_subcommand sum" -s c -l check -d 'Read digests from the FILEs and check them; with --strict, an improperly formatted line is a failure'
complete -c dio -n "__fish_dio_using_subcommand sum" -l ignore-missing -d 'When checking, pass over files that do not exist'
complete -c dio -n "__fish_dio_using_subcommand sum" -l quiet -d 'When checking, do not print OK for files that match'
complete -c dio -n "__fish_dio_using_subcommand sum" -l status -d 'When checking, print nothing: the exit status says it'
complete -c dio -n "__fish_dio_using_subcommand sum" -s w -l warn -d 'When checking, name each improperly formatted line'
complete -c dio -n "__fish_dio_using_subcommand sum" -s h -l help -d 'Print help'
complete -c dio -n "__fish_dio_using_subcommand sum" -s V -l version -d 'Print version'
complete -c dio -n "__fish_dio_using_subcommand sum" -l strict -d 'Fail where --mode cannot be had instead of falling back'
complete -c dio -n "__fish_dio_using_subcommand sum" -l medium -d 'Read files from the disk and not from the page cache, and fail where that is impossible: finds what has changed on the medium since it was written'
complete -c dio -n "__fish_dio_using_subcommand md5sum" -l mode -d 'How bytes of files move: past the page cache (direct), through it and out again at once (uncached), through it (cached), or chosen by size (auto)' -r -f -a "auto\t'Direct for large files, uncached for small ones'
direct\t'Between the disk and dio\'s buffers'
uncached\t'Through the page cache, dropped at once'
cached\t'Through the page cache'"
complete -c dio -n "__fish_dio_using_subcommand md5sum" -l block -d 'Size of one request, 32M at most [default: 1M]' -r
complete -c dio -n "__fish_dio_using_subcommand md5sum" -l depth -d 'Requests kept in flight, as far as 64M of buffers go [default: 8; of a striped file, 4 for each target if that is more]' -r
complete -c dio -n "__fish_dio_using_subcommand md5sum" -l progress -d 'Show how far the work is' -r -f -a "auto\t'Where it is useful'
always\t'In every case'
never\t'In no case'"
complete -c dio -n "__fish_dio_using_subcommand md5sum" -l receipt -d 'Write a JSON account of what was moved and how to FILE, or to standard output if FILE is -' -r -F
complete -c dio -n "__fish_dio_using_subcommand md5sum" -s b -l binary -d 'Mark names as those of files read in binary mode, with *'
complete -c dio -n "__fish_dio_using_subcommand md5sum" -l tag -d 'Write lines with the digest\'s name: MD5 (FILE) = DIGEST'
complete -c dio -n "__fish_dio_using_subcommand md5sum" -s t -l text -d 'Mark names as those of files read in text mode, with a blank (the default without --tag)'
complete -c dio -n "__fish_dio_using_subcommand md5sum" -s z -l zero -d 'End lines with NUL, and write names as they are'
complete -c dio -n "__fish_dio_using_subcommand md5sum" -s c -l check -d 'Read digests from the FILEs and check them; with --strict, an improperly formatted line is a failure'
complete -c dio -n "__fish_dio_using_subcommand md5sum" -l ignore-missing -d 'When checking, pass over files that do not exist'
complete -c dio -n "__fish_dio_using_subcommand md5sum" -l quiet -d 'When checking, do not print OK for files that match'
complete -c dio -n "__fish_dio_using_subcommand md5sum" -l status -d 'When checking, print nothing: the exit status says it'
complete -c dio -n "__fish_dio_using_subcommand md5sum" -s w -l warn -d 'When checking, name each improperly formatted line'
complete -c dio -n "__fish_dio_using_subcommand md5sum" -s h -l help -d 'Print help'
complete -c dio -n "__fish_dio_using_subcommand md5sum" -s V -l version -d 'Print version'
complete -c dio -n "__fish_dio_using_subcommand md5sum" -l strict -d 'Fail where --mode cannot be had instead of falling back'
complete -c dio -n "__fish_dio_using_subcommand md5sum" -l medium -d 'Read files from the disk and not from the page cache, and fail where that is impossible: finds what has changed on the medium since it was written'
complete -c dio -n "__fish_dio_using_subcommand sha1sum" -l mode -d 'How bytes of files move: past the page cache (direct), through it and out again at once (uncached), through it (cached), or chosen by size (auto)' -r -f -a "auto\t'Direct for large files, uncached for small ones'
direct\t'Between the disk and dio\'s buffers'
uncached\t'Through the page cache, dropped at once'
cached\t'Through the page cache'"
complete -c dio -n "__fish_dio_using_subcommand sha1sum" -l block -d 'Size of one request, 32M at most [default: 1M]' -r
complete -c dio -n "__fish_dio_using_subcommand sha1sum" -l depth -d 'Requests kept in flight, as far as 64M of buffers go [default: 8; of a striped file, 4 for each target if that is more]' -r
complete -c dio -n "__fish_dio_using_subcommand sha1sum" -l progress -d 'Show how far the work is' -r -f -a "auto\t'Where it is useful'
always\t'In every case'
never\t'In no case'"
complete -c dio -n "__fish_dio_using_subcommand sha1sum" -l receipt -d 'Write a JSON account of what was moved and how to FILE, or to standard output if FILE is -' -r -F
complete -c dio -n "__fish_dio_using_subcommand sha1sum" -s b -l binary -d 'Mark names as those of files read in binary mode, with *'
complete -c dio -n "__fish_dio_using_subcommand sha1sum" -l tag -d 'Write lines with the digest\'s name: MD5 (FILE) = DIGEST'
complete -c dio -n "__fish_dio_using_subcommand sha1sum" -s t -l text -d 'Mark names as those of files read in text mode, with a blank (the default without --tag)'
complete -c dio -n "__fish_dio_using_subcommand sha1sum" -s z -l zero -d 'End lines with NUL, and write names as they are'
complete -c dio -n "__fish_dio_using_subcommand sha1sum" -s c -l check -d 'Read digests from the FILEs and check them; with --strict, an improperly formatted line is a failure'
complete -c dio -n "__fish_dio_using_subcommand sha1sum" -l ignore-missing -d 'When checking, pass over files that do not exist'
complete -c dio -n "__fish_dio_using_subcommand sha1sum" -l quiet -d 'When checking, do not print OK for files that match'
complete -c dio -n "__fish_dio_using_subcommand sha1sum" -l status -d 'When checking, print nothing: the exit status says it'
complete -c dio -n "__fish_dio_using_subcommand sha1sum" -s w -l warn -d 'When checking, name each improperly formatted line'
complete -c dio -n "__fish_dio_using_subcommand sha1sum" -s h -l help -d 'Print help'
complete -c dio -n "__fish_dio_using_subcommand sha1sum" -s V -l version -d 'Print version'
complete -c dio -n "__fish_dio_using_subcommand sha1sum" -l strict -d 'Fail where --mode cannot be had instead of falling back'
complete -c dio -n "__fish_dio_using_subcommand sha1sum" -l medium -d 'Read files from the disk and not from the page cache, and fail where that is impossible: finds what has changed on the medium since it was written'
complete -c dio -n "__fish_dio_using_subcommand sha224sum" -l mode -d 'How bytes of files move: past the page cache (direct), through it and out again at once (uncached), through it (cached), or chosen by size (auto)' -r -f -a "auto\t'Direct for large files, uncached for small ones'
direct\t'Between the disk and dio\'s buffers'
uncached\t'Through the page cache, dropped at once'
cached\t'Through the page cache'"
complete -c dio -n "__fish_dio_using_subcommand sha224sum" -l block -d 'Size of one request, 32M at most [default: 1M]' -r
complete -c dio -n "__fish_dio_using_subcommand sha224sum" -l depth -d 'Requests kept in flight, as far as 64M of buffers go [default: 8; of a striped file, 4 for each target if that is more]' -r
complete -c dio -n "__fish_dio_using_subcommand sha224sum" -l progress -d 'Show how far the work is' -r -f -a "auto\t'Where it is useful'
always\t'In every case'
never\t'In no case'"
complete -c dio -n "__fish_dio_using_subcommand sha224sum" -l receipt -d 'Write a JSON account of what was moved and how to FILE, or to standard output if FILE is -' -r -F
complete -c dio -n "__fish_dio_using_subcommand sha224sum" -s b -l binary -d 'Mark names as those of files read in binary mode, with *'
complete -c dio -n "__fish_dio_using_subcommand sha224sum" -l tag -d 'Write lines with the digest\'s name: MD5 (FILE) = DIGEST'
complete -c dio -n "__fish_dio_using_subcommand sha224sum" -s t -l text -d 'Mark names as those of files read in text mode, with a blank (the default without --tag)'
complete -c dio -n "__fish_dio_using_subcommand sha224sum" -s z -l zero -d 'End lines with NUL, and write names as they are'
complete -c dio -n "__fish_dio_using_subcommand sha224sum" -s c -l check -d 'Read digests from the FILEs and check them; with --strict, an improperly formatted line is a failure'
complete -c dio -n "__fish_dio_using_subcommand sha224sum" -l ignore-missing -d 'When checking, pass over files that do not exist'
complete -c dio -n "__fish_dio_using_subcommand sha224sum" -l quiet -d 'When checking, do not print OK for files that match'
complete -c dio -n "__fish_dio_using_subcommand sha224sum" -l status -d 'When checking, print nothing: the exit status says it'
complete -c dio -n "__fish_dio_using_subcommand sha224sum" -s w -l warn -d 'When checking, name each improperly formatted line'
complete -c dio -n "__fish_dio_using_subcommand sha224sum" -s h -l help -d 'Print help'
complete -c dio -n "__fish_dio_using_subcommand sha224sum" -s V -l version -d 'Print version'
complete -c dio -n "__fish_dio_using_subcommand sha224sum" -l strict -d 'Fail where --mode cannot be had instead of falling back'
complete -c dio -n "__fish_dio_using_subcommand sha224sum" -l medium -d 'Read files from the disk and not from the page cache, and fail where that is impossible: finds what has changed on the medium since it was written'
complete -c dio -n "__fish_dio_using_subcommand sha256sum" -l mode -d 'How bytes of files move: past the page cache (direct), through it and out again at once (uncached), through it (cached), or chosen by size (auto)' -r -f -a "auto\t'Direct for large files, uncached for small ones'
direct\t'Between the disk and dio\'s buffers'
uncached\t'Through the page cache, dropped at once'
cached\t'Through the page cache'"
complete -c dio -n "__fish_dio_using_subcommand sha256sum" -l block -d 'Size of one request, 32M at most [default: 1M]' -r
complete -c dio -n "__fish_dio_using_subcommand sha256sum" -l depth -d 'Requests kept in flight, as far as 64M of buffers go [default: 8; of a striped file, 4 for each target if that is more]' -r
complete -c dio -n "__fish_dio_using_subcommand sha256sum" -l progress -d 'Show how far the work is' -r -f -a "auto\t'Where it is useful'
always\t'In every case'
never\t'In no case'"
complete -c dio -n "__fish_dio_using_subcommand sha256sum" -l receipt -d 'Write a JSON account of what was moved and how to FILE, or to standard output if FILE is -' -r -F
complete -c dio -n "__fish_dio_using_subcommand sha256sum" -s b -l binary -d 'Mark names as those of files read in binary mode, with *'
complete -c dio -n "__fish_dio_using_subcommand sha256sum" -l tag -d 'Write lines with the digest\'s name: MD5 (FILE) = DIGEST'
complete -c dio -n "__fish_dio_using_subcommand sha256sum" -s t -l text -d 'Mark names as those of files read in text mode, with a blank (the default without --tag)'
complete -c dio -n "__fish_dio_using_subcommand sha256sum" -s z -l zero -d 'End lines with NUL, and write names as they are'
complete -c dio -n "__fish_dio_using_subcommand sha256sum" -s c -l check -d 'Read digests from the FILEs and check them; with --strict, an improperly formatted line is a failure'
complete -c dio -n "__fish_dio_using_subcommand sha256sum" -l ignore-missing -d 'When checking, pass over files that do not exist'
complete -c dio -n "__fish_dio_using_subcommand sha256sum" -l quiet -d 'When checking, do not print OK for files that match'
complete -c dio -n "__fish_dio_using_subcommand sha256sum" -l status -d 'When checking, print nothing: the exit status says it'
complete -c dio -n "__fish_dio_using_subcommand sha256sum" -s w -l warn -d 'When checking, name each improperly formatted line'
complete -c dio -n "__fish_dio_using_subcommand sha256sum" -s h -l help -d 'Print help'
complete -c dio -n "__fish_dio_using_subcommand sha256sum" -s V -l version -d 'Print version'
complete -c dio -n "__fish_dio_using_subcommand sha256sum" -l strict -d 'Fail where --mode cannot be had instead of falling back'
complete -c dio -n "__fish_dio_using_subcommand sha256sum" -l medium -d 'Read files from the disk and not from the page cache, and fail where that is impossible: finds what has changed on the medium since it was written'
complete -c dio -n "__fish_dio_using_subcommand sha384sum" -l mode -d 'How bytes of files move: past the page cache (direct), through it and out again at once (uncached), through it (cached), or chosen by size (auto)' -r -f -a "auto\t'Direct for large files, uncached for small ones'
direct\t'Between the disk and dio\'s buffers'
uncached\t'Through the page cache, dropped at once'
cached\t'Through the page cache'"
complete -c dio -n "__fish_dio_using_subcommand sha384sum" -l block -d 'Size of one request, 32M at most [default: 1M]' -r
complete -c dio -n "__fish_dio_using_subcommand sha384sum" -l depth -d 'Requests kept in flight, as far as 64M of buffers go [default: 8; of a striped file, 4 for each target if that is more]' -r
complete -c dio -n "__fish_dio_using_subcommand sha384sum" -l progress -d 'Show how far the work is' -r -f -a "auto\t'Where it is useful'
always\t'In every case'
never\t'In no case'"
complete -c dio -n "__fish_dio_using_subcommand sha384sum" -l receipt -d 'Write a JSON account of what was moved and how to FILE, or to standard output if FILE is -' -r -F
complete -c dio -n "__fish_dio_using_subcommand sha384sum" -s b -l binary -d 'Mark names as those of files read in binary mode, with *'
complete -c dio -n "__fish_dio_using_subcommand sha384sum" -l tag -d 'Write lines with the digest\'s name: MD5 (FILE) = DIGEST'
complete -c dio -n "__fish_dio_using_subcommand sha384sum" -s t -l text -d 'Mark names as those of files read in text mode, with a blank (the default without --tag)'
complete -c dio -n "__fish_dio_using_subcommand sha384sum" -s z -l zero -d 'End lines with NUL, and write names as they are'
complete -c dio -n "__fish_dio_using_subcommand sha384sum" -s c -l check -d 'Read digests from the FILEs and check them; with --strict, an improperly formatted line is a failure'
complete -c dio -n "__fish_dio_using_subcommand sha384sum" -l ignore-missing -d 'When checking, pass over files that do not exist'
complete -c dio -n "__fish_dio_using_subcommand sha384sum" -l quiet -d 'When checking, do not print OK for files that match'
complete -c dio -n "__fish_dio_using_subcommand sha384sum" -l status -d 'When checking, print nothing: the exit status says it'
complete -c dio -n "__fish_dio_using_subcommand sha384sum" -s w -l warn -d 'When checking, name each improperly formatted line'
complete -c dio -n "__fish_dio_using_subcommand sha384sum" -s h -l help -d 'Print help'
complete -c dio -n "__fish_dio_using_subcommand sha384sum" -s V -l version -d 'Print version'
complete -c dio -n "__fish_dio_using_subcommand sha384sum" -l strict -d 'Fail where --mode cannot be had instead of falling back'
complete -c dio -n "__fish_dio_using_subcommand sha384sum" -l medium -d 'Read files from the disk and not from the page cache, and fail where that is impossible: finds what has changed on the medium since it was written'
complete -c dio -n "__fish_dio_using_subcommand sha512sum" -l mode -d 'How bytes of files move: past the page cache (direct), through it and out again at once (uncached), through it (cached), or chosen by size (auto)' -r -f -a "auto\t'Direct for large files, uncached for small ones'
direct\t'Between the disk and dio\'s buffers'
uncached\t'Through the page cache, dropped at once'
cached\t'Through the page cache'"
complete -c dio -n "__fish_dio_using_subcommand sha512sum" -l block -d 'Size of one request, 32M at most [default: 1M]' -r
complete -c dio -n "__fish_dio_using_subcommand sha512sum" -l depth -d 'Requests kept in flight, as far as 64M of buffers go [default: 8; of a striped file, 4 for each target if that is more]' -r
complete -c dio -n "__fish_dio_using_subcommand sha512sum" -l progress -d 'Show how far the work is' -r -f -a "auto\t'Where it is useful'
always\t'In every case'
never\t'In no case'"
complete -c dio -n "__fish_dio_using_subcommand sha512sum" -l receipt -d 'Write a JSON account of what was moved and how to FILE, or to standard output if FILE is -' -r -F
complete -c dio -n "__fish_dio_using_subcommand sha512sum" -s b -l binary -d 'Mark names as those of files read in binary mode, with *'
complete -c dio -n "__fish_dio_using_subcommand sha512sum" -l tag -d 'Write lines with the digest\'s name: MD5 (FILE) = DIGEST'
complete -c dio -n "__fish_dio_using_subcommand sha512sum" -s t -l text -d 'Mark names as those of files read in text mode, with a blank (the default without --tag)'
complete -c dio -n "__fish_dio_using_subcommand sha512sum" -s z -l zero -d 'End lines with NUL, and write names as they are'
complete -c dio -n "__fish_dio_using_subcommand sha512sum" -s c -l check -d 'Read digests from the FILEs and check them; with --strict, an improperly formatted line is a failure'
complete -c dio -n "__fish_dio_using_subcommand sha512sum" -l ignore-missing -d 'When checking, pass over files that do not exist'
complete -c dio -n "__fish_dio_using_subcommand sha512sum" -l quiet -d 'When checking, do not print OK for files that match'
complete -c dio -n "__fish_dio_using_subcommand sha512sum" -l status -d 'When checking, print nothing: the exit status says it'
complete -c dio -n "__fish_dio_using_subcommand sha512sum" -s w -l warn -d 'When checking, name each improperly formatted line'
complete -c dio -n "__fish_dio_using_subcommand sha512sum" -s h -l help -d 'Print help'
complete -c dio -n "__fish_dio_using_subcommand sha512sum" -s V -l version -d 'Print version'
complete -c dio -n "__fish_dio_using_subcommand sha512sum" -l strict -d 'Fail where --mode cannot be had instead of falling back'
complete -c dio -n "__fish_dio_using_subcommand sha512sum" -l medium -d 'Read files from the disk and not from the page cache, and fail where that is impossible: finds what has changed on the medium since it was written'
complete -c dio -n "__fish_dio_using_subcommand b2sum" -s l -l length -d 'Length of the digest in bits, a multiple of 8' -r
complete -c dio -n "__fish_dio_using_subcommand b2sum" -l mode -d 'How bytes of files move: past the page cache (direct), through it and out again at once (uncached), through it (cached), or chosen by size (auto)' -r -f -a "auto\t'Direct for large files, uncached for small ones'
direct\t'Between the disk and dio\'s buffers'
uncached\t'Through the page cache, dropped at once'
cached\t'Through the page cache'"
complete -c dio -n "__fish_dio_using_subcommand b2sum" -l block -d 'Size of one request, 32M at most [default: 1M]' -r
complete -c dio -n "__fish_dio_using_subcommand b2sum" -l depth -d 'Requests kept in flight, as far as 64M of buffers go [default: 8; of a striped file, 4 for each target if that is more]' -r
complete -c dio -n "__fish_dio_using_subcommand b2sum" -l progress -d 'Show how far the work is' -r -f -a "auto\t'Where it is useful'
always\t'In every case'
never\t'In no case'"
complete -c dio -n "__fish_dio_using_subcommand b2sum" -l receipt -d 'Write a JSON account of what was moved and how to FILE, or to standard output if FILE is -' -r -F
complete -c dio -n "__fish_dio_using_subcommand b2sum" -s b -l binary -d 'Mark names as those of files read in binary mode, with *'
complete -c dio -n "__fish_dio_using_subcommand b2sum" -l tag -d 'Write lines with the digest\'s name: MD5 (FILE) = DIGEST'
complete -c dio -n "__fish_dio_using_subcommand b2sum" -s t -l text -d 'Mark names as those of files read in text mode, with a blank (the default without --tag)'
complete -c dio -n "__fish_dio_using_subcommand b2sum" -s z -l zero -d 'End lines with NUL, and write names as they are'
complete -c dio -n "__fish_dio_using_subcommand b2sum" -s c -l check -d 'Read digests from the FILEs and check them; with --strict, an improperly formatted line is a failure'
complete -c dio -n "__fish_dio_using_subcommand b2sum" -l ignore-missing -d 'When checking, pass over files that do not exist'
complete -c dio -n "__fish_dio_using_subcommand b2sum" -l quiet -d 'When checking, do not print OK for files that match'
complete -c dio -n "__fish_dio_using_subcommand b2sum" -l status -d 'When checking, print nothing: the exit status says it'
complete -c dio -n "__fish_dio_using_subcommand b2sum" -s w -l warn -d 'When checking, name each improperly formatted line'
complete -c dio -n "__fish_dio_using_subcommand b2sum" -s h -l help -d 'Print help'
complete -c dio -n "__fish_dio_using_subcommand b2sum" -s V -l version -d 'Print version'
complete -c dio -n "__fish_dio_using_subcommand b2sum" -l strict -d 'Fail where --mode cannot be had instead of falling back'
complete -c dio -n "__fish_dio_using_subcommand b2sum" -l medium -d 'Read files from the disk and not from the page cache, and fail where that is impossible: finds what has changed on the medium since it was written'
complete -c dio -n "__fish_dio_using_subcommand b3sum" -s l -l length -d 'Length of the digest in bytes' -r
complete -c dio -n "__fish_dio_using_subcommand b3sum" -l num-threads -d 'Threads to use at most [default: one for each CPU]' -r
complete -c dio -n "__fish_dio_using_subcommand b3sum" -l mode -d 'How bytes of files move: past the page cache (direct), through it and out again at once (uncached), through it (cached), or chosen by size (auto)' -r -f -a "auto\t'Direct for large files, uncached for small ones'
direct\t'Between the disk and dio\'s buffers'
uncached\t'Through the page cache, dropped at once'
cached\t'Through the page cache'"
complete -c dio -n "__fish_dio_using_subcommand b3sum" -l block -d 'Size of one request, 32M at most [default: 1M]' -r
complete -c dio -n "__fish_dio_using_subcommand b3sum" -l depth -d 'Requests kept in flight, as far as 64M of buffers go [default: 8; of a striped file, 4 for each target if that is more]' -r
complete -c dio -n "__fish_dio_using_subcommand b3sum" -l progress -d 'Show how far the work is' -r -f -a "auto\t'Where it is useful'
always\t'In every case'
never\t'In no case'"
complete -c dio -n "__fish_dio_using_subcommand b3sum" -l receipt -d 'Write a JSON account of what was moved and how to FILE, or to standard output if FILE is -' -r -F
complete -c dio -n "__fish_dio_using_subcommand b3sum" -l no-names -d 'Write digests without names'
complete -c dio -n "__fish_dio_using_subcommand b3sum" -l raw -d 'Write the digest as it is, not in hexadecimal digits; of one file only'
complete -c dio -n "__fish_dio_using_subcommand b3sum" -l no-mmap -d 'Accepted: files are never mapped'
complete -c dio -n "__fish_dio_using_subcommand b3sum" -s b -l binary -d 'Mark names as those of files read in binary mode, with *'
complete -c dio -n "__fish_dio_using_subcommand b3sum" -l tag -d 'Write lines with the digest\'s name: MD5 (FILE) = DIGEST'
complete -c dio -n "__fish_dio_using_subcommand b3sum" -s t -l text -d 'Mark names as those of files read in text mode, with a blank (the default without --tag)'
complete -c dio -n "__fish_dio_using_subcommand b3sum" -s z -l zero -d 'End lines with NUL, and write names as they are'
complete -c dio -n "__fish_dio_using_subcommand b3sum" -s c -l check -d 'Read digests from the FILEs and check them; with --strict, an improperly formatted line is a failure'
complete -c dio -n "__fish_dio_using_subcommand b3sum" -l ignore-missing -d 'When checking, pass over files that do not exist'
complete -c dio -n "__fish_dio_using_subcommand b3sum" -l quiet -d 'When checking, do not print OK for files that match'
complete -c dio -n "__fish_dio_using_subcommand b3sum" -l status -d 'When checking, print nothing: the exit status says it'
complete -c dio -n "__fish_dio_using_subcommand b3sum" -s w -l warn -d 'When checking, name each improperly formatted line'
complete -c dio -n "__fish_dio_using_subcommand b3sum" -s h -l help -d 'Print help'
complete -c dio -n "__fish_dio_using_subcommand b3sum" -s V -l version -d 'Print version'
complete -c dio -n "__fish_dio_using_subcommand b3sum" -l strict -d 'Fail where --mode cannot be had instead of falling back'
complete -c dio -n "__fish_dio_using_subcommand b3sum" -l medium -d 'Read files from the disk and not from the page cache, and fail where that is impossible: finds what has changed on the medium since it was written'
complete -c dio -n "__fish_dio_using_subcommand cksum" -s a -l algorithm -d 'Digests to compute, in this order: any of md5, sha1, sha224, sha256, sha384, sha512, blake2b, blake3, sm3, crc, crc32b, crc32c, xxh3, bsd, sysv; or all [default: sha256; of cksum, which makes one: crc]' -r
complete -c dio -n "__fish_dio_using_subcommand cksum" -s l -l length -d 'Length of blake2b or blake3 in bits, a multiple of 8' -r
complete -c dio -n "__fish_dio_using_subcommand cksum" -l mode -d 'How bytes of files move: past the page cache (direct), through it and out again at once (uncached), through it (cached), or chosen by size (auto)' -r -f -a "auto\t'Direct for large files, uncached for small ones'
direct\t'Between the disk and dio\'s buffers'
uncached\t'Through the page cache, dropped at once'
cached\t'Through the page cache'"
complete -c dio -n "__fish_dio_using_subcommand cksum" -l block -d 'Size of one request, 32M at most [default: 1M]' -r
complete -c dio -n "__fish_dio_using_subcommand cksum" -l depth -d 'Requests kept in flight, as far as 64M of buffers go [default: 8; of a striped file, 4 for each target if that is more]' -r
complete -c dio -n "__fish_dio_using_subcommand cksum" -l progress -d 'Show how far the work is' -r -f -a "auto\t'Where it is useful'
always\t'In every case'
never\t'In no case'"
complete -c dio -n "__fish_dio_using_subcommand cksum" -l receipt -d 'Write a JSON account of what was moved and how to FILE, or to standard output if FILE is -' -r -F
complete -c dio -n "__fish_dio_using_subcommand cksum" -s r -d 'Same as -a bsd: the 16-bit sum of BSD, in blocks of 1024 bytes'
complete -c dio -n "__fish_dio_using_subcommand cksum" -s s -l sysv -d 'Same as -a sysv: the 16-bit sum of System V, in blocks of 512 bytes'
complete -c dio -n "__fish_dio_using_subcommand cksum" -l raw -d 'Write the digests as they are, not in hexadecimal digits, and nothing else; of one file and digest only'
complete -c dio -n "__fish_dio_using_subcommand cksum" -l base64 -d 'Write digests in base64'
complete -c dio -n "__fish_dio_using_subcommand cksum" -s b -l binary -d 'Mark names as those of files read in binary mode, with *'
complete -c dio -n "__fish_dio_using_subcommand cksum" -l tag -d 'Write lines with the digest\'s name: MD5 (FILE) = DIGEST'
complete -c dio -n "__fish_dio_using_subcommand cksum" -s t -l text -d 'Mark names as those of files read in text mode, with a blank (the default without --tag)'
complete -c dio -n "__fish_dio_using_subcommand cksum" -l untagged -d 'Write lines without the digest\'s name: digest, two blanks, file'
complete -c dio -n "__fish_dio_using_subcommand cksum" -s z -l zero -d 'End lines with NUL, and write names as they are'
complete -c dio -n "__fish_dio_using_subcommand cksum" -l debug -d 'Say which instructions of the CPU are used'
complete -c dio -n "__fish_dio_using_subcommand cksum" -s c -l check -d 'Read digests from the FILEs and check them; with --strict, an improperly formatted line is a failure'
complete -c dio -n "__fish_dio_using_subcommand cksum" -l ignore-missing -d 'When checking, pass over files that do not exist'
complete -c dio -n "__fish_dio_using_subcommand cksum" -l quiet -d 'When checking, do not print OK for files that match'
complete -c dio -n "__fish_dio_using_subcommand cksum" -l status -d 'When checking, print nothing: the exit status says it'
complete -c dio -n "__fish_dio_using_subcommand cksum" -s w -l warn -d 'When checking, name each improperly formatted line'
complete -c dio -n "__fish_dio_using_subcommand cksum" -s h -l help -d 'Print help'
complete -c dio -n "__fish_dio_using_subcommand cksum" -s V -l version -d 'Print version'
complete -c dio -n "__fish_dio_using_subcommand cksum" -l strict -d 'Fail where --mode cannot be had instead of falling back'
complete -c dio -n "__fish_dio_using_subcommand cksum" -l medium -d 'Read files from the disk and not from the page cache, and fail where that is impossible: finds what has changed on the medium since it was written'
complete -c dio -n "__fish_dio_using_subcommand gzip" -s S -l suffix -d 'The suffix of compressed files' -r
complete -c dio -n "__fish_dio_using_subcommand gzip" -s p -l processes -d 'Use N threads [default: one for each core]' -r
complete -c dio -n "__fish_dio_using_subcommand gzip" -l mode -d 'How bytes of files move: past the page cache (direct), through it and out again at once (uncached), through it (cached), or chosen by size (auto)' -r -f -a "auto\t'Direct for large files, uncached for small ones'
direct\t'Between the disk and dio\'s buffers'
uncached\t'Through the page cache, dropped at once'
cached\t'Through the page cache'"
complete -c dio -n "__fish_dio_using_subcommand gzip" -l block -d 'Size of one request, 32M at most [default: 1M]' -r
complete -c dio -n "__fish_dio_using_subcommand gzip" -l depth -d 'Requests kept in flight, as far as 64M of buffers go [default: 8; of a striped file, 4 for each target if that is more]' -r
complete -c dio -n "__fish_dio_using_subcommand gzip" -l progress -d 'Show how far the work is' -r -f -a "auto\t'Where it is useful'
always\t'In every case'
never\t'In no case'"
complete -c dio -n "__fish_dio_using_subcommand gzip" -l receipt -d 'Write a JSON account of what was moved and how to FILE, or to standard output if FILE is -' -r -F
complete -c dio -n "__fish_dio_using_subcommand gzip" -s c -l stdout -d 'Write to standard output, and keep the files'
complete -c dio -n "__fish_dio_using_subcommand gzip" -s d -l decompress -d 'Decompress'
complete -c dio -n "__fish_dio_using_subcommand gzip" -s f -l force -d 'Overwrite files, follow links, and use terminals'
complete -c dio -n "__fish_dio_using_subcommand gzip" -s k -l keep -d 'Keep the files'
complete -c dio -n "__fish_dio_using_subcommand gzip" -s l -l list -d 'List what compressed files contain'
complete -c dio -n "__fish_dio_using_subcommand gzip" -s n -l no-name -d 'Neither save nor restore the name and the time'
complete -c dio -n "__fish_dio_using_subcommand gzip" -s N -l name -d 'Save, or restore, the name and the time'
complete -c dio -n "__fish_dio_using_subcommand gzip" -s q -l quiet -d 'Suppress warnings'
complete -c dio -n "__fish_dio_using_subcommand gzip" -s r -l recursive -d 'Go through directories'
complete -c dio -n "__fish_dio_using_subcommand gzip" -l rsyncable -d 'Make members that do not depend on each other, so that a change in the file stays small in the compressed one: that is always so'
complete -c dio -n "__fish_dio_using_subcommand gzip" -l synchronous -d 'Sync what was written'
complete -c dio -n "__fish_dio_using_subcommand gzip" -s t -l test -d 'Test whether compressed files are sound'
complete -c dio -n "__fish_dio_using_subcommand gzip" -s v -l verbose -d 'Tell names and ratios; twice tells more'
complete -c dio -n "__fish_dio_using_subcommand gzip" -l fast -d 'Compress fast: -1'
complete -c dio -n "__fish_dio_using_subcommand gzip" -l best -d 'Compress well: -9'
complete -c dio -n "__fish_dio_using_subcommand gzip" -l members -d 'Make a member of every 2 MiB instead of one of all'
complete -c dio -n "__fish_dio_using_subcommand gzip" -l salvage -d 'Keep what was decompressed before the damage in a damaged file'
complete -c dio -n "__fish_dio_using_subcommand gzip" -s h -l help -d 'Print help'
complete -c dio -n "__fish_dio_using_subcommand gzip" -s V -l version -d 'Print version'
complete -c dio -n "__fish_dio_using_subcommand gzip" -l strict -d 'Fail where --mode cannot be had instead of falling back'
complete -c dio -n "__fish_dio_using_subcommand gunzip" -s S -l suffix -d 'The suffix of compressed files' -r
complete -c dio -n "__fish_dio_using_subcommand gunzip" -s p -l processes -d 'Use N threads [default: one for each core]' -r
complete -c dio -n "__fish_dio_using_subcommand gunzip" -l mode -d 'How bytes of files move: past the page cache (direct), through it and out again at once (uncached), through it (cached), or chosen by size (auto)' -r -f -a "auto\t'Direct for large files, uncached for small ones'
direct\t'Between the disk and dio\'s buffers'
uncached\t'Through the page cache, dropped at once'
cached\t'Through the page cache'"
complete -c dio -n "__fish_dio_using_subcommand gunzip" -l block -d 'Size of one request, 32M at most [default: 1M]' -r
complete -c dio -n "__fish_dio_using_subcommand gunzip" -l depth -d 'Requests kept in flight, as far as 64M of buffers go [default: 8; of a striped file, 4 for each target if that is more]' -r
complete -c dio -n "__fish_dio_using_subcommand gunzip" -l progress -d 'Show how far the work is' -r -f -a "auto\t'Where it is useful'
always\t'In every case'
never\t'In no case'"
complete -c dio -n "__fish_dio_using_subcommand gunzip" -l receipt -d 'Write a JSON account of what was moved and how to FILE, or to standard output if FILE is -' -r -F
complete -c dio -n "__fish_dio_using_subcommand gunzip" -s c -l stdout -d 'Write to standard output, and keep the files'
complete -c dio -n "__fish_dio_using_subcommand gunzip" -s d -l decompress -d 'Decompress'
complete -c dio -n "__fish_dio_using_subcommand gunzip" -s f -l force -d 'Overwrite files, follow links, and use terminals'
complete -c dio -n "__fish_dio_using_subcommand gunzip" -s k -l keep -d 'Keep the files'
complete -c dio -n "__fish_dio_using_subcommand gunzip" -s l -l list -d 'List what compressed files contain'
complete -c dio -n "__fish_dio_using_subcommand gunzip" -s n -l no-name -d 'Neither save nor restore the name and the time'
complete -c dio -n "__fish_dio_using_subcommand gunzip" -s N -l name -d 'Save, or restore, the name and the time'
complete -c dio -n "__fish_dio_using_subcommand gunzip" -s q -l quiet -d 'Suppress warnings'
complete -c dio -n "__fish_dio_using_subcommand gunzip" -s r -l recursive -d 'Go through directories'
complete -c dio -n "__fish_dio_using_subcommand gunzip" -l rsyncable -d 'Make members that do not depend on each other, so that a change in the file stays small in the compressed one: that is always so'
complete -c dio -n "__fish_dio_using_subcommand gunzip" -l synchronous -d 'Sync what was written'
complete -c dio -n "__fish_dio_using_subcommand gunzip" -s t -l test -d 'Test whether compressed files are sound'
complete -c dio -n "__fish_dio_using_subcommand gunzip" -s v -l verbose -d 'Tell names and ratios; twice tells more'
complete -c dio -n "__fish_dio_using_subcommand gunzip" -l fast -d 'Compress fast: -1'
complete -c dio -n "__fish_dio_using_subcommand gunzip" -l best -d 'Compress well: -9'
complete -c dio -n "__fish_dio_using_subcommand gunzip" -l members -d 'Make a member of every 2 MiB instead of one of all'
complete -c dio -n "__fish_dio_using_subcommand gunzip" -l salvage -d 'Keep what was decompressed before the damage in a damaged file'
complete -c dio -n "__fish_dio_using_subcommand gunzip" -s h -l help -d 'Print help'
complete -c dio -n "__fish_dio_using_subcommand gunzip" -s V -l version -d 'Print version'
complete -c dio -n "__fish_dio_using_subcommand gunzip" -l strict -d 'Fail where --mode cannot be had instead of falling back'
complete -c dio -n "__fish_dio_using_subcommand zcat" -s S -l suffix -d 'The suffix of compressed files' -r
complete -c dio -n "__fish_dio_using_subcommand zcat" -s p -l processes -d 'Use N threads [default: one for each core]' -r
complete -c dio -n "__fish_dio_using_subcommand zcat" -l mode -d 'How bytes of files move: past the page cache (direct), through it and out again at once (uncached), through it (cached), or chosen by size (auto)' -r -f -a "auto\t'Direct for large files, uncached for small ones'
direct\t'Between the disk and dio\'s buffers'
uncached\t'Through the page cache, dropped at once'
cached\t'Through the page cache'"
complete -c dio -n "__fish_dio_using_subcommand zcat" -l block -d 'Size of one request, 32M at most [default: 1M]' -r
complete -c dio -n "__fish_dio_using_subcommand zcat" -l depth -d 'Requests kept in flight, as far as 64M of buffers go [default: 8; of a striped file, 4 for each target if that is more]' -r
complete -c dio -n "__fish_dio_using_subcommand zcat" -l progress -d 'Show how far the work is' -r -f -a "auto\t'Where it is useful'
always\t'In every case'
never\t'In no case'"
complete -c dio -n "__fish_dio_using_subcommand zcat" -l receipt -d 'Write a JSON account of what was moved and how to FILE, or to standard output if FILE is -' -r -F
complete -c dio -n "__fish_dio_using_subcommand zcat" -s c -l stdout -d 'Write to standard output, and keep the files'
complete -c dio -n "__fish_dio_using_subcommand zcat" -s d -l decompress -d 'Decompress'
complete -c dio -n "__fish_dio_using_subcommand zcat" -s f -l force -d 'Overwrite files, follow links, and use terminals'
complete -c dio -n "__fish_dio_using_subcommand zcat" -s k -l keep -d 'Keep the files'
complete -c dio -n "__fish_dio_using_subcommand zcat" -s l -l list -d 'List what compressed files contain'
complete -c dio -n "__fish_dio_using_subcommand zcat" -s n -l no-name -d 'Neither save nor restore the name and the time'
complete -c dio -n "__fish_dio_using_subcommand zcat" -s N -l name -d 'Save, or restore, the name and the time'
complete -c dio -n "__fish_dio_using_subcommand zcat" -s q -l quiet -d 'Suppress warnings'
complete -c dio -n "__fish_dio_using_subcommand zcat" -s r -l recursive -d 'Go through directories'
complete -c dio -n "__fish_dio_using_subcommand zcat" -l rsyncable -d 'Make members that do not depend on each other, so that a change in the file stays small in the compressed one: that is always so'
complete -c dio -n "__fish_dio_using_subcommand zcat" -l synchronous -d 'Sync what was written'
complete -c dio -n "__fish_dio_using_subcommand zcat" -s t -l test -d 'Test whether compressed files are sound'
complete -c dio -n "__fish_dio_using_subcommand zcat" -s v -l verbose -d 'Tell names and ratios; twice tells more'
complete -c dio -n "__fish_dio_using_subcommand zcat" -l fast -d 'Compress fast: -1'
complete -c dio -n "__fish_dio_using_subcommand zcat" -l best -d 'Compress well: -9'
complete -c dio -n "__fish_dio_using_subcommand zcat" -l members -d 'Make a member of every 2 MiB instead of one of all'
complete -c dio -n "__fish_dio_using_subcommand zcat" -l salvage -d 'Keep what was decompressed before the damage in a damaged file'
complete -c dio -n "__fish_dio_using_subcommand zcat" -s h -l help -d 'Print help'
complete -c dio -n "__fish_dio_using_subcommand zcat" -s V -l version -d 'Print version'
complete -c dio -n "__fish_dio_using_subcommand zcat" -l strict -d 'Fail where --mode cannot be had instead of falling back'
complete -c dio -n "__fish_dio_using_subcommand zstd" -s o -d 'Write to FILE' -r -F
complete -c dio -n "__fish_dio_using_subcommand zstd" -l filelist -d 'Read the names of more files from FILE, a line each' -r -F
complete -c dio -n "__fish_dio_using_subcommand zstd" -l output-dir-flat -d 'Put the files that are made into DIR' -r -f -a "(__fish_complete_directories)"
complete -c dio -n "__fish_dio_using_subcommand zstd" -l output-dir-mirror -d 'Put the files that are made into DIR, in directories as those they come from' -r -f -a "(__fish_complete_directories)"
complete -c dio -n "__fish_dio_using_subcommand zstd" -l fast -d 'Compress fast: 1 is the slowest of these levels' -r
complete -c dio -n "__fish_dio_using_subcommand zstd" -s T -l threads -d 'Use N threads; 0 is one for each core, which is the default' -r
complete -c dio -n "__fish_dio_using_subcommand zstd" -l long -d 'Look for matches as far back as 2 to the power of N [default: 27]' -r
complete -c dio -n "__fish_dio_using_subcommand zstd" -l zstd -d 'Set parameters of the library, wlog, clog, hlog, slog, mml, tlen, strat, ovlog, lhlog, lmml, lblog, lhrlog: NAME=N,…' -r
complete -c dio -n "__fish_dio_using_subcommand zstd" -s B -d 'Give a thread SIZE bytes at a time' -r
complete -c dio -n "__fish_dio_using_subcommand zstd" -l target-compressed-block-size -d 'Make compressed blocks of about SIZE bytes' -r
complete -c dio -n "__fish_dio_using_subcommand zstd" -s D -d 'Use the dictionary FILE' -r -F
complete -c dio -n "__fish_dio_using_subcommand zstd" -l stream-size -d 'Standard input has SIZE bytes' -r
complete -c dio -n "__fish_dio_using_subcommand zstd" -s M -l memory -d 'Decompress frames whose window is of SIZE bytes at most [default: 128M]' -r
complete -c dio -n "__fish_dio_using_subcommand zstd" -l format -d 'The format of what is made: zstd' -r -f -a "zstd\t''"
complete -c dio -n "__fish_dio_using_subcommand zstd" -l mode -d 'How bytes of files move: past the page cache (direct), through it and out again at once (uncached), through it (cached), or chosen by size (auto)' -r -f -a "auto\t'Direct for large files, uncached for small ones'
direct\t'Between the disk and dio\'s buffers'
uncached\t'Through the page cache, dropped at once'
cached\t'Through the page cache'"
complete -c dio -n "__fish_dio_using_subcommand zstd" -l block -d 'Size of one request, 32M at most [default: 1M]' -r
complete -c dio -n "__fish_dio_using_subcommand zstd" -l depth -d 'Requests kept in flight, as far as 64M of buffers go [default: 8; of a striped file, 4 for each target if that is more]' -r
complete -c dio -n "__fish_dio_using_subcommand zstd" -l progress -d 'Show how far the work is' -r -f -a "auto\t'Where it is useful'
always\t'In every case'
never\t'In no case'"
complete -c dio -n "__fish_dio_using_subcommand zstd" -l receipt -d 'Write a JSON account of what was moved and how to FILE, or to standard output if FILE is -' -r -F
complete -c dio -n "__fish_dio_using_subcommand zstd" -s z -l compress -d 'Compress: the default'
complete -c dio -n "__fish_dio_using_subcommand zstd" -s d -l decompress -d 'Decompress'
complete -c dio -n "__fish_dio_using_subcommand zstd" -s t -l test -d 'Test whether compressed files are sound'
complete -c dio -n "__fish_dio_using_subcommand zstd" -s l -l list -d 'List what compressed files contain'
complete -c dio -n "__fish_dio_using_subcommand zstd" -s c -l stdout -d 'Write to standard output'
complete -c dio -n "__fish_dio_using_subcommand zstd" -s f -l force -d 'Overwrite files, follow links, use terminals; with -d and -c, pass on what is not compressed'
complete -c dio -n "__fish_dio_using_subcommand zstd" -s k -l keep -d 'Keep the files: the default'
complete -c dio -n "__fish_dio_using_subcommand zstd" -l rm -d 'Remove each file when its target is on the medium'
complete -c dio -n "__fish_dio_using_subcommand zstd" -s r -d 'Go through directories'
complete -c dio -n "__fish_dio_using_subcommand zstd" -s q -l quiet -d 'Tell less; twice, no errors either'
complete -c dio -n "__fish_dio_using_subcommand zstd" -s v -l verbose -d 'Tell more'
complete -c dio -n "__fish_dio_using_subcommand zstd" -l ultra -d 'Allow the levels from 20 to 22'
complete -c dio -n "__fish_dio_using_subcommand zstd" -l single-thread -d 'Compress in the thread that reads and writes'
complete -c dio -n "__fish_dio_using_subcommand zstd" -l no-dictID -d 'Do not store the number of the dictionary'
complete -c dio -n "__fish_dio_using_subcommand zstd" -s C -l check -d 'Store a checksum: the default'
complete -c dio -n "__fish_dio_using_subcommand zstd" -l no-check -d 'Store no checksum; one that is there is verified all the same'
complete -c dio -n "__fish_dio_using_subcommand zstd" -l content-size -d 'Store the size of the contents where it is known: the default'
complete -c dio -n "__fish_dio_using_subcommand zstd" -l no-content-size -d 'Do not store the size of the contents'
complete -c dio -n "__fish_dio_using_subcommand zstd" -l exclude-compressed -d 'Leave out files whose names say that they are compressed'
complete -c dio -n "__fish_dio_using_subcommand zstd" -l sparse -d 'Make files with holes where there are zeros: the default, but for standard output'
complete -c dio -n "__fish_dio_using_subcommand zstd" -l no-sparse -d 'Write zeros'
complete -c dio -n "__fish_dio_using_subcommand zstd" -l pass-through -d 'Pass on what is not compressed'
complete -c dio -n "__fish_dio_using_subcommand zstd" -l no-pass-through -d 'Do not, even with -f and -c'
complete -c dio -n "__fish_dio_using_subcommand zstd" -l salvage -d 'Keep what was decompressed before the damage in a damaged file'
complete -c dio -n "__fish_dio_using_subcommand zstd" -l sync -d 'Sync what was written'
complete -c dio -n "__fish_dio_using_subcommand zstd" -s h -l help -d 'Print help'
complete -c dio -n "__fish_dio_using_subcommand zstd" -s V -l version -d 'Print version'
complete -c dio -n "__fish_dio_using_subcommand zstd" -l strict -d 'Fail where --mode cannot be had instead of falling back'
complete -c dio -n "__fish_dio_using_subcommand unzstd" -s o -d 'Write to FILE' -r -F
complete -c dio -n "__fish_dio_using_subcommand unzstd" -l filelist -d 'Read the names of more files from FILE, a line each' -r -F
complete -c dio -n "__fish_dio_using_subcommand unzstd" -l output-dir-flat -d 'Put the files that are made into DIR' -r -f -a "(__fish_complete_directories)"
complete -c dio -n "__fish_dio_using_subcommand unzstd" -l output-dir-mirror -d 'Put the files that are made into DIR, in directories as those they come from' -r -f -a "(__fish_complete_directories)"
complete -c dio -n "__fish_dio_using_subcommand unzstd" -l fast -d 'Compress fast: 1 is the slowest of these levels' -r
complete -c dio -n "__fish_dio_using_subcommand unzstd" -s T -l threads -d 'Use N threads; 0 is one for each core, which is the default' -r
complete -c dio -n "__fish_dio_using_subcommand unzstd" -l long -d 'Look for matches as far back as 2 to the power of N [default: 27]' -r
complete -c dio -n "__fish_dio_using_subcommand unzstd" -l zstd -d 'Set parameters of the library, wlog, clog, hlog, slog, mml, tlen, strat, ovlog, lhlog, lmml, lblog, lhrlog: NAME=N,…' -r
complete -c dio -n "__fish_dio_using_subcommand unzstd" -s B -d 'Give a thread SIZE bytes at a time' -r
complete -c dio -n "__fish_dio_using_subcommand unzstd" -l target-compressed-block-size -d 'Make compressed blocks of about SIZE bytes' -r
complete -c dio -n "__fish_dio_using_subcommand unzstd" -s D -d 'Use the dictionary FILE' -r -F
complete -c dio -n "__fish_dio_using_subcommand unzstd" -l stream-size -d 'Standard input has SIZE bytes' -r
complete -c dio -n "__fish_dio_using_subcommand unzstd" -s M -l memory -d 'Decompress frames whose window is of SIZE bytes at most [default: 128M]' -r
complete -c dio -n "__fish_dio_using_subcommand unzstd" -l format -d 'The format of what is made: zstd' -r -f -a "zstd\t''"
complete -c dio -n "__fish_dio_using_subcommand unzstd" -l mode -d 'How bytes of files move: past the page cache (direct), through it and out again at once (uncached), through it (cached), or chosen by size (auto)' -r -f -a "auto\t'Direct for large files, uncached for small ones'
direct\t'Between the disk and dio\'s buffers'
uncached\t'Through the page cache, dropped at once'
cached\t'Through the page cache'"
complete -c dio -n "__fish_dio_using_subcommand unzstd" -l block -d 'Size of one request, 32M at most [default: 1M]' -r
complete -c dio -n "__fish_dio_using_subcommand unzstd" -l depth -d 'Requests kept in flight, as far as 64M of buffers go [default: 8; of a striped file, 4 for each target if that is more]' -r
complete -c dio -n "__fish_dio_using_subcommand unzstd" -l progress -d 'Show how far the work is' -r -f -a "auto\t'Where it is useful'
always\t'In every case'
never\t'In no case'"
complete -c dio -n "__fish_dio_using_subcommand unzstd" -l receipt -d 'Write a JSON account of what was moved and how to FILE, or to standard output if FILE is -' -r -F
complete -c dio -n "__fish_dio_using_subcommand unzstd" -s z -l compress -d 'Compress: the default'
complete -c dio -n "__fish_dio_using_subcommand unzstd" -s d -l decompress -d 'Decompress'
complete -c dio -n "__fish_dio_using_subcommand unzstd" -s t -l test -d 'Test whether compressed files are sound'
complete -c dio -n "__fish_dio_using_subcommand unzstd" -s l -l list -d 'List what compressed files contain'
complete -c dio -n "__fish_dio_using_subcommand unzstd" -s c -l stdout -d 'Write to standard output'
complete -c dio -n "__fish_dio_using_subcommand unzstd" -s f -l force -d 'Overwrite files, follow links, use terminals; with -d and -c, pass on what is not compressed'
complete -c dio -n "__fish_dio_using_subcommand unzstd" -s k -l keep -d 'Keep the files: the default'
complete -c dio -n "__fish_dio_using_subcommand unzstd" -l rm -d 'Remove each file when its target is on the medium'
complete -c dio -n "__fish_dio_using_subcommand unzstd" -s r -d 'Go through directories'
complete -c dio -n "__fish_dio_using_subcommand unzstd" -s q -l quiet -d 'Tell less; twice, no errors either'
complete -c dio -n "__fish_dio_using_subcommand unzstd" -s v -l verbose -d 'Tell more'
complete -c dio -n "__fish_dio_using_subcommand unzstd" -l ultra -d 'Allow the levels from 20 to 22'
complete -c dio -n "__fish_dio_using_subcommand unzstd" -l single-thread -d 'Compress in the thread that reads and writes'
complete -c dio -n "__fish_dio_using_subcommand unzstd" -l no-dictID -d 'Do not store the number of the dictionary'
complete -c dio -n "__fish_dio_using_subcommand unzstd" -s C -l check -d 'Store a checksum: the default'
complete -c dio -n "__fish_dio_using_subcommand unzstd" -l no-check -d 'Store no checksum; one that is there is verified all the same'
complete -c dio -n "__fish_dio_using_subcommand unzstd" -l content-size -d 'Store the size of the contents where it is known: the default'
complete -c dio -n "__fish_dio_using_subcommand unzstd" -l no-content-size -d 'Do not store the size of the contents'
complete -c dio -n "__fish_dio_using_subcommand unzstd" -l exclude-compressed -d 'Leave out files whose names say that they are compressed'
complete -c dio -n "__fish_dio_using_subcommand unzstd" -l sparse -d 'Make files with holes where there are zeros: the default, but for standard output'
complete -c dio -n "__fish_dio_using_subcommand unzstd" -l no-sparse -d 'Write zeros'
complete -c dio -n "__fish_dio_using_subcommand unzstd" -l pass-through -d 'Pass on what is not compressed'
complete -c dio -n "__fish_dio_using_subcommand unzstd" -l no-pass-through -d 'Do not, even with -f and -c'
complete -c dio -n "__fish_dio_using_subcommand unzstd" -l salvage -d 'Keep what was decompressed before the damage in a damaged file'
complete -c dio -n "__fish_dio_using_subcommand unzstd" -l sync -d 'Sync what was written'
complete -c dio -n "__fish_dio_using_subcommand unzstd" -s h -l help -d 'Print help'
complete -c dio -n "__fish_dio_using_subcommand unzstd" -s V -l version -d 'Print version'
complete -c dio -n "__fish_dio_using_subcommand unzstd" -l strict -d 'Fail where --mode cannot be had instead of falling back'
complete -c dio -n "__fish_dio_using_subcommand zstdcat" -s o -d 'Write to FILE' -r -F
complete -c dio -n "__fish_dio_using_subcommand zstdcat" -l filelist -d 'Read the names of more files from FILE, a line each' -r -F
complete -c dio -n "__fish_dio_using_subcommand zstdcat" -l output-dir-flat -d 'Put the files that are made into DIR' -r -f -a "(__fish_complete_directories)"
complete -c dio -n "__fish_dio_using_subcommand zstdcat" -l output-dir-mirror -d 'Put the files that are made into DIR, in directories as those they come from' -r -f -a "(__fish_complete_directories)"
complete -c dio -n "__fish_dio_using_subcommand zstdcat" -l fast -d 'Compress fast: 1 is the slowest of these levels' -r
complete -c dio -n "__fish_dio_using_subcommand zstdcat" -s T -l threads -d 'Use N threads; 0 is one for each core, which is the default' -r
complete -c dio -n "__fish_dio_using_subcommand zstdcat" -l long -d 'Look for matches as far back as 2 to the power of N [default: 27]' -r
complete -c dio -n "__fish_dio_using_subcommand zstdcat" -l zstd -d 'Set parameters of the library, wlog, clog, hlog, slog, mml, tlen, strat, ovlog, lhlog, lmml, lblog, lhrlog: NAME=N,…' -r
complete -c dio -n "__fish_dio_using_subcommand zstdcat" -s B -d 'Give a thread SIZE bytes at a time' -r
complete -c dio -n "__fish_dio_using_subcommand zstdcat" -l target-compressed-block-size -d 'Make compressed blocks of about SIZE bytes' -r
complete -c dio -n "__fish_dio_using_subcommand zstdcat" -s D -d 'Use the dictionary FILE' -r -F
complete -c dio -n "__fish_dio_using_subcommand zstdcat" -l stream-size -d 'Standard input has SIZE bytes' -r
complete -c dio -n "__fish_dio_using_subcommand zstdcat" -s M -l memory -d 'Decompress frames whose window is of SIZE bytes at most [default: 128M]' -r
complete -c dio -n "__fish_dio_using_subcommand zstdcat" -l format -d 'The format of what is made: zstd' -r -f -a "zstd\t''"
complete -c dio -n "__fish_dio_using_subcommand zstdcat" -l mode -d 'How bytes of files move: past the page cache (direct), through it and out again at once (uncached), through it (cached), or chosen by size (auto)' -r -f -a "auto\t'Direct for large files, uncached for small ones'
direct\t'Between the disk and dio\'s buffers'
uncached\t'Through the page cache, dropped at once'
cached\t'Through the page cache'"
complete -c dio -n "__fish_dio_using_subcommand zstdcat" -l block -d 'Size of one request, 32M at most [default: 1M]' -r
complete -c dio -n "__fish_dio_using_subcommand zstdcat" -l depth -d 'Requests kept in flight, as far as 64M of buffers go [default: 8; of a striped file, 4 for each target if that is more]' -r
complete -c dio -n "__fish_dio_using_subcommand zstdcat" -l progress -d 'Show how far the work is' -r -f -a "auto\t'Where it is useful'
always\t'In every case'
never\t'In no case'"
complete -c dio -n "__fish_dio_using_subcommand zstdcat" -l receipt -d 'Write a JSON account of what was moved and how to FILE, or to standard output if FILE is -' -r -F
complete -c dio -n "__fish_dio_using_subcommand zstdcat" -s z -l compress -d 'Compress: the default'
complete -c dio -n "__fish_dio_using_subcommand zstdcat" -s d -l decompress -d 'Decompress'
complete -c dio -n "__fish_dio_using_subcommand zstdcat" -s t -l test -d 'Test whether compressed files are sound'
complete -c dio -n "__fish_dio_using_subcommand zstdcat" -s l -l list -d 'List what compressed files contain'
complete -c dio -n "__fish_dio_using_subcommand zstdcat" -s c -l stdout -d 'Write to standard output'
complete -c dio -n "__fish_dio_using_subcommand zstdcat" -s f -l force -d 'Overwrite files, follow links, use terminals; with -d and -c, pass on what is not compressed'
complete -c dio -n "__fish_dio_using_subcommand zstdcat" -s k -l keep -d 'Keep the files: the default'
complete -c dio -n "__fish_dio_using_subcommand zstdcat" -l rm -d 'Remove each file when its target is on the medium'
complete -c dio -n "__fish_dio_using_subcommand zstdcat" -s r -d 'Go through directories'
complete -c dio -n "__fish_dio_using_subcommand zstdcat" -s q -l quiet -d 'Tell less; twice, no errors either'
complete -c dio -n "__fish_dio_using_subcommand zstdcat" -s v -l verbose -d 'Tell more'
complete -c dio -n "__fish_dio_using_subcommand zstdcat" -l ultra -d 'Allow the levels from 20 to 22'
complete -c dio -n "__fish_dio_using_subcommand zstdcat" -l single-thread -d 'Compress in the thread that reads and writes'
complete -c dio -n "__fish_dio_using_subcommand zstdcat" -l no-dictID -d 'Do not store the number of the dictionary'
complete -c dio -n "__fish_dio_using_subcommand zstdcat" -s C -l check -d 'Store a checksum: the default'
complete -c dio -n "__fish_dio_using_subcommand zstdcat" -l no-check -d 'Store no checksum; one that is there is verified all the same'
complete -c dio -n "__fish_dio_using_subcommand zstdcat" -l content-size -d 'Store the size of the contents where it is known: the default'
complete -c dio -n "__fish_dio_using_subcommand zstdcat" -l no-content-size -d 'Do not store the size of the contents'
complete -c dio -n "__fish_dio_using_subcommand zstdcat" -l exclude-compressed -d 'Leave out files whose names say that they are compressed'
complete -c dio -n "__fish_dio_using_subcommand zstdcat" -l sparse -d 'Make files with holes where there are zeros: the default, but for standard output'
complete -c dio -n "__fish_dio_using_subcommand zstdcat" -l no-sparse -d 'Write zeros'
complete -c dio -n "__fish_dio_using_subcommand zstdcat" -l pass-through -d 'Pass on what is not compressed'
complete -c dio -n "__fish_dio_using_subcommand zstdcat" -l no-pass-through -d 'Do not, even with -f and -c'
complete -c dio -n "__fish_dio_using_subcommand zstdcat" -l salvage -d 'Keep what was decompressed before the damage in a damaged file'
complete -c dio -n "__fish_dio_using_subcommand zstdcat" -l sync -d 'Sync what was written'
complete -c dio -n "__fish_dio_using_subcommand zstdcat" -s h -l help -d 'Print help'
complete -c dio -n "__fish_dio_using_subcommand zstdcat" -s V -l version -d 'Print version'
complete -c dio -n "__fish_dio_using_subcommand zstdcat" -l strict -d 'Fail where --mode cannot be had instead of falling back'
complete -c dio -n "__fish_dio_using_subcommand mount" -s o -d 'Options, separated by commas, such as cio, dio=redo/*, cached=*.ctl, ro, allow_other, threads=32' -r
complete -c dio -n "__fish_dio_using_subcommand mount" -s f -l foreground -d 'Serve in this process until the mount is gone'
complete -c dio -n "__fish_dio_using_subcommand mount" -s v -l verbose -d 'Say what is mounted'
complete -c dio -n "__fish_dio_using_subcommand mount" -s h -l help -d 'Print help'
complete -c dio -n "__fish_dio_using_subcommand mount" -s V -l version -d 'Print version'
complete -c dio -n "__fish_dio_using_subcommand umount" -s l -l lazy -d 'Detach a mount that is in use; it ends with its last user'
complete -c dio -n "__fish_dio_using_subcommand umount" -s h -l help -d 'Print help'
complete -c dio -n "__fish_dio_using_subcommand umount" -s V -l version -d 'Print version'
complete -c dio -n "__fish_dio_using_subcommand install-mount-helper" -l dir -d 'Where mount(8) looks for helpers' -r -f -a "(__fish_complete_directories)"
complete -c dio -n "__fish_dio_using_subcommand install-mount-helper" -l program -d 'Program to link to, as it will be found when it is needed [default: this one]' -r -F
complete -c dio -n "__fish_dio_using_subcommand install-mount-helper" -l force -d 'Link also to a program that other users could replace, although mount(8) runs it as root'
complete -c dio -n "__fish_dio_using_subcommand install-mount-helper" -s h -l help -d 'Print help'
complete -c dio -n "__fish_dio_using_subcommand install-mount-helper" -s V -l version -d 'Print version'
complete -c dio -n "__fish_dio_using_subcommand run" -s o -l options -d 'Options of the mounts, separated by commas, as for `dio mount`' -r
complete -c dio -n "__fish_dio_using_subcommand run" -l limit -d 'Read and write at most RATE bytes per second, e.g. 100M: the option rate=' -r
complete -c dio -n "__fish_dio_using_subcommand run" -l latency -d 'Slow down while a small read of the device takes longer than TIME, e.g. 5ms: the option latency=' -r
complete -c dio -n "__fish_dio_using_subcommand run" -l dir -d 'Mount DIR for the command; may be given several times' -r -f -a "(__fish_complete_directories)"
complete -c dio -n "__fish_dio_using_subcommand run" -s h -l help -d 'Print help'
complete -c dio -n "__fish_dio_using_subcommand run" -s V -l version -d 'Print version'
complete -c dio -n "__fish_dio_using_subcommand stat" -s p -l pid -d 'A mount that process PID sees, such as the command of a `dio run`; MOUNTPOINT is needed if there are several' -r
complete -c dio -n "__fish_dio_using_subcommand stat" -s i -l interval -d 'Report what happens every so many seconds (1, unless given, with --count)' -r
complete -c dio -n "__fish_dio_using_subcommand stat" -s c -l count -d 'End after so many reports; without it, they go on until the mount ends' -r
complete -c dio -n "__fish_dio_using_subcommand stat" -s o -l output -d 'Replace this file by each report, atomically, instead of printing it' -r -F
complete -c dio -n "__fish_dio_using_subcommand stat" -l files -d 'Show the busiest files too'
complete -c dio -n "__fish_dio_using_subcommand stat" -l json -d 'Print each report as one JSON object on one line'
complete -c dio -n "__fish_dio_using_subcommand stat" -l prometheus -d 'Print the counters in the text format of Prometheus'
complete -c dio -n "__fish_dio_using_subcommand stat" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c dio -n "__fish_dio_using_subcommand stat" -s V -l version -d 'Print version'
complete -c dio -n "__fish_dio_using_subcommand stripe; and not __fish_seen_subcommand_from set show check migrate rm adopt orphans help" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c dio -n "__fish_dio_using_subcommand stripe; and not __fish_seen_subcommand_from set show check migrate rm adopt orphans help" -s V -l version -d 'Print version'
complete -c dio -n "__fish_dio_using_subcommand stripe; and not __fish_seen_subcommand_from set show check migrate rm adopt orphans help" -f -a "set" -d 'Make empty striped files'
complete -c dio -n "__fish_dio_using_subcommand stripe; and not __fish_seen_subcommand_from set show check migrate rm adopt orphans help" -f -a "show" -d 'Show how files are striped'
complete -c dio -n "__fish_dio_using_subcommand stripe; and not __fish_seen_subcommand_from set show check migrate rm adopt orphans help" -f -a "check" -d 'Check that all objects of striped files are there and are the right ones'
complete -c dio -n "__fish_dio_using_subcommand stripe; and not __fish_seen_subcommand_from set show check migrate rm adopt orphans help" -f -a "migrate" -d 'Move files to another layout'
complete -c dio -n "__fish_dio_using_subcommand stripe; and not __fish_seen_subcommand_from set show check migrate rm adopt orphans help" -f -a "rm" -d 'Remove striped files with all their bytes'
complete -c dio -n "__fish_dio_using_subcommand stripe; and not __fish_seen_subcommand_from set show check migrate rm adopt orphans help" -f -a "adopt" -d 'Make copies of descriptors the striped files'
complete -c dio -n "__fish_dio_using_subcommand stripe; and not __fish_seen_subcommand_from set show check migrate rm adopt orphans help" -f -a "orphans" -d 'Find objects whose striped file is gone'
complete -c dio -n "__fish_dio_using_subcommand stripe; and not __fish_seen_subcommand_from set show check migrate rm adopt orphans help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c dio -n "__fish_dio_using_subcommand stripe; and __fish_seen_subcommand_from set" -s S -l stripe-size -d 'Bytes in a stripe, a multiple of 4096; 1M unless a directory\'s file system likes larger ones' -r
complete -c dio -n "__fish_dio_using_subcommand stripe; and __fish_seen_subcommand_from set" -s c -l stripe-count -d 'Stripe over COUNT objects; by default, one in each directory' -r
complete -c dio -n "__fish_dio_using_subcommand stripe; and __fish_seen_subcommand_from set" -s t -l targets -d 'Directories for the objects, in order, or block devices, each of which becomes one object; none of them twice' -r -F
complete -c dio -n "__fish_dio_using_subcommand stripe; and __fish_seen_subcommand_from set" -l force -d 'Use devices even if they hold data, which is lost'
complete -c dio -n "__fish_dio_using_subcommand stripe; and __fish_seen_subcommand_from set" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c dio -n "__fish_dio_using_subcommand stripe; and __fish_seen_subcommand_from set" -s V -l version -d 'Print version'
complete -c dio -n "__fish_dio_using_subcommand stripe; and __fish_seen_subcommand_from show" -l json -d 'Print one JSON array with an object for each file'
complete -c dio -n "__fish_dio_using_subcommand stripe; and __fish_seen_subcommand_from show" -s h -l help -d 'Print help'
complete -c dio -n "__fish_dio_using_subcommand stripe; and __fish_seen_subcommand_from show" -s V -l version -d 'Print version'
complete -c dio -n "__fish_dio_using_subcommand stripe; and __fish_seen_subcommand_from check" -l digests -d 'Take the digest of every object and compare it with what --record has written to LIST' -r -F
complete -c dio -n "__fish_dio_using_subcommand stripe; and __fish_seen_subcommand_from check" -l record -d 'Take the digest of every object and write it to LIST, for --digests' -r -F
complete -c dio -n "__fish_dio_using_subcommand stripe; and __fish_seen_subcommand_from check" -s q -l quiet -d 'Say nothing of files that are sound'
complete -c dio -n "__fish_dio_using_subcommand stripe; and __fish_seen_subcommand_from check" -l repair -d 'Cut off bytes behind the end of a file, and convert files of the first format, in which old copies of objects are not recognised. No program on any machine may have the file open for writing'
complete -c dio -n "__fish_dio_using_subcommand stripe; and __fish_seen_subcommand_from check" -l force -d 'With --repair, also repair a file whose objects are too old, too short or damaged: it is cut off at the first missing byte, and all bytes behind that are lost'
complete -c dio -n "__fish_dio_using_subcommand stripe; and __fish_seen_subcommand_from check" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c dio -n "__fish_dio_using_subcommand stripe; and __fish_seen_subcommand_from check" -s V -l version -d 'Print version'
complete -c dio -n "__fish_dio_using_subcommand stripe; and __fish_seen_subcommand_from migrate" -s S -l stripe-size -d 'Bytes in a stripe, a multiple of 4096; 1M unless a directory\'s file system likes larger ones' -r
complete -c dio -n "__fish_dio_using_subcommand stripe; and __fish_seen_subcommand_from migrate" -s c -l stripe-count -d 'Stripe over COUNT objects; by default, one in each directory' -r
complete -c dio -n "__fish_dio_using_subcommand stripe; and __fish_seen_subcommand_from migrate" -s t -l targets -d 'Directories for the objects, in order, or block devices, each of which becomes one object; none of them twice' -r -F
complete -c dio -n "__fish_dio_using_subcommand stripe; and __fish_seen_subcommand_from migrate" -l force -d 'Use devices even if they hold data, which is lost'
complete -c dio -n "__fish_dio_using_subcommand stripe; and __fish_seen_subcommand_from migrate" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c dio -n "__fish_dio_using_subcommand stripe; and __fish_seen_subcommand_from migrate" -s V -l version -d 'Print version'
complete -c dio -n "__fish_dio_using_subcommand stripe; and __fish_seen_subcommand_from rm" -l force -d 'Remove the remaining objects of files whose other objects are missing or damaged; without this, nothing of such a file is removed'
complete -c dio -n "__fish_dio_using_subcommand stripe; and __fish_seen_subcommand_from rm" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c dio -n "__fish_dio_using_subcommand stripe; and __fish_seen_subcommand_from rm" -s V -l version -d 'Print version'
complete -c dio -n "__fish_dio_using_subcommand stripe; and __fish_seen_subcommand_from adopt" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c dio -n "__fish_dio_using_subcommand stripe; and __fish_seen_subcommand_from adopt" -s V -l version -d 'Print version'
complete -c dio -n "__fish_dio_using_subcommand stripe; and __fish_seen_subcommand_from orphans" -l heads -d 'Look for striped files below DIR too, where some may have been moved to; can be given several times' -r -F
complete -c dio -n "__fish_dio_using_subcommand stripe; and __fish_seen_subcommand_from orphans" -l age -d 'Skip files without a header or a name that are younger than this, because a program may be making them. Files that their maker has locked are skipped at any age; 0 relies on these locks, which not every network file system supports' -r
complete -c dio -n "__fish_dio_using_subcommand stripe; and __fish_seen_subcommand_from orphans" -l rm -d 'Remove them with the bytes that they hold, after asking for each file'
complete -c dio -n "__fish_dio_using_subcommand stripe; and __fish_seen_subcommand_from orphans" -s y -l yes -d 'With --rm, do not ask'
complete -c dio -n "__fish_dio_using_subcommand stripe; and __fish_seen_subcommand_from orphans" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c dio -n "__fish_dio_using_subcommand stripe; and __fish_seen_subcommand_from orphans" -s V -l version -d 'Print version'
complete -c dio -n "__fish_dio_using_subcommand stripe; and __fish_seen_subcommand_from help" -f -a "set" -d 'Make empty striped files'
complete -c dio -n "__fish_dio_using_subcommand stripe; and __fish_seen_subcommand_from help" -f -a "show" -d 'Show how files are striped'
complete -c dio -n "__fish_dio_using_subcommand stripe; and __fish_seen_subcommand_from help" -f -a "check" -d 'Check that all objects of striped files are there and are the right ones'
complete -c dio -n "__fish_dio_using_subcommand stripe; and __fish_seen_subcommand_from help" -f -a "migrate" -d 'Move files to another layout'
complete -c dio -n "__fish_dio_using_subcommand stripe; and __fish_seen_subcommand_from help" -f -a "rm" -d 'Remove striped files with all their bytes'
complete -c dio -n "__fish_dio_using_subcommand stripe; and __fish_seen_subcommand_from help" -f -a "adopt" -d 'Make copies of descriptors the striped files'
complete -c dio -n "__fish_dio_using_subcommand stripe; and __fish_seen_subcommand_from help" -f -a "orphans" -d 'Find objects whose striped file is gone'
complete -c dio -n "__fish_dio_using_subcommand stripe; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c dio -n "__fish_dio_using_subcommand probe" -s o -l output -d 'With --speed, write the profile to FILE instead of ~/.cache/dio' -r -F
complete -c dio -n "__fish_dio_using_subcommand probe" -l json -d 'Print one JSON array with an object for each path'
complete -c dio -n "__fish_dio_using_subcommand probe" -l speed -d 'Measure what requests to files in a directory cost'
complete -c dio -n "__fish_dio_using_subcommand probe" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c dio -n "__fish_dio_using_subcommand probe" -s V -l version -d 'Print version'
complete -c dio -n "__fish_dio_using_subcommand cache" -l evict -d 'Write dirty pages to the disk, then drop the pages, whoever loaded them'
complete -c dio -n "__fish_dio_using_subcommand cache" -l keep -d 'Never drop pages of a file that another process maps'
complete -c dio -n "__fish_dio_using_subcommand cache" -l json -d 'Print one JSON object'
complete -c dio -n "__fish_dio_using_subcommand cache" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c dio -n "__fish_dio_using_subcommand cache" -s V -l version -d 'Print version'
complete -c dio -n "__fish_dio_using_subcommand advise; and not __fish_seen_subcommand_from sizes database help" -s o -l output -d 'Write the verdict to FILE instead of standard error' -r -F
complete -c dio -n "__fish_dio_using_subcommand advise; and not __fish_seen_subcommand_from sizes database help" -l device -d 'Predict from the profile PROFILE, of `dio probe --speed` on this or another machine' -r -F
complete -c dio -n "__fish_dio_using_subcommand advise; and not __fish_seen_subcommand_from sizes database help" -l scratch -d 'With --prove of a trace, make its files in DIR' -r -f -a "(__fish_complete_directories)"
complete -c dio -n "__fish_dio_using_subcommand advise; and not __fish_seen_subcommand_from sizes database help" -l rounds -d 'With --prove, run so often by each way' -r
complete -c dio -n "__fish_dio_using_subcommand advise; and not __fish_seen_subcommand_from sizes database help" -l watch -d 'Watch the command in this way; without it, in the first that works. What runs already is watched by bpf only' -r -f -a "bpf\t'By programs in the kernel, which needs root or CAP_BPF and CAP_PERFMON'
ptrace\t'By stopping the command at each system call, which takes longer and sees less'"
complete -c dio -n "__fish_dio_using_subcommand advise; and not __fish_seen_subcommand_from sizes database help" -l pid -d 'Watch the process PID, which runs already, with all threads, and the processes that it makes from now on; may be given several times. Ctrl-C ends the watching, not the process' -r
complete -c dio -n "__fish_dio_using_subcommand advise; and not __fish_seen_subcommand_from sizes database help" -l dir -d 'Watch whoever uses files below DIR, and only their requests to these' -r -f -a "(__fish_complete_directories)"
complete -c dio -n "__fish_dio_using_subcommand advise; and not __fish_seen_subcommand_from sizes database help" -l for -d 'Watch for this time: seconds, or a number with us, ms, s, m or h' -r
complete -c dio -n "__fish_dio_using_subcommand advise; and not __fish_seen_subcommand_from sizes database help" -l json -d 'Print one JSON object'
complete -c dio -n "__fish_dio_using_subcommand advise; and not __fish_seen_subcommand_from sizes database help" -l prove -d 'Run the command by each way, in turn and from the same page cache, and show what it took; its output is thrown away then. A trace is replayed'
complete -c dio -n "__fish_dio_using_subcommand advise; and not __fish_seen_subcommand_from sizes database help" -l repeat -d 'With --prove, let each run go on from what the one before has left, for a database or a command that renames files. Otherwise what the command has written is set aside'
complete -c dio -n "__fish_dio_using_subcommand advise; and not __fish_seen_subcommand_from sizes database help" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c dio -n "__fish_dio_using_subcommand advise; and not __fish_seen_subcommand_from sizes database help" -s V -l version -d 'Print version'
complete -c dio -n "__fish_dio_using_subcommand advise; and not __fish_seen_subcommand_from sizes database help" -a "sizes" -d 'Which calls a command makes to each file: how many, of which sizes, in which order'
complete -c dio -n "__fish_dio_using_subcommand advise; and not __fish_seen_subcommand_from sizes database help" -a "database" -d 'Which settings suit a database\'s disk, its memory and its load'
complete -c dio -n "__fish_dio_using_subcommand advise; and not __fish_seen_subcommand_from sizes database help" -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c dio -n "__fish_dio_using_subcommand advise; and __fish_seen_subcommand_from sizes" -s o -l output -d 'Write the report to FILE instead of standard error' -r -F
complete -c dio -n "__fish_dio_using_subcommand advise; and __fish_seen_subcommand_from sizes" -l trace -d 'Look at a trace of `dio record`; the report goes to standard output' -r -F
complete -c dio -n "__fish_dio_using_subcommand advise; and __fish_seen_subcommand_from sizes" -l watch -d 'Watch the command in this way; without it, in the first that works. What runs already is watched by bpf only' -r -f -a "bpf\t'By programs in the kernel, which needs root or CAP_BPF and CAP_PERFMON'
ptrace\t'By stopping the command at each system call, which takes longer and sees less'"
complete -c dio -n "__fish_dio_using_subcommand advise; and __fish_seen_subcommand_from sizes" -l pid -d 'Watch the process PID, which runs already, with all threads, and the processes that it makes from now on; may be given several times. Ctrl-C ends the watching, not the process' -r
complete -c dio -n "__fish_dio_using_subcommand advise; and __fish_seen_subcommand_from sizes" -l dir -d 'Watch whoever uses files below DIR, and only their requests to these' -r -f -a "(__fish_complete_directories)"
complete -c dio -n "__fish_dio_using_subcommand advise; and __fish_seen_subcommand_from sizes" -l for -d 'Watch for this time: seconds, or a number with us, ms, s, m or h' -r
complete -c dio -n "__fish_dio_using_subcommand advise; and __fish_seen_subcommand_from sizes" -l json -d 'Print one JSON object'
complete -c dio -n "__fish_dio_using_subcommand advise; and __fish_seen_subcommand_from sizes" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c dio -n "__fish_dio_using_subcommand advise; and __fish_seen_subcommand_from sizes" -s V -l version -d 'Print version'
complete -c dio -n "__fish_dio_using_subcommand advise; and __fish_seen_subcommand_from database" -l postgresql -d 'PostgreSQL, with its data in DATADIR' -r -f -a "(__fish_complete_directories)"
complete -c dio -n "__fish_dio_using_subcommand advise; and __fish_seen_subcommand_from database" -l mariadb -d 'MariaDB, with its data in DATADIR' -r -f -a "(__fish_complete_directories)"
complete -c dio -n "__fish_dio_using_subcommand advise; and __fish_seen_subcommand_from database" -l for -d 'Watch the load of a server that runs for TIME: seconds, or a number with s, m or h; 0 leaves it out' -r
complete -c dio -n "__fish_dio_using_subcommand advise; and __fish_seen_subcommand_from database" -l clients -d 'Settings for so many clients at once' -r
complete -c dio -n "__fish_dio_using_subcommand advise; and __fish_seen_subcommand_from database" -l scratch -d 'With --prove, make the data in DIR instead of the directory above DATADIR' -r -f -a "(__fish_complete_directories)"
complete -c dio -n "__fish_dio_using_subcommand advise; and __fish_seen_subcommand_from database" -l rounds -d 'With --prove, run so often with each' -r
complete -c dio -n "__fish_dio_using_subcommand advise; and __fish_seen_subcommand_from database" -s o -l output -d 'Write the advice to FILE instead of standard output' -r -F
complete -c dio -n "__fish_dio_using_subcommand advise; and __fish_seen_subcommand_from database" -l no-synctest -d 'Do not measure methods of syncing'
complete -c dio -n "__fish_dio_using_subcommand advise; and __fish_seen_subcommand_from database" -l prove -d 'Load a server of its own, in a new directory, with the settings as they are and as advised, on a hundredth of the memory and of the data or more, and show what each reaches'
complete -c dio -n "__fish_dio_using_subcommand advise; and __fish_seen_subcommand_from database" -l json -d 'Print one JSON object'
complete -c dio -n "__fish_dio_using_subcommand advise; and __fish_seen_subcommand_from database" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c dio -n "__fish_dio_using_subcommand advise; and __fish_seen_subcommand_from database" -s V -l version -d 'Print version'
complete -c dio -n "__fish_dio_using_subcommand advise; and __fish_seen_subcommand_from help" -f -a "sizes" -d 'Which calls a command makes to each file: how many, of which sizes, in which order'
complete -c dio -n "__fish_dio_using_subcommand advise; and __fish_seen_subcommand_from help" -f -a "database" -d 'Which settings suit a database\'s disk, its memory and its load'
complete -c dio -n "__fish_dio_using_subcommand advise; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c dio -n "__fish_dio_using_subcommand record; and not __fish_seen_subcommand_from export import help" -s o -l output -d 'Write the trace to TRACE; one that exists is replaced, any other file is left alone' -r -F
complete -c dio -n "__fish_dio_using_subcommand record; and not __fish_seen_subcommand_from export import help" -l watch -d 'Watch the command in this way; without it, in the first that works. What runs already is watched by bpf only' -r -f -a "bpf\t'By programs in the kernel, which needs root or CAP_BPF and CAP_PERFMON'
ptrace\t'By stopping the command at each system call, which takes longer and sees less'"
complete -c dio -n "__fish_dio_using_subcommand record; and not __fish_seen_subcommand_from export import help" -l pid -d 'Watch the process PID, which runs already, with all threads, and the processes that it makes from now on; may be given several times. Ctrl-C ends the watching, not the process' -r
complete -c dio -n "__fish_dio_using_subcommand record; and not __fish_seen_subcommand_from export import help" -l dir -d 'Watch whoever uses files below DIR, and only their requests to these' -r -f -a "(__fish_complete_directories)"
complete -c dio -n "__fish_dio_using_subcommand record; and not __fish_seen_subcommand_from export import help" -l for -d 'Watch for this time: seconds, or a number with us, ms, s, m or h' -r
complete -c dio -n "__fish_dio_using_subcommand record; and not __fish_seen_subcommand_from export import help" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c dio -n "__fish_dio_using_subcommand record; and not __fish_seen_subcommand_from export import help" -s V -l version -d 'Print version'
complete -c dio -n "__fish_dio_using_subcommand record; and not __fish_seen_subcommand_from export import help" -a "export" -d 'Write a trace in another format'
complete -c dio -n "__fish_dio_using_subcommand record; and not __fish_seen_subcommand_from export import help" -a "import" -d 'Make a trace of another format'
complete -c dio -n "__fish_dio_using_subcommand record; and not __fish_seen_subcommand_from export import help" -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c dio -n "__fish_dio_using_subcommand record; and __fish_seen_subcommand_from export" -l format -d 'The format' -r -f -a "iolog\t'What fio replays (read_iolog)'
csv\t'A line for each call'
blkparse\t'What blkparse prints'"
complete -c dio -n "__fish_dio_using_subcommand record; and __fish_seen_subcommand_from export" -l files -d 'Make the files of an iolog in DIR, with their recorded sizes, and name these' -r -f -a "(__fish_complete_directories)"
complete -c dio -n "__fish_dio_using_subcommand record; and __fish_seen_subcommand_from export" -s o -l output -d 'Write to FILE instead of standard output' -r -F
complete -c dio -n "__fish_dio_using_subcommand record; and __fish_seen_subcommand_from export" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c dio -n "__fish_dio_using_subcommand record; and __fish_seen_subcommand_from export" -s V -l version -d 'Print version'
complete -c dio -n "__fish_dio_using_subcommand record; and __fish_seen_subcommand_from import" -l format -d 'The format' -r -f -a "iolog\t'What fio replays (read_iolog)'
csv\t'A line for each call'
blkparse\t'What blkparse prints'"
complete -c dio -n "__fish_dio_using_subcommand record; and __fish_seen_subcommand_from import" -s o -l output -d 'Write the trace to TRACE; one that exists is replaced, any other file is left alone' -r -F
complete -c dio -n "__fish_dio_using_subcommand record; and __fish_seen_subcommand_from import" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c dio -n "__fish_dio_using_subcommand record; and __fish_seen_subcommand_from import" -s V -l version -d 'Print version'
complete -c dio -n "__fish_dio_using_subcommand record; and __fish_seen_subcommand_from help" -f -a "export" -d 'Write a trace in another format'
complete -c dio -n "__fish_dio_using_subcommand record; and __fish_seen_subcommand_from help" -f -a "import" -d 'Make a trace of another format'
complete -c dio -n "__fish_dio_using_subcommand record; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c dio -n "__fish_dio_using_subcommand replay" -s o -l option -d 'How requests reach the files: cached (by the recorded calls), direct, concurrent or uncached (the modes of the library), streams (read-ahead and write-behind past the page cache), or mount=OPTIONS (below a `dio run` with these options of `dio mount`)' -r
complete -c dio -n "__fish_dio_using_subcommand replay" -l dir -d 'Make the files in DIR, whose disk is the one that is measured' -r -f -a "(__fish_complete_directories)"
complete -c dio -n "__fish_dio_using_subcommand replay" -l speed -d 'Keep the recorded pauses, or leave them out' -r -f -a "as-recorded\t''
as-fast-as-possible\t''"
complete -c dio -n "__fish_dio_using_subcommand replay" -l json -d 'Print one JSON object'
complete -c dio -n "__fish_dio_using_subcommand replay" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c dio -n "__fish_dio_using_subcommand replay" -s V -l version -d 'Print version'
complete -c dio -n "__fish_dio_using_subcommand bench; and not __fish_seen_subcommand_from increments locks oltp copy database disks pipeline random streams stripe wal help" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c dio -n "__fish_dio_using_subcommand bench; and not __fish_seen_subcommand_from increments locks oltp copy database disks pipeline random streams stripe wal help" -s V -l version -d 'Print version'
complete -c dio -n "__fish_dio_using_subcommand bench; and not __fish_seen_subcommand_from increments locks oltp copy database disks pipeline random streams stripe wal help" -f -a "increments" -d 'Read a cold file from front to back in small and large steps, cached and direct'
complete -c dio -n "__fish_dio_using_subcommand bench; and not __fish_seen_subcommand_from increments locks oltp copy database disks pipeline random streams stripe wal help" -f -a "locks" -d 'Run a command and count what its threads are blocked on, by class of lock'
complete -c dio -n "__fish_dio_using_subcommand bench; and not __fish_seen_subcommand_from increments locks oltp copy database disks pipeline random streams stripe wal help" -f -a "oltp" -d 'Run a database\'s page workload on a raw device, bare files and mounts in direct and concurrent mode'
complete -c dio -n "__fish_dio_using_subcommand bench; and not __fish_seen_subcommand_from increments locks oltp copy database disks pipeline random streams stripe wal help" -f -a "copy" -d 'Copy a cold file in blocks of 4 KiB, one at a time, and in large blocks, several in flight'
complete -c dio -n "__fish_dio_using_subcommand bench; and not __fish_seen_subcommand_from increments locks oltp copy database disks pipeline random streams stripe wal help" -f -a "database" -d 'Run MariaDB or PostgreSQL on a raw device, bare files and mounts in direct and concurrent mode'
complete -c dio -n "__fish_dio_using_subcommand bench; and not __fish_seen_subcommand_from increments locks oltp copy database disks pipeline random streams stripe wal help" -f -a "disks" -d 'Read and write sequentially over 1, 2, 4 and 8 disks, cached, direct and raw'
complete -c dio -n "__fish_dio_using_subcommand bench; and not __fish_seen_subcommand_from increments locks oltp copy database disks pipeline random streams stripe wal help" -f -a "pipeline" -d 'Run a command between two files, with large direct I/O at neither end, at its input, and at both ends'
complete -c dio -n "__fish_dio_using_subcommand bench; and not __fish_seen_subcommand_from increments locks oltp copy database disks pipeline random streams stripe wal help" -f -a "random" -d 'Read random blocks with several reads in flight'
complete -c dio -n "__fish_dio_using_subcommand bench; and not __fish_seen_subcommand_from increments locks oltp copy database disks pipeline random streams stripe wal help" -f -a "streams" -d 'Read and write through the library\'s streams, and through the page cache'
complete -c dio -n "__fish_dio_using_subcommand bench; and not __fish_seen_subcommand_from increments locks oltp copy database disks pipeline random streams stripe wal help" -f -a "stripe" -d 'Measure requests over several stripes: waiting for each stripe, for all at once, and asynchronous'
complete -c dio -n "__fish_dio_using_subcommand bench; and not __fish_seen_subcommand_from increments locks oltp copy database disks pipeline random streams stripe wal help" -f -a "wal" -d 'Measure durable commits by sync method, direct and cached, by one client and by many, and appending in large steps'
complete -c dio -n "__fish_dio_using_subcommand bench; and not __fish_seen_subcommand_from increments locks oltp copy database disks pipeline random streams stripe wal help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
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
complete -c dio -n "__fish_dio_using_subcommand bench; and __fish_seen_subcommand_from locks" -l mount -d 'Ask this mount, or these, instead of all mounts of dio that there are' -r -F
complete -c dio -n "__fish_dio_using_subcommand bench; and __fish_seen_subcommand_from locks" -l kernel -d 'How the kernel\'s locks are seen' -r -f -a "auto\t'By tracepoint where that is allowed, else by wait channels'
tracepoint\t'By tracepoint, or fail'
wait-channels\t'By what threads sleep in'"
complete -c dio -n "__fish_dio_using_subcommand bench; and __fish_seen_subcommand_from locks" -s o -l output -d 'Write the report to FILE; what the command prints then goes to standard output' -r -F
complete -c dio -n "__fish_dio_using_subcommand bench; and __fish_seen_subcommand_from locks" -l system -d 'Count the kernel\'s locks of all processes, the servers of mounts among them'
complete -c dio -n "__fish_dio_using_subcommand bench; and __fish_seen_subcommand_from locks" -l json -d 'Print one JSON object'
complete -c dio -n "__fish_dio_using_subcommand bench; and __fish_seen_subcommand_from locks" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c dio -n "__fish_dio_using_subcommand bench; and __fish_seen_subcommand_from locks" -s V -l version -d 'Print version'
complete -c dio -n "__fish_dio_using_subcommand bench; and __fish_seen_subcommand_from oltp" -l storage -d 'Where the pages are' -r -f -a "raw\t'A block device'
bare\t'Files opened with O_DIRECT'
buffered\t'Files through the page cache'
direct-file\t'A mount in direct mode, a write excludes all I/O to its file'
direct-range\t'A mount in direct mode, a write excludes I/O to its bytes'
concurrent\t'A mount in concurrent mode'"
complete -c dio -n "__fish_dio_using_subcommand bench; and __fish_seen_subcommand_from oltp" -l raw -d 'Use this block device for raw, whose contents are lost, instead of a loop device over a file in DIR' -r -F
complete -c dio -n "__fish_dio_using_subcommand bench; and __fish_seen_subcommand_from oltp" -l dir -d 'Directory in which files are made' -r -F
complete -c dio -n "__fish_dio_using_subcommand bench; and __fish_seen_subcommand_from oltp" -l files -d 'Files of pages' -r
complete -c dio -n "__fish_dio_using_subcommand bench; and __fish_seen_subcommand_from oltp" -l size -d 'Bytes of each file' -r
complete -c dio -n "__fish_dio_using_subcommand bench; and __fish_seen_subcommand_from oltp" -l page -d 'Bytes of a page' -r
complete -c dio -n "__fish_dio_using_subcommand bench; and __fish_seen_subcommand_from oltp" -l clients -d 'Clients, each a thread' -r
complete -c dio -n "__fish_dio_using_subcommand bench; and __fish_seen_subcommand_from oltp" -l reads -d 'Pages that a transaction reads' -r
complete -c dio -n "__fish_dio_using_subcommand bench; and __fish_seen_subcommand_from oltp" -l writes -d 'Those of them that it changes and writes' -r
complete -c dio -n "__fish_dio_using_subcommand bench; and __fish_seen_subcommand_from oltp" -l ramp-up -d 'While clients come, one after the other' -r
complete -c dio -n "__fish_dio_using_subcommand bench; and __fish_seen_subcommand_from oltp" -l steady -d 'The time that is measured' -r
complete -c dio -n "__fish_dio_using_subcommand bench; and __fish_seen_subcommand_from oltp" -l ramp-down -d 'While clients go' -r
complete -c dio -n "__fish_dio_using_subcommand bench; and __fish_seen_subcommand_from oltp" -l every -d 'Length of a slot of the time series' -r
complete -c dio -n "__fish_dio_using_subcommand bench; and __fish_seen_subcommand_from oltp" -l rounds -d 'Runs of each storage, in turns; medians are reported' -r
complete -c dio -n "__fish_dio_using_subcommand bench; and __fish_seen_subcommand_from oltp" -l open -d 'How files below mounts are opened; raw and bare ones always with O_DIRECT' -r -f -a "plain\t'Without O_DIRECT, as programs that know nothing of it'
direct\t'With O_DIRECT'"
complete -c dio -n "__fish_dio_using_subcommand bench; and __fish_seen_subcommand_from oltp" -l mount-option -d 'One more option of all mounts, such as threads=32' -r
complete -c dio -n "__fish_dio_using_subcommand bench; and __fish_seen_subcommand_from oltp" -l memory -d 'Memory for all of it, page cache included: a control group is made, for which it must be root' -r
complete -c dio -n "__fish_dio_using_subcommand bench; and __fish_seen_subcommand_from oltp" -l csv -d 'Write the time series to FILE' -r -F
complete -c dio -n "__fish_dio_using_subcommand bench; and __fish_seen_subcommand_from oltp" -l plots -d 'Write plots of the time series (SVG) into DIR' -r -f -a "(__fish_complete_directories)"
complete -c dio -n "__fish_dio_using_subcommand bench; and __fish_seen_subcommand_from oltp" -l io-uring -d 'Mount with io_uring, which turns it on for the whole system; not with the file lock, where it does not pay'
complete -c dio -n "__fish_dio_using_subcommand bench; and __fish_seen_subcommand_from oltp" -l json -d 'Print one JSON object'
complete -c dio -n "__fish_dio_using_subcommand bench; and __fish_seen_subcommand_from oltp" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c dio -n "__fish_dio_using_subcommand bench; and __fish_seen_subcommand_from oltp" -s V -l version -d 'Print version'
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
complete -c dio -n "__fish_dio_using_subcommand bench; and __fish_seen_subcommand_from database" -l storage -d 'Where the data are; all that the database can use if none is named' -r -f -a "raw\t'A block device'
bare\t'Files opened with O_DIRECT'
buffered\t'Files through the page cache'
direct-file\t'A mount in direct mode, a write excludes all I/O to its file'
direct-range\t'A mount in direct mode, a write excludes I/O to its bytes'
concurrent\t'A mount in concurrent mode'"
complete -c dio -n "__fish_dio_using_subcommand bench; and __fish_seen_subcommand_from database" -l workload -d 'Scripts of sysbench, or builtin ones of pgbench [default: oltp_update_non_index or tpcb-like]' -r
complete -c dio -n "__fish_dio_using_subcommand bench; and __fish_seen_subcommand_from database" -l raw -d 'Use this block device for raw, whose contents are lost, instead of a loop device over a file in DIR' -r -F
complete -c dio -n "__fish_dio_using_subcommand bench; and __fish_seen_subcommand_from database" -l dir -d 'Directory in which files are made' -r -F
complete -c dio -n "__fish_dio_using_subcommand bench; and __fish_seen_subcommand_from database" -l size -d 'Bytes of data, about' -r
complete -c dio -n "__fish_dio_using_subcommand bench; and __fish_seen_subcommand_from database" -l pool -d 'The database\'s own cache (innodb_buffer_pool_size, shared_buffers): each workload is run with each' -r
complete -c dio -n "__fish_dio_using_subcommand bench; and __fish_seen_subcommand_from database" -l memory -d 'Memory for server, clients and mount, page cache included' -r
complete -c dio -n "__fish_dio_using_subcommand bench; and __fish_seen_subcommand_from database" -l clients -d 'Clients' -r
complete -c dio -n "__fish_dio_using_subcommand bench; and __fish_seen_subcommand_from database" -l ramp-up -d 'Load that is not measured, before the one that is' -r
complete -c dio -n "__fish_dio_using_subcommand bench; and __fish_seen_subcommand_from database" -l steady -d 'The time that is measured' -r
complete -c dio -n "__fish_dio_using_subcommand bench; and __fish_seen_subcommand_from database" -l rounds -d 'Runs of each storage, in turns; medians are reported' -r
complete -c dio -n "__fish_dio_using_subcommand bench; and __fish_seen_subcommand_from database" -l mount-option -d 'One more option of all mounts, such as threads=32' -r
complete -c dio -n "__fish_dio_using_subcommand bench; and __fish_seen_subcommand_from database" -l csv -d 'Write the time series to FILE' -r -F
complete -c dio -n "__fish_dio_using_subcommand bench; and __fish_seen_subcommand_from database" -l unlimited -d 'Do not limit memory, for which one must be root'
complete -c dio -n "__fish_dio_using_subcommand bench; and __fish_seen_subcommand_from database" -l io-uring -d 'Mount with io_uring, which turns it on for the whole system; not with the file lock, where it does not pay'
complete -c dio -n "__fish_dio_using_subcommand bench; and __fish_seen_subcommand_from database" -l json -d 'Print one JSON object'
complete -c dio -n "__fish_dio_using_subcommand bench; and __fish_seen_subcommand_from database" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c dio -n "__fish_dio_using_subcommand bench; and __fish_seen_subcommand_from database" -s V -l version -d 'Print version'
complete -c dio -n "__fish_dio_using_subcommand bench; and __fish_seen_subcommand_from disks" -l targets -d 'Numbers of disks' -r
complete -c dio -n "__fish_dio_using_subcommand bench; and __fish_seen_subcommand_from disks" -l ways -d 'How bytes travel' -r -f -a "cached\t'A striped file through the page cache'
direct\t'A striped file past it'
raw\t'The devices'"
complete -c dio -n "__fish_dio_using_subcommand bench; and __fish_seen_subcommand_from disks" -l directions -d 'Which way' -r -f -a "read\t'Cold reading'
write\t'Writing over what is there, durable at the end'"
complete -c dio -n "__fish_dio_using_subcommand bench; and __fish_seen_subcommand_from disks" -l rate -d 'Bytes per second of each disk, in each direction' -r
complete -c dio -n "__fish_dio_using_subcommand bench; and __fish_seen_subcommand_from disks" -l stripe -d 'Bytes of a stripe, and of each request to a disk' -r
complete -c dio -n "__fish_dio_using_subcommand bench; and __fish_seen_subcommand_from disks" -l depth -d 'Requests to each disk in flight' -r
complete -c dio -n "__fish_dio_using_subcommand bench; and __fish_seen_subcommand_from disks" -l warm-up -d 'What is not measured at the beginning of each run' -r
complete -c dio -n "__fish_dio_using_subcommand bench; and __fish_seen_subcommand_from disks" -l steady -d 'What is measured: the bytes that pass in this time at the rate' -r
complete -c dio -n "__fish_dio_using_subcommand bench; and __fish_seen_subcommand_from disks" -l rounds -d 'Runs of each row, in turns; medians are reported' -r
complete -c dio -n "__fish_dio_using_subcommand bench; and __fish_seen_subcommand_from disks" -l dir -d 'Directory in which the images are made' -r -F
complete -c dio -n "__fish_dio_using_subcommand bench; and __fish_seen_subcommand_from disks" -l plots -d 'Write plots as SVG into DIR' -r -f -a "(__fish_complete_directories)"
complete -c dio -n "__fish_dio_using_subcommand bench; and __fish_seen_subcommand_from disks" -l json -d 'Print one JSON object'
complete -c dio -n "__fish_dio_using_subcommand bench; and __fish_seen_subcommand_from disks" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c dio -n "__fish_dio_using_subcommand bench; and __fish_seen_subcommand_from disks" -s V -l version -d 'Print version'
complete -c dio -n "__fish_dio_using_subcommand bench; and __fish_seen_subcommand_from pipeline" -l cmd -d 'The command, as the shell reads it; it must read standard input and write standard output' -r
complete -c dio -n "__fish_dio_using_subcommand bench; and __fish_seen_subcommand_from pipeline" -l size -d 'Bytes of the file to read, which is text' -r
complete -c dio -n "__fish_dio_using_subcommand bench; and __fish_seen_subcommand_from pipeline" -l dir -d 'Directory in which source and target are made' -r -F
complete -c dio -n "__fish_dio_using_subcommand bench; and __fish_seen_subcommand_from pipeline" -l file -d 'Read this file instead, all of it; the target is made in DIR' -r -F
complete -c dio -n "__fish_dio_using_subcommand bench; and __fish_seen_subcommand_from pipeline" -l runs -d 'Runs of each row, in turns; medians are reported' -r
complete -c dio -n "__fish_dio_using_subcommand bench; and __fish_seen_subcommand_from pipeline" -l cold -d 'What is emptied before each run' -r -f -a "system\t'All caches of the system where that is allowed (for root), else the file\'s pages'
file\t'The pages of the file only'"
complete -c dio -n "__fish_dio_using_subcommand bench; and __fish_seen_subcommand_from pipeline" -l json -d 'Print one JSON object'
complete -c dio -n "__fish_dio_using_subcommand bench; and __fish_seen_subcommand_from pipeline" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c dio -n "__fish_dio_using_subcommand bench; and __fish_seen_subcommand_from pipeline" -s V -l version -d 'Print version'
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
complete -c dio -n "__fish_dio_using_subcommand bench; and __fish_seen_subcommand_from streams" -l parts -d 'What to measure' -r -f -a "read\t'Reading a cold file in steps'
write\t'Writing a new file in steps'
many\t'Many sequential streams in one file'
random\t'Random reads of 4 KiB'"
complete -c dio -n "__fish_dio_using_subcommand bench; and __fish_seen_subcommand_from streams" -l size -d 'Bytes of each workload, and of the file read at random' -r
complete -c dio -n "__fish_dio_using_subcommand bench; and __fish_seen_subcommand_from streams" -l small-size -d 'Bytes of a workload in which each step below 4K is a system call' -r
complete -c dio -n "__fish_dio_using_subcommand bench; and __fish_seen_subcommand_from streams" -l steps -d 'Bytes of each step of read and write' -r
complete -c dio -n "__fish_dio_using_subcommand bench; and __fish_seen_subcommand_from streams" -l streams -d 'Streams of many' -r
complete -c dio -n "__fish_dio_using_subcommand bench; and __fish_seen_subcommand_from streams" -l piece -d 'Bytes read from one of many streams before the next one\'s turn' -r
complete -c dio -n "__fish_dio_using_subcommand bench; and __fish_seen_subcommand_from streams" -l stream-memory -d 'Memory of each of many streams' -r
complete -c dio -n "__fish_dio_using_subcommand bench; and __fish_seen_subcommand_from streams" -l reads -d 'Reads of random, by each way' -r
complete -c dio -n "__fish_dio_using_subcommand bench; and __fish_seen_subcommand_from streams" -l dir -d 'Directory in which files are made' -r -F
complete -c dio -n "__fish_dio_using_subcommand bench; and __fish_seen_subcommand_from streams" -l file -d 'Read at most SIZE bytes of this file instead; what is written is made in DIR' -r -F
complete -c dio -n "__fish_dio_using_subcommand bench; and __fish_seen_subcommand_from streams" -l runs -d 'Runs of each way, in turns; medians are reported' -r
complete -c dio -n "__fish_dio_using_subcommand bench; and __fish_seen_subcommand_from streams" -l round -d 'Number of the first run: decides which way begins, and what is read at random' -r
complete -c dio -n "__fish_dio_using_subcommand bench; and __fish_seen_subcommand_from streams" -l cold -d 'What is emptied before each run' -r -f -a "system\t'All caches of the system where that is allowed (for root), else the file\'s pages'
file\t'The pages of the file only'"
complete -c dio -n "__fish_dio_using_subcommand bench; and __fish_seen_subcommand_from streams" -l json -d 'Print one JSON object'
complete -c dio -n "__fish_dio_using_subcommand bench; and __fish_seen_subcommand_from streams" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c dio -n "__fish_dio_using_subcommand bench; and __fish_seen_subcommand_from streams" -s V -l version -d 'Print version'
complete -c dio -n "__fish_dio_using_subcommand bench; and __fish_seen_subcommand_from stripe" -l rig -d 'What the targets are' -r -f -a "modelled\t'Loop devices over images that a program serves by the model of a disk'
real\t'Directories of this disk'
network\t'Mounts of SSHFS, served from another network namespace'"
complete -c dio -n "__fish_dio_using_subcommand bench; and __fish_seen_subcommand_from stripe" -l transfer -d 'Bytes of a request, a power of two' -r
complete -c dio -n "__fish_dio_using_subcommand bench; and __fish_seen_subcommand_from stripe" -l stripes -d 'Targets of a file' -r
complete -c dio -n "__fish_dio_using_subcommand bench; and __fish_seen_subcommand_from stripe" -l stripe-size -d 'Bytes of a stripe, on modelled disks and over the network' -r
complete -c dio -n "__fish_dio_using_subcommand bench; and __fish_seen_subcommand_from stripe" -l real-stripe-size -d 'Bytes of a stripe on this disk, where files have the greatest number of --stripes' -r
complete -c dio -n "__fish_dio_using_subcommand bench; and __fish_seen_subcommand_from stripe" -l direction -d 'Which way bytes go' -r -f -a "write\t'To the targets'
read\t'From the targets'"
complete -c dio -n "__fish_dio_using_subcommand bench; and __fish_seen_subcommand_from stripe" -l size -d 'Bytes that each run moves at least' -r
complete -c dio -n "__fish_dio_using_subcommand bench; and __fish_seen_subcommand_from stripe" -l runs -d 'Runs of each way, in turns; medians are reported' -r
complete -c dio -n "__fish_dio_using_subcommand bench; and __fish_seen_subcommand_from stripe" -l disk-service -d 'Milliseconds that a modelled disk takes for a request at least' -r
complete -c dio -n "__fish_dio_using_subcommand bench; and __fish_seen_subcommand_from stripe" -l disk-bandwidth -d 'Bytes a second that a modelled disk reads, and writes at the same time' -r
complete -c dio -n "__fish_dio_using_subcommand bench; and __fish_seen_subcommand_from stripe" -l copy -d 'Bytes that are copied from one modelled disk to another; 0 leaves that out' -r
complete -c dio -n "__fish_dio_using_subcommand bench; and __fish_seen_subcommand_from stripe" -l dir -d 'Directory in which files are made, on this disk' -r -F
complete -c dio -n "__fish_dio_using_subcommand bench; and __fish_seen_subcommand_from stripe" -l plots -d 'Write plots (SVG) into DIR' -r -f -a "(__fish_complete_directories)"
complete -c dio -n "__fish_dio_using_subcommand bench; and __fish_seen_subcommand_from stripe" -l json -d 'Print one JSON object'
complete -c dio -n "__fish_dio_using_subcommand bench; and __fish_seen_subcommand_from stripe" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c dio -n "__fish_dio_using_subcommand bench; and __fish_seen_subcommand_from stripe" -s V -l version -d 'Print version'
complete -c dio -n "__fish_dio_using_subcommand bench; and __fish_seen_subcommand_from wal" -l dir -d 'Directory in which the logs are made' -r -F
complete -c dio -n "__fish_dio_using_subcommand bench; and __fish_seen_subcommand_from wal" -l record -d 'Bytes of each record that is committed' -r
complete -c dio -n "__fish_dio_using_subcommand bench; and __fish_seen_subcommand_from wal" -l clients -d 'Clients, one row for each, method and way' -r
complete -c dio -n "__fish_dio_using_subcommand bench; and __fish_seen_subcommand_from wal" -l methods -d 'Sync methods; the first one is used for large steps' -r
complete -c dio -n "__fish_dio_using_subcommand bench; and __fish_seen_subcommand_from wal" -l ways -d 'Past the page cache, through it, or both' -r -f -a "direct\t'Past the page cache'
cached\t'Through it'"
complete -c dio -n "__fish_dio_using_subcommand bench; and __fish_seen_subcommand_from wal" -l in-flight -d 'Measure one client too that has so many commits in flight, as futures; 0 leaves that out' -r
complete -c dio -n "__fish_dio_using_subcommand bench; and __fish_seen_subcommand_from wal" -l seconds -d 'Seconds of each run of commits' -r
complete -c dio -n "__fish_dio_using_subcommand bench; and __fish_seen_subcommand_from wal" -l size -d 'Bytes that are appended in large steps; 0 leaves that out' -r
complete -c dio -n "__fish_dio_using_subcommand bench; and __fish_seen_subcommand_from wal" -l preallocate -d 'What is done about the space of new segments' -r -f -a "ahead\t'It is set aside, and zeros are written ahead of small groups'
zeros\t'All of a segment is written with zeros when it is made'"
complete -c dio -n "__fish_dio_using_subcommand bench; and __fish_seen_subcommand_from wal" -l runs -d 'Runs of each row, all rows in turns; medians are reported' -r
complete -c dio -n "__fish_dio_using_subcommand bench; and __fish_seen_subcommand_from wal" -l block -d 'Block size of the logs [default: that of the file system]' -r
complete -c dio -n "__fish_dio_using_subcommand bench; and __fish_seen_subcommand_from wal" -l postgresql -d 'PostgreSQL as well, or alone: pgbench by wal_sync_method, with pg_wal cached, direct, and on a mount (for root)' -r -f -a "also\t'Both'
alone\t'PostgreSQL only'"
complete -c dio -n "__fish_dio_using_subcommand bench; and __fish_seen_subcommand_from wal" -l postgresql-clients -d 'Clients of PostgreSQL, a load of each way for each' -r
complete -c dio -n "__fish_dio_using_subcommand bench; and __fish_seen_subcommand_from wal" -l postgresql-log -d 'Where PostgreSQL\'s log is' -r -f -a "cached\t'On the file system, through the page cache'
direct\t'On the file system, past the page cache where PostgreSQL can'
mount\t'Below a mount in concurrent mode'"
complete -c dio -n "__fish_dio_using_subcommand bench; and __fish_seen_subcommand_from wal" -l postgresql-workload -d 'A builtin script of pgbench' -r
complete -c dio -n "__fish_dio_using_subcommand bench; and __fish_seen_subcommand_from wal" -l postgresql-size -d 'Bytes of PostgreSQL\'s data, about' -r
complete -c dio -n "__fish_dio_using_subcommand bench; and __fish_seen_subcommand_from wal" -l mount-option -d 'One more option of the mount of PostgreSQL\'s log, such as native' -r
complete -c dio -n "__fish_dio_using_subcommand bench; and __fish_seen_subcommand_from wal" -l one-by-one -d 'Measure several clients too that commit one after the other, each with a flush of its own'
complete -c dio -n "__fish_dio_using_subcommand bench; and __fish_seen_subcommand_from wal" -l followed -d 'Measure clients too whose log a reader follows meanwhile'
complete -c dio -n "__fish_dio_using_subcommand bench; and __fish_seen_subcommand_from wal" -l reused -d 'Go on in segments that truncation gave back, as a program does that truncates'
complete -c dio -n "__fish_dio_using_subcommand bench; and __fish_seen_subcommand_from wal" -l json -d 'Print one JSON object'
complete -c dio -n "__fish_dio_using_subcommand bench; and __fish_seen_subcommand_from wal" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c dio -n "__fish_dio_using_subcommand bench; and __fish_seen_subcommand_from wal" -s V -l version -d 'Print version'
complete -c dio -n "__fish_dio_using_subcommand bench; and __fish_seen_subcommand_from help" -f -a "increments" -d 'Read a cold file from front to back in small and large steps, cached and direct'
complete -c dio -n "__fish_dio_using_subcommand bench; and __fish_seen_subcommand_from help" -f -a "locks" -d 'Run a command and count what its threads are blocked on, by class of lock'
complete -c dio -n "__fish_dio_using_subcommand bench; and __fish_seen_subcommand_from help" -f -a "oltp" -d 'Run a database\'s page workload on a raw device, bare files and mounts in direct and concurrent mode'
complete -c dio -n "__fish_dio_using_subcommand bench; and __fish_seen_subcommand_from help" -f -a "copy" -d 'Copy a cold file in blocks of 4 KiB, one at a time, and in large blocks, several in flight'
complete -c dio -n "__fish_dio_using_subcommand bench; and __fish_seen_subcommand_from help" -f -a "database" -d 'Run MariaDB or PostgreSQL on a raw device, bare files and mounts in direct and concurrent mode'
complete -c dio -n "__fish_dio_using_subcommand bench; and __fish_seen_subcommand_from help" -f -a "disks" -d 'Read and write sequentially over 1, 2, 4 and 8 disks, cached, direct and raw'
complete -c dio -n "__fish_dio_using_subcommand bench; and __fish_seen_subcommand_from help" -f -a "pipeline" -d 'Run a command between two files, with large direct I/O at neither end, at its input, and at both ends'
complete -c dio -n "__fish_dio_using_subcommand bench; and __fish_seen_subcommand_from help" -f -a "random" -d 'Read random blocks with several reads in flight'
complete -c dio -n "__fish_dio_using_subcommand bench; and __fish_seen_subcommand_from help" -f -a "streams" -d 'Read and write through the library\'s streams, and through the page cache'
complete -c dio -n "__fish_dio_using_subcommand bench; and __fish_seen_subcommand_from help" -f -a "stripe" -d 'Measure requests over several stripes: waiting for each stripe, for all at once, and asynchronous'
complete -c dio -n "__fish_dio_using_subcommand bench; and __fish_seen_subcommand_from help" -f -a "wal" -d 'Measure durable commits by sync method, direct and cached, by one client and by many, and appending in large steps'
complete -c dio -n "__fish_dio_using_subcommand bench; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c dio -n "__fish_dio_using_subcommand report" -s o -l output -d 'Write the page to FILE; - is standard output, which is used without this option unless it is a terminal' -r -F
complete -c dio -n "__fish_dio_using_subcommand report" -l svg -d 'Write every plot into DIR too, as SVG' -r -f -a "(__fish_complete_directories)"
complete -c dio -n "__fish_dio_using_subcommand report" -l csv -d 'Write every table, and the data of every plot, into DIR too, as CSV' -r -f -a "(__fish_complete_directories)"
complete -c dio -n "__fish_dio_using_subcommand report" -l title -d 'The title of the page' -r
complete -c dio -n "__fish_dio_using_subcommand report" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c dio -n "__fish_dio_using_subcommand report" -s V -l version -d 'Print version'
complete -c dio -n "__fish_dio_using_subcommand synctest" -s s -l seconds -d 'Seconds for each measurement [default: 2; with --witness: until it is stopped]' -r
complete -c dio -n "__fish_dio_using_subcommand synctest" -l only -d 'Measure only these parts of the default run' -r -f -a "compare\t'Every method, one write of 8 KiB'
two\t'Every method, two writes'
patterns\t'A growing file, reserved space, space written with zeros'
sizes\t'512 bytes to 1 MiB'
open-sizes\t'16 KiB in one write or several (open_sync)'
threads\t'Several threads'
descriptors\t'fsync on another descriptor than written to'
unsynced\t'Writes without a sync'
honesty\t'Whether the disk keeps its word'"
complete -c dio -n "__fish_dio_using_subcommand synctest" -l method -d 'How writes are made durable' -r -f -a "open_datasync\t'O_DSYNC'
fdatasync\t'fdatasync(2) after the writes'
fsync\t'fsync(2) after the writes'
open_sync\t'O_SYNC'
rwf_dsync\t'RWF_DSYNC with each write'
rwf_sync\t'RWF_SYNC with each write'
sync_file_range\t'sync_file_range(2): not durable'
none\t'No sync: not durable'"
complete -c dio -n "__fish_dio_using_subcommand synctest" -l direct -d 'With O_DIRECT, without, or both' -r -f -a "on\t'Past the page cache'
off\t'Through it'"
complete -c dio -n "__fish_dio_using_subcommand synctest" -l pattern -d 'Where writes go' -r -f -a "overwrite\t'To one place, again and again'
append\t'To the end of a growing file'
preallocated\t'Into space that is reserved'
zeroed\t'Into space that zeros were written to'"
complete -c dio -n "__fish_dio_using_subcommand synctest" -l size -d 'Bytes of each write, 512 to 1M' -r
complete -c dio -n "__fish_dio_using_subcommand synctest" -l writes -d 'Writes before each sync, 1 to 16' -r
complete -c dio -n "__fish_dio_using_subcommand synctest" -l threads -d 'Threads that write, 1 to 64' -r
complete -c dio -n "__fish_dio_using_subcommand synctest" -l sharing -d 'What threads have in common' -r -f -a "own\t'Nothing: a file each'
shared\t'The file; each syncs for itself'
grouped\t'The file, and one sync for all who wait'"
complete -c dio -n "__fish_dio_using_subcommand synctest" -l file-size -d 'Bytes of the files that are written to [default: 16M; with --witness: 64M]' -r
complete -c dio -n "__fish_dio_using_subcommand synctest" -l witness -d 'Write numbered blocks and tell the witness at this address which of them the disk has acknowledged: then pull the plug' -r
complete -c dio -n "__fish_dio_using_subcommand synctest" -l record -d 'With --check: the record that a witness has kept, instead of the witness itself' -r -F
complete -c dio -n "__fish_dio_using_subcommand synctest" -l session -d 'With --check: the session, if the file does not name it' -r
complete -c dio -n "__fish_dio_using_subcommand synctest" -l serve -d 'Be the witness: listen at this address (a port alone means this machine only), and keep the acknowledged numbers in PATH' -r
complete -c dio -n "__fish_dio_using_subcommand synctest" -l secret -d 'With --witness or --serve: a file with the secret that witness and writers share, which others may not read' -r -F
complete -c dio -n "__fish_dio_using_subcommand synctest" -l timeout -d 'How long the witness may be out of reach' -r
complete -c dio -n "__fish_dio_using_subcommand synctest" -l full -d 'Every value of every axis that has no list: this takes hours'
complete -c dio -n "__fish_dio_using_subcommand synctest" -l no-honesty -d 'Do not look whether the disk keeps its word'
complete -c dio -n "__fish_dio_using_subcommand synctest" -l force -d 'Overwrite PATH if it is a file or a block device: what is in it is lost'
complete -c dio -n "__fish_dio_using_subcommand synctest" -l check -d 'After the power cut: ask the witness, and report which blocks in PATH are lost'
complete -c dio -n "__fish_dio_using_subcommand synctest" -l json -d 'Print one JSON object'
complete -c dio -n "__fish_dio_using_subcommand synctest" -s q -l quiet -d 'Show no progress'
complete -c dio -n "__fish_dio_using_subcommand synctest" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c dio -n "__fish_dio_using_subcommand synctest" -s V -l version -d 'Print version'
complete -c dio -n "__fish_dio_using_subcommand wal; and not __fish_seen_subcommand_from dump verify tail archive salvage bench help" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c dio -n "__fish_dio_using_subcommand wal; and not __fish_seen_subcommand_from dump verify tail archive salvage bench help" -s V -l version -d 'Print version'
complete -c dio -n "__fish_dio_using_subcommand wal; and not __fish_seen_subcommand_from dump verify tail archive salvage bench help" -f -a "dump" -d 'Print the records of a log: place, length, checksum'
complete -c dio -n "__fish_dio_using_subcommand wal; and not __fish_seen_subcommand_from dump verify tail archive salvage bench help" -f -a "verify" -d 'Read a whole log and report whether it is sound'
complete -c dio -n "__fish_dio_using_subcommand wal; and not __fish_seen_subcommand_from dump verify tail archive salvage bench help" -f -a "tail" -d 'Print the last records of a log, and with --follow those that are appended from then on'
complete -c dio -n "__fish_dio_using_subcommand wal; and not __fish_seen_subcommand_from dump verify tail archive salvage bench help" -f -a "archive" -d 'Copy the finished segments of a log to another directory, and with --follow those that are finished from then on'
complete -c dio -n "__fish_dio_using_subcommand wal; and not __fish_seen_subcommand_from dump verify tail archive salvage bench help" -f -a "salvage" -d 'Copy the sound records of a damaged log to a new log, or print their bytes'
complete -c dio -n "__fish_dio_using_subcommand wal; and not __fish_seen_subcommand_from dump verify tail archive salvage bench help" -f -a "bench" -d 'Measure what a log would give in a directory: commits per second and response times'
complete -c dio -n "__fish_dio_using_subcommand wal; and not __fish_seen_subcommand_from dump verify tail archive salvage bench help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c dio -n "__fish_dio_using_subcommand wal; and __fish_seen_subcommand_from dump" -l from -d 'Begin with the record at this LSN, or the next one behind it' -r
complete -c dio -n "__fish_dio_using_subcommand wal; and __fish_seen_subcommand_from dump" -l to -d 'Leave out records that begin at this LSN or behind it' -r
complete -c dio -n "__fish_dio_using_subcommand wal; and __fish_seen_subcommand_from dump" -s n -l count -d 'Print at most so many records' -r
complete -c dio -n "__fish_dio_using_subcommand wal; and __fish_seen_subcommand_from dump" -l cached -d 'Read through the page cache; otherwise past it, where the file system can'
complete -c dio -n "__fish_dio_using_subcommand wal; and __fish_seen_subcommand_from dump" -l marks -d 'Print the marks too that the log writes for itself'
complete -c dio -n "__fish_dio_using_subcommand wal; and __fish_seen_subcommand_from dump" -l hex -d 'Show the bytes of each record too, in hexadecimal and as text'
complete -c dio -n "__fish_dio_using_subcommand wal; and __fish_seen_subcommand_from dump" -l raw -d 'Write the bytes of the records and nothing else'
complete -c dio -n "__fish_dio_using_subcommand wal; and __fish_seen_subcommand_from dump" -l json -d 'Print each record as one JSON object on one line; with --hex its bytes too'
complete -c dio -n "__fish_dio_using_subcommand wal; and __fish_seen_subcommand_from dump" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c dio -n "__fish_dio_using_subcommand wal; and __fish_seen_subcommand_from dump" -s V -l version -d 'Print version'
complete -c dio -n "__fish_dio_using_subcommand wal; and __fish_seen_subcommand_from verify" -l cached -d 'Read through the page cache; otherwise past it, where the file system can'
complete -c dio -n "__fish_dio_using_subcommand wal; and __fish_seen_subcommand_from verify" -s q -l quiet -d 'Print nothing; only the exit status counts'
complete -c dio -n "__fish_dio_using_subcommand wal; and __fish_seen_subcommand_from verify" -l json -d 'Print one JSON object'
complete -c dio -n "__fish_dio_using_subcommand wal; and __fish_seen_subcommand_from verify" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c dio -n "__fish_dio_using_subcommand wal; and __fish_seen_subcommand_from verify" -s V -l version -d 'Print version'
complete -c dio -n "__fish_dio_using_subcommand wal; and __fish_seen_subcommand_from tail" -s n -l count -d 'Begin with the last N records' -r
complete -c dio -n "__fish_dio_using_subcommand wal; and __fish_seen_subcommand_from tail" -l from -d 'Begin with the record at this LSN, or the next one behind it' -r
complete -c dio -n "__fish_dio_using_subcommand wal; and __fish_seen_subcommand_from tail" -l rate -d 'With --follow, look for new records so many times a second' -r
complete -c dio -n "__fish_dio_using_subcommand wal; and __fish_seen_subcommand_from tail" -l cached -d 'Read through the page cache; otherwise past it, where the file system can'
complete -c dio -n "__fish_dio_using_subcommand wal; and __fish_seen_subcommand_from tail" -s f -l follow -d 'Go on with the records that are appended from then on, until interrupted'
complete -c dio -n "__fish_dio_using_subcommand wal; and __fish_seen_subcommand_from tail" -l hex -d 'Show the bytes of each record too, in hexadecimal and as text'
complete -c dio -n "__fish_dio_using_subcommand wal; and __fish_seen_subcommand_from tail" -l raw -d 'Write the bytes of the records and nothing else'
complete -c dio -n "__fish_dio_using_subcommand wal; and __fish_seen_subcommand_from tail" -l json -d 'Print each record as one JSON object on one line; with --hex its bytes too'
complete -c dio -n "__fish_dio_using_subcommand wal; and __fish_seen_subcommand_from tail" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c dio -n "__fish_dio_using_subcommand wal; and __fish_seen_subcommand_from tail" -s V -l version -d 'Print version'
complete -c dio -n "__fish_dio_using_subcommand wal; and __fish_seen_subcommand_from archive" -l rate -d 'With --follow, look for finished segments N times a second' -r
complete -c dio -n "__fish_dio_using_subcommand wal; and __fish_seen_subcommand_from archive" -l cached -d 'Read through the page cache; otherwise past it, where the file system can'
complete -c dio -n "__fish_dio_using_subcommand wal; and __fish_seen_subcommand_from archive" -s f -l follow -d 'Also copy the segments that are finished from then on, until interrupted'
complete -c dio -n "__fish_dio_using_subcommand wal; and __fish_seen_subcommand_from archive" -l json -d 'Print a JSON object on a line for each segment, and one at the end'
complete -c dio -n "__fish_dio_using_subcommand wal; and __fish_seen_subcommand_from archive" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c dio -n "__fish_dio_using_subcommand wal; and __fish_seen_subcommand_from archive" -s V -l version -d 'Print version'
complete -c dio -n "__fish_dio_using_subcommand wal; and __fish_seen_subcommand_from salvage" -l map -d 'Write a line of old and new LSN to this file for each record' -r -F
complete -c dio -n "__fish_dio_using_subcommand wal; and __fish_seen_subcommand_from salvage" -l cached -d 'Read through the page cache; otherwise past it, where the file system can'
complete -c dio -n "__fish_dio_using_subcommand wal; and __fish_seen_subcommand_from salvage" -l raw -d 'Write the bytes of the sound records to standard output instead, and nothing else'
complete -c dio -n "__fish_dio_using_subcommand wal; and __fish_seen_subcommand_from salvage" -l dry-run -d 'Only tell what is lost'
complete -c dio -n "__fish_dio_using_subcommand wal; and __fish_seen_subcommand_from salvage" -l json -d 'Print one JSON object'
complete -c dio -n "__fish_dio_using_subcommand wal; and __fish_seen_subcommand_from salvage" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c dio -n "__fish_dio_using_subcommand wal; and __fish_seen_subcommand_from salvage" -s V -l version -d 'Print version'
complete -c dio -n "__fish_dio_using_subcommand wal; and __fish_seen_subcommand_from bench" -l clients -d 'Threads that commit, a row for each number' -r
complete -c dio -n "__fish_dio_using_subcommand wal; and __fish_seen_subcommand_from bench" -l record -d 'Bytes of each record' -r
complete -c dio -n "__fish_dio_using_subcommand wal; and __fish_seen_subcommand_from bench" -l method -d 'Sync methods: fdatasync, fsync, open_datasync, open_sync, rwf_dsync' -r
complete -c dio -n "__fish_dio_using_subcommand wal; and __fish_seen_subcommand_from bench" -l direct -d 'Past the page cache: yes, no, or both' -r -f -a "yes\t'Past it'
no\t'Through it'
both\t'Each row both ways'"
complete -c dio -n "__fish_dio_using_subcommand wal; and __fish_seen_subcommand_from bench" -l seconds -d 'Seconds of each run' -r
complete -c dio -n "__fish_dio_using_subcommand wal; and __fish_seen_subcommand_from bench" -l preallocate -d 'What is done about the space of new segments' -r -f -a "ahead\t'It is set aside, and zeros are written ahead of small groups'
zeros\t'All of a segment is written with zeros when it is made'"
complete -c dio -n "__fish_dio_using_subcommand wal; and __fish_seen_subcommand_from bench" -l runs -d 'Runs of each row, all rows in turns; medians are reported' -r
complete -c dio -n "__fish_dio_using_subcommand wal; and __fish_seen_subcommand_from bench" -l reused -d 'Go on in segments that truncation gave back, as a program does that truncates'
complete -c dio -n "__fish_dio_using_subcommand wal; and __fish_seen_subcommand_from bench" -l json -d 'Print one JSON object, as `dio bench wal` does'
complete -c dio -n "__fish_dio_using_subcommand wal; and __fish_seen_subcommand_from bench" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c dio -n "__fish_dio_using_subcommand wal; and __fish_seen_subcommand_from bench" -s V -l version -d 'Print version'
complete -c dio -n "__fish_dio_using_subcommand wal; and __fish_seen_subcommand_from help" -f -a "dump" -d 'Print the records of a log: place, length, checksum'
complete -c dio -n "__fish_dio_using_subcommand wal; and __fish_seen_subcommand_from help" -f -a "verify" -d 'Read a whole log and report whether it is sound'
complete -c dio -n "__fish_dio_using_subcommand wal; and __fish_seen_subcommand_from help" -f -a "tail" -d 'Print the last records of a log, and with --follow those that are appended from then on'
complete -c dio -n "__fish_dio_using_subcommand wal; and __fish_seen_subcommand_from help" -f -a "archive" -d 'Copy the finished segments of a log to another directory, and with --follow those that are finished from then on'
complete -c dio -n "__fish_dio_using_subcommand wal; and __fish_seen_subcommand_from help" -f -a "salvage" -d 'Copy the sound records of a damaged log to a new log, or print their bytes'
complete -c dio -n "__fish_dio_using_subcommand wal; and __fish_seen_subcommand_from help" -f -a "bench" -d 'Measure what a log would give in a directory: commits per second and response times'
complete -c dio -n "__fish_dio_using_subcommand wal; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c dio -n "__fish_dio_using_subcommand self; and not __fish_seen_subcommand_from links help" -s h -l help -d 'Print help'
complete -c dio -n "__fish_dio_using_subcommand self; and not __fish_seen_subcommand_from links help" -s V -l version -d 'Print version'
complete -c dio -n "__fish_dio_using_subcommand self; and not __fish_seen_subcommand_from links help" -f -a "links" -d 'Make links by the tools\' own names, so that sha256sum or cp is dio'
complete -c dio -n "__fish_dio_using_subcommand self; and not __fish_seen_subcommand_from links help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c dio -n "__fish_dio_using_subcommand self; and __fish_seen_subcommand_from links" -l program -d 'What the links lead to, as it will be found when they are used [default: this program]' -r -F
complete -c dio -n "__fish_dio_using_subcommand self; and __fish_seen_subcommand_from links" -s l -l list -d 'Show for each tool whether DIR has its link, and change nothing'
complete -c dio -n "__fish_dio_using_subcommand self; and __fish_seen_subcommand_from links" -s r -l remove -d 'Remove the links to this program, and nothing else'
complete -c dio -n "__fish_dio_using_subcommand self; and __fish_seen_subcommand_from links" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c dio -n "__fish_dio_using_subcommand self; and __fish_seen_subcommand_from links" -s V -l version -d 'Print version'
complete -c dio -n "__fish_dio_using_subcommand self; and __fish_seen_subcommand_from help" -f -a "links" -d 'Make links by the tools\' own names, so that sha256sum or cp is dio'
complete -c dio -n "__fish_dio_using_subcommand self; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c dio -n "__fish_dio_using_subcommand help; and not __fish_seen_subcommand_from cp cat dd tar tee split sort uniq sum md5sum sha1sum sha224sum sha256sum sha384sum sha512sum b2sum b3sum cksum gzip gunzip zcat zstd unzstd zstdcat mount umount install-mount-helper run stat stripe probe cache advise record replay bench report synctest wal self help" -f -a "cp" -d 'Copy files and trees past the page cache'
complete -c dio -n "__fish_dio_using_subcommand help; and not __fish_seen_subcommand_from cp cat dd tar tee split sort uniq sum md5sum sha1sum sha224sum sha256sum sha384sum sha512sum b2sum b3sum cksum gzip gunzip zcat zstd unzstd zstdcat mount umount install-mount-helper run stat stripe probe cache advise record replay bench report synctest wal self help" -f -a "cat" -d 'Write files to standard output, past the page cache'
complete -c dio -n "__fish_dio_using_subcommand help; and not __fish_seen_subcommand_from cp cat dd tar tee split sort uniq sum md5sum sha1sum sha224sum sha256sum sha384sum sha512sum b2sum b3sum cksum gzip gunzip zcat zstd unzstd zstdcat mount umount install-mount-helper run stat stripe probe cache advise record replay bench report synctest wal self help" -f -a "dd" -d 'Copy and convert a file, as the operands say, past the page cache'
complete -c dio -n "__fish_dio_using_subcommand help; and not __fish_seen_subcommand_from cp cat dd tar tee split sort uniq sum md5sum sha1sum sha224sum sha256sum sha384sum sha512sum b2sum b3sum cksum gzip gunzip zcat zstd unzstd zstdcat mount umount install-mount-helper run stat stripe probe cache advise record replay bench report synctest wal self help" -f -a "tar" -d 'Write and read archives, past the page cache'
complete -c dio -n "__fish_dio_using_subcommand help; and not __fish_seen_subcommand_from cp cat dd tar tee split sort uniq sum md5sum sha1sum sha224sum sha256sum sha384sum sha512sum b2sum b3sum cksum gzip gunzip zcat zstd unzstd zstdcat mount umount install-mount-helper run stat stripe probe cache advise record replay bench report synctest wal self help" -f -a "tee" -d 'Copy standard input to standard output and to files, past the page cache'
complete -c dio -n "__fish_dio_using_subcommand help; and not __fish_seen_subcommand_from cp cat dd tar tee split sort uniq sum md5sum sha1sum sha224sum sha256sum sha384sum sha512sum b2sum b3sum cksum gzip gunzip zcat zstd unzstd zstdcat mount umount install-mount-helper run stat stripe probe cache advise record replay bench report synctest wal self help" -f -a "split" -d 'Put pieces of a file into files of their own, past the page cache'
complete -c dio -n "__fish_dio_using_subcommand help; and not __fish_seen_subcommand_from cp cat dd tar tee split sort uniq sum md5sum sha1sum sha224sum sha256sum sha384sum sha512sum b2sum b3sum cksum gzip gunzip zcat zstd unzstd zstdcat mount umount install-mount-helper run stat stripe probe cache advise record replay bench report synctest wal self help" -f -a "sort" -d 'Sort lines of text, past the page cache'
complete -c dio -n "__fish_dio_using_subcommand help; and not __fish_seen_subcommand_from cp cat dd tar tee split sort uniq sum md5sum sha1sum sha224sum sha256sum sha384sum sha512sum b2sum b3sum cksum gzip gunzip zcat zstd unzstd zstdcat mount umount install-mount-helper run stat stripe probe cache advise record replay bench report synctest wal self help" -f -a "uniq" -d 'Leave out or count lines that are as the one before, past the page cache'
complete -c dio -n "__fish_dio_using_subcommand help; and not __fish_seen_subcommand_from cp cat dd tar tee split sort uniq sum md5sum sha1sum sha224sum sha256sum sha384sum sha512sum b2sum b3sum cksum gzip gunzip zcat zstd unzstd zstdcat mount umount install-mount-helper run stat stripe probe cache advise record replay bench report synctest wal self help" -f -a "sum" -d 'Compute or check digests, many of them in one read of each file'
complete -c dio -n "__fish_dio_using_subcommand help; and not __fish_seen_subcommand_from cp cat dd tar tee split sort uniq sum md5sum sha1sum sha224sum sha256sum sha384sum sha512sum b2sum b3sum cksum gzip gunzip zcat zstd unzstd zstdcat mount umount install-mount-helper run stat stripe probe cache advise record replay bench report synctest wal self help" -f -a "md5sum" -d 'Compute or check MD5 digests'
complete -c dio -n "__fish_dio_using_subcommand help; and not __fish_seen_subcommand_from cp cat dd tar tee split sort uniq sum md5sum sha1sum sha224sum sha256sum sha384sum sha512sum b2sum b3sum cksum gzip gunzip zcat zstd unzstd zstdcat mount umount install-mount-helper run stat stripe probe cache advise record replay bench report synctest wal self help" -f -a "sha1sum" -d 'Compute or check SHA-1 digests'
complete -c dio -n "__fish_dio_using_subcommand help; and not __fish_seen_subcommand_from cp cat dd tar tee split sort uniq sum md5sum sha1sum sha224sum sha256sum sha384sum sha512sum b2sum b3sum cksum gzip gunzip zcat zstd unzstd zstdcat mount umount install-mount-helper run stat stripe probe cache advise record replay bench report synctest wal self help" -f -a "sha224sum" -d 'Compute or check SHA-224 digests'
complete -c dio -n "__fish_dio_using_subcommand help; and not __fish_seen_subcommand_from cp cat dd tar tee split sort uniq sum md5sum sha1sum sha224sum sha256sum sha384sum sha512sum b2sum b3sum cksum gzip gunzip zcat zstd unzstd zstdcat mount umount install-mount-helper run stat stripe probe cache advise record replay bench report synctest wal self help" -f -a "sha256sum" -d 'Compute or check SHA-256 digests'
complete -c dio -n "__fish_dio_using_subcommand help; and not __fish_seen_subcommand_from cp cat dd tar tee split sort uniq sum md5sum sha1sum sha224sum sha256sum sha384sum sha512sum b2sum b3sum cksum gzip gunzip zcat zstd unzstd zstdcat mount umount install-mount-helper run stat stripe probe cache advise record replay bench report synctest wal self help" -f -a "sha384sum" -d 'Compute or check SHA-384 digests'
complete -c dio -n "__fish_dio_using_subcommand help; and not __fish_seen_subcommand_from cp cat dd tar tee split sort uniq sum md5sum sha1sum sha224sum sha256sum sha384sum sha512sum b2sum b3sum cksum gzip gunzip zcat zstd unzstd zstdcat mount umount install-mount-helper run stat stripe probe cache advise record replay bench report synctest wal self help" -f -a "sha512sum" -d 'Compute or check SHA-512 digests'
complete -c dio -n "__fish_dio_using_subcommand help; and not __fish_seen_subcommand_from cp cat dd tar tee split sort uniq sum md5sum sha1sum sha224sum sha256sum sha384sum sha512sum b2sum b3sum cksum gzip gunzip zcat zstd unzstd zstdcat mount umount install-mount-helper run stat stripe probe cache advise record replay bench report synctest wal self help" -f -a "b2sum" -d 'Compute or check BLAKE2b digests'
complete -c dio -n "__fish_dio_using_subcommand help; and not __fish_seen_subcommand_from cp cat dd tar tee split sort uniq sum md5sum sha1sum sha224sum sha256sum sha384sum sha512sum b2sum b3sum cksum gzip gunzip zcat zstd unzstd zstdcat mount umount install-mount-helper run stat stripe probe cache advise record replay bench report synctest wal self help" -f -a "b3sum" -d 'Compute or check BLAKE3 digests'
complete -c dio -n "__fish_dio_using_subcommand help; and not __fish_seen_subcommand_from cp cat dd tar tee split sort uniq sum md5sum sha1sum sha224sum sha256sum sha384sum sha512sum b2sum b3sum cksum gzip gunzip zcat zstd unzstd zstdcat mount umount install-mount-helper run stat stripe probe cache advise record replay bench report synctest wal self help" -f -a "cksum" -d 'Compute or check a digest, by default the CRC of POSIX'
complete -c dio -n "__fish_dio_using_subcommand help; and not __fish_seen_subcommand_from cp cat dd tar tee split sort uniq sum md5sum sha1sum sha224sum sha256sum sha384sum sha512sum b2sum b3sum cksum gzip gunzip zcat zstd unzstd zstdcat mount umount install-mount-helper run stat stripe probe cache advise record replay bench report synctest wal self help" -f -a "gzip" -d 'Compress files, or decompress them, on all cores and past the page cache'
complete -c dio -n "__fish_dio_using_subcommand help; and not __fish_seen_subcommand_from cp cat dd tar tee split sort uniq sum md5sum sha1sum sha224sum sha256sum sha384sum sha512sum b2sum b3sum cksum gzip gunzip zcat zstd unzstd zstdcat mount umount install-mount-helper run stat stripe probe cache advise record replay bench report synctest wal self help" -f -a "gunzip" -d 'Decompress files, on all cores and past the page cache'
complete -c dio -n "__fish_dio_using_subcommand help; and not __fish_seen_subcommand_from cp cat dd tar tee split sort uniq sum md5sum sha1sum sha224sum sha256sum sha384sum sha512sum b2sum b3sum cksum gzip gunzip zcat zstd unzstd zstdcat mount umount install-mount-helper run stat stripe probe cache advise record replay bench report synctest wal self help" -f -a "zcat" -d 'Decompress files to standard output'
complete -c dio -n "__fish_dio_using_subcommand help; and not __fish_seen_subcommand_from cp cat dd tar tee split sort uniq sum md5sum sha1sum sha224sum sha256sum sha384sum sha512sum b2sum b3sum cksum gzip gunzip zcat zstd unzstd zstdcat mount umount install-mount-helper run stat stripe probe cache advise record replay bench report synctest wal self help" -f -a "zstd" -d 'Compress files, or decompress them, in the format of Zstandard, on all cores and past the page cache'
complete -c dio -n "__fish_dio_using_subcommand help; and not __fish_seen_subcommand_from cp cat dd tar tee split sort uniq sum md5sum sha1sum sha224sum sha256sum sha384sum sha512sum b2sum b3sum cksum gzip gunzip zcat zstd unzstd zstdcat mount umount install-mount-helper run stat stripe probe cache advise record replay bench report synctest wal self help" -f -a "unzstd" -d 'Decompress files in the format of Zstandard'
complete -c dio -n "__fish_dio_using_subcommand help; and not __fish_seen_subcommand_from cp cat dd tar tee split sort uniq sum md5sum sha1sum sha224sum sha256sum sha384sum sha512sum b2sum b3sum cksum gzip gunzip zcat zstd unzstd zstdcat mount umount install-mount-helper run stat stripe probe cache advise record replay bench report synctest wal self help" -f -a "zstdcat" -d 'Decompress files in the format of Zstandard to standard output'
complete -c dio -n "__fish_dio_using_subcommand help; and not __fish_seen_subcommand_from cp cat dd tar tee split sort uniq sum md5sum sha1sum sha224sum sha256sum sha384sum sha512sum b2sum b3sum cksum gzip gunzip zcat zstd unzstd zstdcat mount umount install-mount-helper run stat stripe probe cache advise record replay bench report synctest wal self help" -f -a "mount" -d 'Mount a directory so that the I/O of every program below it is direct or concurrent'
complete -c dio -n "__fish_dio_using_subcommand help; and not __fish_seen_subcommand_from cp cat dd tar tee split sort uniq sum md5sum sha1sum sha224sum sha256sum sha384sum sha512sum b2sum b3sum cksum gzip gunzip zcat zstd unzstd zstdcat mount umount install-mount-helper run stat stripe probe cache advise record replay bench report synctest wal self help" -f -a "umount" -d 'Unmount directories that dio mounted'
complete -c dio -n "__fish_dio_using_subcommand help; and not __fish_seen_subcommand_from cp cat dd tar tee split sort uniq sum md5sum sha1sum sha224sum sha256sum sha384sum sha512sum b2sum b3sum cksum gzip gunzip zcat zstd unzstd zstdcat mount umount install-mount-helper run stat stripe probe cache advise record replay bench report synctest wal self help" -f -a "install-mount-helper" -d 'Make mount -t fuse.dio and lines in fstab work'
complete -c dio -n "__fish_dio_using_subcommand help; and not __fish_seen_subcommand_from cp cat dd tar tee split sort uniq sum md5sum sha1sum sha224sum sha256sum sha384sum sha512sum b2sum b3sum cksum gzip gunzip zcat zstd unzstd zstdcat mount umount install-mount-helper run stat stripe probe cache advise record replay bench report synctest wal self help" -f -a "run" -d 'Run a command with directories mounted so that its I/O is direct or concurrent'
complete -c dio -n "__fish_dio_using_subcommand help; and not __fish_seen_subcommand_from cp cat dd tar tee split sort uniq sum md5sum sha1sum sha224sum sha256sum sha384sum sha512sum b2sum b3sum cksum gzip gunzip zcat zstd unzstd zstdcat mount umount install-mount-helper run stat stripe probe cache advise record replay bench report synctest wal self help" -f -a "stat" -d 'Show what a dio mount does: requests, latencies, bytes by class, and what requests are blocked on'
complete -c dio -n "__fish_dio_using_subcommand help; and not __fish_seen_subcommand_from cp cat dd tar tee split sort uniq sum md5sum sha1sum sha224sum sha256sum sha384sum sha512sum b2sum b3sum cksum gzip gunzip zcat zstd unzstd zstdcat mount umount install-mount-helper run stat stripe probe cache advise record replay bench report synctest wal self help" -f -a "stripe" -d 'Make, show and check files that are striped over several directories or devices'
complete -c dio -n "__fish_dio_using_subcommand help; and not __fish_seen_subcommand_from cp cat dd tar tee split sort uniq sum md5sum sha1sum sha224sum sha256sum sha384sum sha512sum b2sum b3sum cksum gzip gunzip zcat zstd unzstd zstdcat mount umount install-mount-helper run stat stripe probe cache advise record replay bench report synctest wal self help" -f -a "probe" -d 'Report what a path really does, by asking the kernel and by trying'
complete -c dio -n "__fish_dio_using_subcommand help; and not __fish_seen_subcommand_from cp cat dd tar tee split sort uniq sum md5sum sha1sum sha224sum sha256sum sha384sum sha512sum b2sum b3sum cksum gzip gunzip zcat zstd unzstd zstdcat mount umount install-mount-helper run stat stripe probe cache advise record replay bench report synctest wal self help" -f -a "cache" -d 'Show which pages of files are in the page cache, and evict them'
complete -c dio -n "__fish_dio_using_subcommand help; and not __fish_seen_subcommand_from cp cat dd tar tee split sort uniq sum md5sum sha1sum sha224sum sha256sum sha384sum sha512sum b2sum b3sum cksum gzip gunzip zcat zstd unzstd zstdcat mount umount install-mount-helper run stat stripe probe cache advise record replay bench report synctest wal self help" -f -a "advise" -d 'Say whether the I/O of a command should be direct, what that would gain, and whether it is true'
complete -c dio -n "__fish_dio_using_subcommand help; and not __fish_seen_subcommand_from cp cat dd tar tee split sort uniq sum md5sum sha1sum sha224sum sha256sum sha384sum sha512sum b2sum b3sum cksum gzip gunzip zcat zstd unzstd zstdcat mount umount install-mount-helper run stat stripe probe cache advise record replay bench report synctest wal self help" -f -a "record" -d 'Run a command and record its requests to files'
complete -c dio -n "__fish_dio_using_subcommand help; and not __fish_seen_subcommand_from cp cat dd tar tee split sort uniq sum md5sum sha1sum sha224sum sha256sum sha384sum sha512sum b2sum b3sum cksum gzip gunzip zcat zstd unzstd zstdcat mount umount install-mount-helper run stat stripe probe cache advise record replay bench report synctest wal self help" -f -a "replay" -d 'Make the requests of a trace again, on other files'
complete -c dio -n "__fish_dio_using_subcommand help; and not __fish_seen_subcommand_from cp cat dd tar tee split sort uniq sum md5sum sha1sum sha224sum sha256sum sha384sum sha512sum b2sum b3sum cksum gzip gunzip zcat zstd unzstd zstdcat mount umount install-mount-helper run stat stripe probe cache advise record replay bench report synctest wal self help" -f -a "bench" -d 'Measure reading, copying, committing and waiting for locks, direct and through the page cache'
complete -c dio -n "__fish_dio_using_subcommand help; and not __fish_seen_subcommand_from cp cat dd tar tee split sort uniq sum md5sum sha1sum sha224sum sha256sum sha384sum sha512sum b2sum b3sum cksum gzip gunzip zcat zstd unzstd zstdcat mount umount install-mount-helper run stat stripe probe cache advise record replay bench report synctest wal self help" -f -a "report" -d 'Make one page from the results of benchmarks, with plots, tables and the published figures beside them'
complete -c dio -n "__fish_dio_using_subcommand help; and not __fish_seen_subcommand_from cp cat dd tar tee split sort uniq sum md5sum sha1sum sha224sum sha256sum sha384sum sha512sum b2sum b3sum cksum gzip gunzip zcat zstd unzstd zstdcat mount umount install-mount-helper run stat stripe probe cache advise record replay bench report synctest wal self help" -f -a "synctest" -d 'Find the fastest way to make writes durable here, and whether the disk keeps its word'
complete -c dio -n "__fish_dio_using_subcommand help; and not __fish_seen_subcommand_from cp cat dd tar tee split sort uniq sum md5sum sha1sum sha224sum sha256sum sha384sum sha512sum b2sum b3sum cksum gzip gunzip zcat zstd unzstd zstdcat mount umount install-mount-helper run stat stripe probe cache advise record replay bench report synctest wal self help" -f -a "wal" -d 'Look at a durable log, follow it, archive it, take out what damage has left, and measure a new one'
complete -c dio -n "__fish_dio_using_subcommand help; and not __fish_seen_subcommand_from cp cat dd tar tee split sort uniq sum md5sum sha1sum sha224sum sha256sum sha384sum sha512sum b2sum b3sum cksum gzip gunzip zcat zstd unzstd zstdcat mount umount install-mount-helper run stat stripe probe cache advise record replay bench report synctest wal self help" -f -a "self" -d 'Set up this program'
complete -c dio -n "__fish_dio_using_subcommand help; and not __fish_seen_subcommand_from cp cat dd tar tee split sort uniq sum md5sum sha1sum sha224sum sha256sum sha384sum sha512sum b2sum b3sum cksum gzip gunzip zcat zstd unzstd zstdcat mount umount install-mount-helper run stat stripe probe cache advise record replay bench report synctest wal self help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c dio -n "__fish_dio_using_subcommand help; and __fish_seen_subcommand_from stripe" -f -a "set" -d 'Make empty striped files'
complete -c dio -n "__fish_dio_using_subcommand help; and __fish_seen_subcommand_from stripe" -f -a "show" -d 'Show how files are striped'
complete -c dio -n "__fish_dio_using_subcommand help; and __fish_seen_subcommand_from stripe" -f -a "check" -d 'Check that all objects of striped files are there and are the right ones'
complete -c dio -n "__fish_dio_using_subcommand help; and __fish_seen_subcommand_from stripe" -f -a "migrate" -d 'Move files to another layout'
complete -c dio -n "__fish_dio_using_subcommand help; and __fish_seen_subcommand_from stripe" -f -a "rm" -d 'Remove striped files with all their bytes'
complete -c dio -n "__fish_dio_using_subcommand help; and __fish_seen_subcommand_from stripe" -f -a "adopt" -d 'Make copies of descriptors the striped files'
complete -c dio -n "__fish_dio_using_subcommand help; and __fish_seen_subcommand_from stripe" -f -a "orphans" -d 'Find objects whose striped file is gone'
complete -c dio -n "__fish_dio_using_subcommand help; and __fish_seen_subcommand_from advise" -f -a "sizes" -d 'Which calls a command makes to each file: how many, of which sizes, in which order'
complete -c dio -n "__fish_dio_using_subcommand help; and __fish_seen_subcommand_from advise" -f -a "database" -d 'Which settings suit a database\'s disk, its memory and its load'
complete -c dio -n "__fish_dio_using_subcommand help; and __fish_seen_subcommand_from record" -f -a "export" -d 'Write a trace in another format'
complete -c dio -n "__fish_dio_using_subcommand help; and __fish_seen_subcommand_from record" -f -a "import" -d 'Make a trace of another format'
complete -c dio -n "__fish_dio_using_subcommand help; and __fish_seen_subcommand_from bench" -f -a "increments" -d 'Read a cold file from front to back in small and large steps, cached and direct'
complete -c dio -n "__fish_dio_using_subcommand help; and __fish_seen_subcommand_from bench" -f -a "locks" -d 'Run a command and count what its threads are blocked on, by class of lock'
complete -c dio -n "__fish_dio_using_subcommand help; and __fish_seen_subcommand_from bench" -f -a "oltp" -d 'Run a database\'s page workload on a raw device, bare files and mounts in direct and concurrent mode'
complete -c dio -n "__fish_dio_using_subcommand help; and __fish_seen_subcommand_from bench" -f -a "copy" -d 'Copy a cold file in blocks of 4 KiB, one at a time, and in large blocks, several in flight'
complete -c dio -n "__fish_dio_using_subcommand help; and __fish_seen_subcommand_from bench" -f -a "database" -d 'Run MariaDB or PostgreSQL on a raw device, bare files and mounts in direct and concurrent mode'
complete -c dio -n "__fish_dio_using_subcommand help; and __fish_seen_subcommand_from bench" -f -a "disks" -d 'Read and write sequentially over 1, 2, 4 and 8 disks, cached, direct and raw'
complete -c dio -n "__fish_dio_using_subcommand help; and __fish_seen_subcommand_from bench" -f -a "pipeline" -d 'Run a command between two files, with large direct I/O at neither end, at its input, and at both ends'
complete -c dio -n "__fish_dio_using_subcommand help; and __fish_seen_subcommand_from bench" -f -a "random" -d 'Read random blocks with several reads in flight'
complete -c dio -n "__fish_dio_using_subcommand help; and __fish_seen_subcommand_from bench" -f -a "streams" -d 'Read and write through the library\'s streams, and through the page cache'
complete -c dio -n "__fish_dio_using_subcommand help; and __fish_seen_subcommand_from bench" -f -a "stripe" -d 'Measure requests over several stripes: waiting for each stripe, for all at once, and asynchronous'
complete -c dio -n "__fish_dio_using_subcommand help; and __fish_seen_subcommand_from bench" -f -a "wal" -d 'Measure durable commits by sync method, direct and cached, by one client and by many, and appending in large steps'
complete -c dio -n "__fish_dio_using_subcommand help; and __fish_seen_subcommand_from wal" -f -a "dump" -d 'Print the records of a log: place, length, checksum'
complete -c dio -n "__fish_dio_using_subcommand help; and __fish_seen_subcommand_from wal" -f -a "verify" -d 'Read a whole log and report whether it is sound'
complete -c dio -n "__fish_dio_using_subcommand help; and __fish_seen_subcommand_from wal" -f -a "tail" -d 'Print the last records of a log, and with --follow those that are appended from then on'
complete -c dio -n "__fish_dio_using_subcommand help; and __fish_seen_subcommand_from wal" -f -a "archive" -d 'Copy the finished segments of a log to another directory, and with --follow those that are finished from then on'
complete -c dio -n "__fish_dio_using_subcommand help; and __fish_seen_subcommand_from wal" -f -a "salvage" -d 'Copy the sound records of a damaged log to a new log, or print their bytes'
complete -c dio -n "__fish_dio_using_subcommand help; and __fish_seen_subcommand_from wal" -f -a "bench" -d 'Measure what a log would give in a directory: commits per second and response times'
complete -c dio -n "__fish_dio_using_subcommand help; and __fish_seen_subcommand_from self" -f -a "links" -d 'Make links by the tools\' own names, so that sha256sum or cp is dio'
