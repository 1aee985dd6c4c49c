//! The grammar of `dio tar`: GNU tar's options and those that all tools share. `options` decides
//! what they mean in combination.

use std::ffi::OsStr;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use super::date;
use super::date::Written;
use super::ordered::{self, Flag as Ordered};
use super::owner::Owner;
pub(super) use super::parsed::TarArgs;
use super::split::split_string;
use super::terms::{
    ArchiveFormat, BLOCK, Compression, ExistingFiles, Holes, NAME, Operation, Quoting, Sort, fatal,
};
use crate::grammar::{
    Choice, Flag, Grammar, Refusal, accepted, checked, effect, help, hidden, meant, optional,
    repeated, switch, value, version,
};
use crate::tool::{in_place_flag, io_flags, medium_flag};

const DETAILS: &str = "\
One of -c, -t, -x, -r, -u, -A and -d says what to do. The letters may stand without a dash in the \
first word; then their arguments follow in the order of the letters: tar cbf 40 archive file.

-C, -T, --add-file, --no-recursion, --null and how patterns match concern the names and patterns \
that come after them.";

/// The exit statuses of a command line that cannot be parsed, and of one that makes no sense.
const STATUSES: (u8, u8) = (64, 2);

const IN_ORDER: &str = "Names, in the order of the command line";

pub(super) fn grammar() -> Grammar<TarArgs> {
    Grammar::<TarArgs>::new(NAME, "Write and read archives, past the page cache", DETAILS)
        .section("Operation", operations())
        .section(IN_ORDER, ordered::names().map(in_order))
        .section(IN_ORDER, ordered::exclusions().map(in_order))
        .section(IN_ORDER, ordered::matching().map(in_order))
        .section("Archive", archives())
        .section("Archive", compressions())
        .section("Selection of files", selections())
        .section("Selection of files", changes())
        .section("Attributes of files", attributes())
        .section("Extraction over existing files", treatments())
        .section("Messages", messages())
        .flags([help("-?, --help"), version("--version")])
        .flags(io_flags(|tar| &mut tar.io))
        .flags([medium_flag(|tar| &mut tar.io), in_place_flag(|tar| tar.in_place = true)])
        .operands(&[("FILE...", "Files to archive, or members of the archive")], |tar, name| {
            tar.ordered.push(Ordered::Name(name));
            Ok(())
        })
        .statuses(STATUSES.0, STATUSES.1)
}

/// Makes an option of names one of the whole command line.
fn in_order(flag: Flag<Vec<Ordered>>) -> Flag<TarArgs> {
    flag.within(|tar: &mut TarArgs| &mut tar.ordered)
}

/// The options that choose the operation. Only one may be given, but it may be repeated.
fn operations() -> [Flag<TarArgs>; 7] {
    let operation = |spec, text, operation| {
        effect(spec, text, move |tar: &mut TarArgs, _| match tar.operation.replace(operation) {
            Some(before) if before != operation => {
                Err(Refusal::usage("You may not specify more than one '-Acdtrux' option"))
            }
            _ => Ok(()),
        })
    };
    [
        operation("-c, --create", "Create an archive", Operation::Create),
        operation("-t, --list", "List what is in an archive", Operation::List),
        operation("-x, --extract, --get", "Extract from an archive", Operation::Extract),
        operation("-r, --append", "Append files to an archive", Operation::Append),
        operation(
            "-u, --update",
            "Append files that are newer than their copy in the archive",
            Operation::Update,
        ),
        operation(
            "-A, --catenate, --concatenate",
            "Append what is in other archives",
            Operation::Catenate,
        ),
        operation(
            "-d, --diff, --compare",
            "Find differences between an archive and the files",
            Operation::Diff,
        ),
    ]
}

fn archives() -> [Flag<TarArgs>; 11] {
    [
        value(
            "-f, --file=ARCHIVE",
            "The archive; - is standard output or input [default: $TAPE, or -]",
            |tar, file| {
                tar.archives.push(file);
            },
        ),
        checked(
            "-H, --format=FORMAT",
            "Format to create: gnu, oldgnu, pax (or posix), ustar, v7 [default: gnu]",
            |tar, given| {
                tar.format = Some(format(&given.take())?);
                Ok(())
            },
        ),
        switch("--posix", "Same as --format=posix", |tar| tar.format = Some(ArchiveFormat::Pax)),
        switch("--old-archive, --portability", "Same as --format=v7", |tar| {
            tar.format = Some(ArchiveFormat::V7)
        }),
        switch(
            "-o",
            "Creating, same as --old-archive; extracting, same as --no-same-owner",
            |tar| tar.old = true,
        ),
        checked(
            "-b, --blocking-factor=N",
            "Records of N × 512 bytes [default: 20]",
            |tar, given| {
                tar.record = Some(record(&given.take(), BLOCK, "Invalid blocking factor")?);
                Ok(())
            },
        ),
        checked("--record-size=N", "Records of N bytes, a multiple of 512", |tar, given| {
            tar.record = Some(record(&given.take(), 1, "Invalid record size")?);
            Ok(())
        }),
        switch("-i, --ignore-zeros", "Read on behind blocks of zeros", |tar| {
            tar.ignore_zeros = true
        }),
        hidden(accepted(
            "-B, --read-full-records",
            "Read whole records from pipes: as it is done in any case",
        )),
        hidden(accepted(
            "-n, --seek",
            "The archive can be positioned, as is found out in any case",
        )),
        switch("--no-seek", "Read the archive from front to back", |tar| tar.no_seek = true),
    ]
}

fn compressions() -> [Flag<TarArgs>; 12] {
    let own = |spec, text, how: Compression| {
        effect(spec, text, move |tar: &mut TarArgs, _| tar.compress(how.clone()))
    };
    let program = |spec, text, name: &'static str| {
        effect(spec, text, move |tar: &mut TarArgs, _| {
            tar.compress(Compression::Program(vec![name.into()]))
        })
    };
    [
        own("-z, --gzip, --gunzip, --ungzip", "Compressed by gzip", Compression::Gzip),
        own("--zstd", "Compressed by zstd", Compression::Zstd),
        program("-j, --bzip2", "Compressed by bzip2, which runs as a process of its own", "bzip2"),
        program("-J, --xz", "Compressed by xz, which runs as a process of its own", "xz"),
        program("--lzma", "Compressed by lzma, which runs as a process of its own", "lzma"),
        program("--lzip", "Compressed by lzip, which runs as a process of its own", "lzip"),
        program("--lzop", "Compressed by lzop, which runs as a process of its own", "lzop"),
        program(
            "-Z, --compress, --uncompress",
            "Compressed by compress, which runs as a process of its own",
            "compress",
        ),
        checked(
            "-I, --use-compress-program=PROG",
            "Compressed by PROG, which must understand -d",
            |tar, given| {
                let words = split_string(given.take().as_bytes())?;
                if words.is_empty() {
                    return Err(Refusal::usage("-I needs the name of a program"));
                }
                tar.compress(Compression::Program(words))
            },
        ),
        switch("-a, --auto-compress", "Compressed as the end of the archive's name says", |tar| {
            tar.auto_compress = true;
        }),
        hidden(switch("--no-auto-compress", "Not compressed because of its name", |tar| {
            tar.auto_compress = false
        })),
        hidden(accepted(
            "--force-local",
            "A colon in the archive's name means nothing: as in any case",
        )),
    ]
}

/// The options that choose the files to archive or the members to process.
fn selections() -> [Flag<TarArgs>; 9] {
    [
        switch("-h, --dereference", "Archive what symbolic links point to", |tar| {
            tar.dereference = true
        }),
        switch("--hard-dereference", "Archive every name of a file with its contents", |tar| {
            tar.hard_dereference = true;
        }),
        switch("--one-file-system", "Stay in the file system of each name given", |tar| {
            tar.one_file_system = true
        }),
        switch("-P, --absolute-names", "Keep leading / and .. of names", |tar| {
            tar.absolute_names = true
        }),
        checked(
            "-N, --newer, --after-date=DATE-OR-FILE",
            "Only files whose contents or attributes changed after DATE, or after FILE was written",
            |tar, given| tar.newer(&given.take(), "--after-date", false),
        ),
        checked(
            "--newer-mtime=DATE",
            "Only files whose contents changed after DATE",
            |tar, given| tar.newer(&given.take(), "--newer-mtime", true),
        ),
        checked(
            "--sort=ORDER",
            "Order of the names in a directory: none, name, inode",
            |tar, given| {
                tar.sort = Some(choose("--sort", &given.take(), SORTS)?);
                Ok(())
            },
        ),
        value("-K, --starting-file=MEMBER", "Begin with the member of that name", |tar, name| {
            tar.starting_file = Some(name.into_vec());
        }),
        checked(
            "--occurrence[=N]",
            "Only the Nth of the members that have a name [default: 1]",
            |tar, given| {
                let text = given.value.take().unwrap_or_else(|| "1".into());
                let number = text.to_str().and_then(|text| text.parse::<u64>().ok());
                let number = number
                    .ok_or_else(|| fatal(format!("{}: Invalid number", text.to_string_lossy())))?;
                // 0 stands for all occurrences.
                tar.occurrence = Some(number).filter(|number| *number > 0);
                Ok(())
            },
        ),
    ]
}

/// The options that change names and the handling of files.
fn changes() -> [Flag<TarArgs>; 8] {
    [
        hidden(accepted(
            "-s, --preserve-order, --same-order",
            "Names are in the order of the archive: without effect",
        )),
        checked(
            "--strip-components=N",
            "Leave N leading parts of the names of members out",
            |tar, given| {
                let text = given.take();
                let number = text
                    .to_str()
                    .and_then(|text| text.parse::<usize>().ok())
                    .filter(|number| *number <= 1 << 32);
                let invalid = || {
                    Refusal::usage(format!(
                        "{}: Invalid number of elements",
                        text.to_string_lossy()
                    ))
                };
                tar.strip_components = number.ok_or_else(invalid)?;
                Ok(())
            },
        ),
        repeated(value(
            "--transform, --xform=EXPRESSION",
            "Change names by an expression of sed: s/REGEX/TEXT/FLAGS",
            |tar, expression| tar.transform.push(expression),
        )),
        optional(
            "--one-top-level[=DIR]",
            "Extract into a directory DIR, by default named after the archive",
            |tar, directory| tar.one_top_level = Some(directory.unwrap_or_default()),
        ),
        switch("--ignore-failed-read", "An unreadable file is no failure", |tar| {
            tar.ignore_failed_read = true
        }),
        switch("--remove-files", "Remove files when they are in the archive", |tar| {
            tar.remove_files = true
        }),
        switch("-S, --sparse", "Archive holes as holes", |tar| {
            tar.sparse = tar.sparse.or(Some(Holes::Seek))
        }),
        checked(
            "--hole-detection=TYPE",
            "How holes are found: seek or raw; implies -S",
            |tar, given| {
                tar.sparse = Some(choose("--hole-detection", &given.take(), HOLES)?);
                Ok(())
            },
        ),
    ]
}

/// The options for attributes: permissions, owners, times, extended attributes and ACLs.
fn attributes() -> [Flag<TarArgs>; 19] {
    [
        switch(
            "-p, --preserve-permissions, --same-permissions",
            "Extract permissions as they are (default of the superuser)",
            |tar| tar.same_permissions = Some(true),
        ),
        switch(
            "--no-same-permissions",
            "Apply the umask to permissions (default of others)",
            |tar| {
                tar.same_permissions = Some(false);
            },
        ),
        switch("--same-owner", "Extract with the same owners (default of the superuser)", |tar| {
            tar.same_owner = Some(true);
        }),
        switch("--no-same-owner", "Extract as oneself (default of others)", |tar| {
            tar.same_owner = Some(false)
        }),
        switch("--numeric-owner", "Numbers instead of names of users and groups", |tar| {
            tar.numeric_owner = true
        }),
        checked("--owner=NAME", "Owner of added files: NAME, NAME:UID or UID", |tar, given| {
            tar.owner = Some(Owner::user(&given.take())?);
            Ok(())
        }),
        checked("--group=NAME", "Group of added files: NAME, NAME:GID or GID", |tar, given| {
            tar.group = Some(Owner::group(&given.take())?);
            Ok(())
        }),
        checked(
            "--mtime=DATE-OR-FILE",
            "Time of added files: a date, @SECONDS, or a FILE that has it (a name that begins with \
             / or .)",
            |tar, given| {
                let text = given.take();
                let mtime = date::parse(&text)?;
                (tar.mtime, tar.dates[1]) = (Some(mtime), Written::of("--mtime", &text, mtime));
                Ok(())
            },
        ),
        switch("--clamp-mtime", "--mtime only for files that are newer", |tar| {
            tar.clamp_mtime = true
        }),
        switch("-m, --touch", "Do not extract times", |tar| tar.touch = true),
        switch("--xattrs", "Extended attributes", |tar| tar.xattrs = true),
        switch("--no-xattrs", "No extended attributes", |tar| tar.xattrs = false),
        repeated(value(
            "--xattrs-include=MASK",
            "Extended attributes whose names match; implies --xattrs",
            |tar, mask| {
                tar.xattrs_include.push(mask.into_vec());
                tar.xattrs = true;
            },
        )),
        repeated(value(
            "--xattrs-exclude=MASK",
            "No extended attributes whose names match; implies --xattrs",
            |tar, mask| {
                tar.xattrs_exclude.push(mask.into_vec());
                tar.xattrs = true;
            },
        )),
        switch("--acls", "Access control lists", |tar| tar.acls = true),
        switch("--no-acls", "No access control lists", |tar| tar.acls = false),
        hidden(accepted("--no-selinux", "No SELinux contexts: as in any case")),
        hidden(accepted(
            "--delay-directory-restore",
            "Set times and permissions of directories at the end, as in any case",
        )),
        hidden(accepted("--no-delay-directory-restore", "Without effect")),
    ]
}

/// The options for existing files when extracting, and for the destination of contents.
fn treatments() -> [Flag<TarArgs>; 11] {
    let only = |spec, text, set: fn(&mut ExistingFiles)| {
        effect(spec, text, move |tar: &mut TarArgs, given| {
            set(&mut tar.existing);
            let name = given.full_name();
            match tar.treatment.get_or_insert_with(|| name.clone()) {
                before if *before == name => Ok(()),
                before => Err(Refusal::usage(format!("'{name}' cannot be used with '{before}'"))),
            }
        })
    };
    [
        only(
            "-k, --keep-old-files",
            "Do not replace existing files, which are errors",
            |existing| {
                existing.keep_old = true;
            },
        ),
        only("--skip-old-files", "Do not replace existing files", |existing| {
            existing.skip_old = true
        }),
        only("--keep-newer-files", "Do not replace existing files that are newer", |existing| {
            existing.keep_newer = true;
        }),
        only("--overwrite", "Write into existing files", |existing| existing.overwrite = true),
        only("-U, --unlink-first", "Remove each file before it is extracted", |existing| {
            existing.unlink_first = true
        }),
        switch(
            "--recursive-unlink",
            "Remove directories with all they hold where something else is extracted",
            |tar| tar.existing.recursive_unlink = true,
        ),
        switch("--keep-directory-symlink", "Follow symbolic links to directories", |tar| {
            tar.existing.keep_directory_symlink = true;
        }),
        only("--no-overwrite-dir", "Keep the attributes of existing directories", |existing| {
            existing.no_overwrite_dir = true;
        }),
        only("--overwrite-dir", "Replace the attributes of existing directories (default)", |_| ()),
        switch("-O, --to-stdout", "Extract contents to standard output", |tar| {
            tar.to_stdout = true
        }),
        hidden(switch("-W, --verify", "Not supported: compare with -d afterwards", |tar| {
            tar.verify = true
        })),
    ]
}

/// The options for messages and listings.
fn messages() -> [Flag<TarArgs>; 12] {
    [
        repeated(switch(
            "-v, --verbose",
            "List the files as they are dealt with; twice, with their attributes",
            |tar| {
                tar.verbose = tar.verbose.saturating_add(1);
            },
        )),
        switch("--totals", "Tell the bytes of the archive at the end", |tar| tar.totals = true),
        switch("-l, --check-links", "Tell if not all names of a file were archived", |tar| {
            tar.check_links = true
        }),
        switch("-R, --block-number", "Tell the number of the block with each message", |tar| {
            tar.block_number = true
        }),
        switch("--full-time", "List times to their full resolution", |tar| tar.full_time = true),
        switch("--utc", "List times in UTC", |tar| tar.utc = true),
        value("--index-file=FILE", "Write the list of files to FILE", |tar, file| {
            tar.index_file = Some(file)
        }),
        checked("--quoting-style=STYLE", "How names are listed: escape, literal", |tar, given| {
            tar.quoting = Some(choose("--quoting-style", &given.take(), QUOTINGS)?);
            Ok(())
        }),
        switch(
            "--show-transformed-names, --show-stored-names",
            "List names as --strip-components leaves them",
            |tar| tar.show_transformed = true,
        ),
        switch("--show-omitted-dirs", "Tell directories that are passed over", |tar| {
            tar.show_omitted = true
        }),
        repeated(checked(
            "--warning=KEYWORD",
            "Which warnings are told: KEYWORD, no-KEYWORD, all or none",
            |tar, given| tar.warnings.set(&given.take()).map_err(briefly),
        )),
        switch("-w, --interactive, --confirmation", "Ask before each file", |tar| {
            tar.interactive = true
        }),
    ]
}

const SORTS: &[Choice<Sort>] =
    &[("none", Sort::None, ""), ("name", Sort::Name, ""), ("inode", Sort::Inode, "")];

const HOLES: &[Choice<Holes>] = &[("raw", Holes::Raw, ""), ("seek", Holes::Seek, "")];

const QUOTINGS: &[Choice<Quoting>] =
    &[("escape", Quoting::Escape, ""), ("literal", Quoting::Literal, "")];

fn choose<T: Copy + PartialEq>(
    option: &str,
    word: &OsStr,
    choices: &[Choice<T>],
) -> Result<T, Refusal> {
    meant(option, word, choices).map_err(briefly)
}

/// Removes the hint and sets the status: GNU tar prints no hint for an invalid word of such an
/// option, and exits with the status of its other failures.
fn briefly(refusal: Refusal) -> Refusal {
    refusal.without_hint().with_status(STATUSES.1)
}

fn format(text: &OsStr) -> Result<ArchiveFormat, Refusal> {
    Ok(match text.as_bytes() {
        b"gnu" => ArchiveFormat::Gnu,
        b"oldgnu" => ArchiveFormat::OldGnu,
        b"pax" | b"posix" => ArchiveFormat::Pax,
        b"ustar" => ArchiveFormat::Ustar,
        b"v7" => ArchiveFormat::V7,
        _ => {
            return Err(Refusal::usage(format!(
                "{}: Invalid archive format",
                text.to_string_lossy()
            )));
        }
    })
}

/// Parses the size of a record, given in units of `unit` bytes.
fn record(text: &OsStr, unit: u64, what: &str) -> Result<u64, Refusal> {
    // A larger record would exceed any buffer.
    const MOST: u64 = 1 << 31;
    let invalid = || Refusal::usage(format!("{}: {what}", text.to_string_lossy()));
    let size = text
        .to_str()
        .and_then(|text| crate::size::parse_positive_size(text).ok())
        .ok_or_else(invalid)?;
    let bytes = size.checked_mul(unit).filter(|bytes| *bytes <= MOST).ok_or_else(invalid)?;
    match bytes % BLOCK {
        0 => Ok(bytes),
        _ => Err(Refusal::usage(format!("Record size must be a multiple of {BLOCK}."))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grammar::{Line, Stop};

    fn read(line: &str) -> Result<TarArgs, Stop> {
        let (mut args, grammar) = (TarArgs::default(), grammar());
        let mut line = Line::new(line.split(' ').map(std::ffi::OsString::from));
        grammar.fold_letters(&mut args, &mut line)?;
        grammar.fold(&mut args, &mut line).map(|()| args)
    }

    #[test]
    fn letters_become_options() {
        let name = |name: &str| Ordered::Name(name.into());
        let args = read("cvzf a.tgz dir").unwrap();
        assert_eq!((args.operation, args.verbose), (Some(Operation::Create), 1));
        assert_eq!(
            (args.compression, args.archives),
            (Some(Compression::Gzip), vec!["a.tgz".into()])
        );
        assert_eq!(args.ordered, [name("dir")]);
        let args = read("xbfC 40 a d name -v").unwrap();
        assert_eq!(
            (args.operation, args.record, args.verbose),
            (Some(Operation::Extract), Some(40 * BLOCK), 1)
        );
        assert_eq!(args.archives, ["a"]);
        assert_eq!(args.ordered, [Ordered::Directory("d".into()), name("name")]);
        let args = read("-cf a b").unwrap();
        assert_eq!((args.archives, args.ordered), (vec!["a".into()], vec![name("b")]));
        let missing = Refusal::usage("Old option 'f' requires an argument.");
        assert_eq!(read("cf").err(), Some(Stop::Refused(missing)));
    }
}
