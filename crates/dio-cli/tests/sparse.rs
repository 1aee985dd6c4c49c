//! Sparse files with extents of every size and at every alignment: each tool, the mount and striped
//! files return every byte, and the tools that keep holes keep them.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::process::Command;

use dio_test::{MODES, Mounted, Rng, Soak, TestFs, file_systems, is_root, skip};
use rustix::fs::FallocateFlags;

/// If the holes of a file have at least this many bytes in all, a tool that keeps holes must keep
/// them. Smaller holes may be filled by the file system's allocation.
const HOLES_THAT_COUNT: u64 = 1 << 20;

/// A file with holes, and its expected contents.
struct Sparse {
    contents: Vec<u8>,
    /// Number of bytes outside of all extents.
    holes: u64,
    /// The layout, for messages.
    layout: String,
}

/// Sizes of extents and gaps, around the units of formats, file systems and buffers.
const UNITS: [u64; 9] = [1, 511, 512, 4096, 4097, 65_536, 65_535, 1 << 20, (1 << 20) + 513];

fn length(rng: &mut Rng, largest: u64) -> u64 {
    let unit = *rng.pick(&UNITS);
    let length = match rng.range(0..4) {
        0 => unit,
        1 => unit * rng.range(1..5),
        2 => rng.range(1..unit + 1),
        _ => rng.range(1..20_000),
    };
    length.min(largest)
}

impl Sparse {
    /// Makes a random file by writing to the path `written`.
    fn make(rng: &mut Rng, written: &Path) -> Sparse {
        let file = File::create(written).unwrap();
        let (mut contents, mut layout, mut at, mut holes) = (Vec::new(), String::new(), 0, 0);
        let largest = *rng.pick(&[4096, 70_000, 1 << 20, 3 << 20]);
        let mut extents = Vec::new();
        for _ in 0..rng.range(0..25) {
            if at > 24 << 20 {
                break;
            }
            let gap = if rng.bool(0.9) { length(rng, 2 * largest) } else { 0 };
            let length = length(rng, largest);
            extents.push((at + gap, length));
            holes += gap;
            at += gap + length;
        }
        let end = at + if rng.bool(0.5) { length(rng, 2 << 20) } else { 0 };
        contents.resize(end as usize, 0);
        let backwards = rng.bool(0.2);
        if backwards {
            extents.reverse();
        }
        for (offset, length) in extents {
            let place = offset as usize..(offset + length) as usize;
            // Allocated but unwritten extents, and extents of written zeros, are data to some
            // programs and holes to others.
            let how = rng.range(0..12);
            layout += &format!(" {offset}+{length}{}", ["u", "z"].get(how as usize).unwrap_or(&""));
            match how {
                0 => {
                    // Not every file system can allocate.
                    let _ = rustix::fs::fallocate(&file, FallocateFlags::empty(), offset, length);
                }
                1 => file.write_all_at(&contents[place], offset).unwrap(),
                _ => {
                    rng.fill(&mut contents[place.clone()]);
                    file.write_all_at(&contents[place], offset).unwrap();
                }
            }
        }
        file.set_len(end).unwrap();
        if rng.bool(0.5) {
            file.sync_all().unwrap();
        }
        Sparse { contents, holes, layout: format!("{end}:{layout}") }
    }

    /// Checks that the file at `path` equals this one, byte for byte.
    #[track_caller]
    fn check(&self, path: &Path, what: &str) {
        let found =
            fs::read(path).unwrap_or_else(|error| panic!("{what}: {}: {error}", path.display()));
        let differs = found.iter().zip(&self.contents).position(|(one, other)| one != other);
        let (sizes, layout) = ((found.len(), self.contents.len()), &self.layout);
        assert!(
            differs.is_none() && sizes.0 == sizes.1,
            "{what}: {differs:?}, sizes {sizes:?}, {layout}"
        );
    }

    /// As `check`, and also checks that most of its holes take no space.
    #[track_caller]
    fn check_with_holes(&self, path: &Path, what: &str) {
        self.check(path, what);
        let used = fs::metadata(path).unwrap().blocks() * 512;
        let bound = self.contents.len() as u64 - self.holes / 2;
        let layout = &self.layout;
        // If extents are small compared with a block of the file system, the holes around them are
        // lost.
        let dense = self.contents.len() as u64 / (layout.split(' ').count() as u64) < 3 * 65_536;
        if self.holes >= HOLES_THAT_COUNT && !dense {
            assert!(
                used <= bound,
                "{what}: {used} bytes are allocated, holes of {} bytes, {layout}",
                self.holes
            );
        }
    }
}

/// Runs a script in which `dio` is the program under test.
#[track_caller]
fn script(dir: &Path, text: &str) {
    let function = format!("dio() {{ {} \"$@\"; }}\n", env!("CARGO_BIN_EXE_dio"));
    let mut shell = Command::new("bash");
    let output = shell
        .args(["-ec", &(function + text)])
        .current_dir(dir)
        .env("LC_ALL", "C")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.is_empty(), "{text}: {:?}: {said}", output.status);
}

/// A file system, and a directory on it with a random file `f`.
fn scene(rng: &mut Rng) -> (TestFs, tempfile::TempDir, Sparse) {
    let all = file_systems();
    let fs = rng.pick(&all).clone();
    let dir = fs.dir();
    let sparse = Sparse::make(rng, &dir.path().join("f"));
    (fs, dir, sparse)
}

/// Two extents of 4 and 64 KiB, the second in the middle or at the end. Before a fix, the data
/// behind the first extent was archived as zeros.
#[test]
fn tar_archives_every_extent() {
    let mut rng = Rng::new(13);
    for length in [1, 4096, 65_536, 1 << 20] {
        for tail in [0, 1 << 20] {
            let dir = file_systems()[0].dir();
            let mut contents = vec![0; 3 << 20];
            let second = contents.len() - length;
            rng.fill(&mut contents[..length]);
            rng.fill(&mut contents[second..]);
            let file = File::create(dir.path().join("f")).unwrap();
            file.write_all_at(&contents[..length], 0).unwrap();
            file.write_all_at(&contents[second..], second as u64).unwrap();
            file.set_len((contents.len() + tail) as u64).unwrap();
            contents.resize(contents.len() + tail, 0);
            let layout = format!("two of {length}, {tail} behind");
            let sparse = Sparse { contents, holes: 0, layout };
            for flags in [
                "-S",
                "-S --format=pax",
                "--hole-detection=raw",
                "--hole-detection=raw --format=pax",
            ] {
                script(
                    dir.path(),
                    &format!("dio tar -cf a {flags} f; mkdir out; tar -C out -xf a"),
                );
                sparse.check(&dir.path().join("out/f"), flags);
                fs::remove_dir_all(dir.path().join("out")).unwrap();
            }
        }
    }
}

/// bindfs does not pass on `lseek(2)`, so a file there has few blocks and no holes. The kernel's
/// own answer moved the descriptor to the end of the file, and before a fix only a hole was
/// archived from there.
#[test]
fn tar_archives_every_byte_where_holes_are_unknown() {
    if !is_root() || !Path::new("/dev/fuse").exists() {
        skip!("mounting needs root and /dev/fuse");
        return;
    }
    let dir = file_systems()[0].dir();
    let (source, at) = (dir.path().join("source"), dir.path().join("at"));
    fs::create_dir(&source).unwrap();
    fs::create_dir(&at).unwrap();
    let mut contents = vec![0; 4 << 20];
    let mut rng = Rng::new(14);
    rng.fill(&mut contents[..100_000]);
    rng.fill(&mut contents[2_000_000..2_000_777]);
    let file = File::create(source.join("f")).unwrap();
    file.write_all_at(&contents[..100_000], 0).unwrap();
    file.write_all_at(&contents[2_000_000..2_000_777], 2_000_000).unwrap();
    file.set_len(contents.len() as u64).unwrap();
    file.sync_all().unwrap();
    let mounted = Command::new("bindfs").args([&source, &at]).status().unwrap();
    assert!(mounted.success());
    let sparse = Sparse { contents, holes: 0, layout: "two extents".to_owned() };
    for flags in ["-S", "-S --format=pax", "--hole-detection=raw", "-S --block=64K"] {
        for limit in ["", "ulimit -n 10; "] {
            script(
                dir.path(),
                &format!("({limit}dio tar -cf a -C at {flags} f); mkdir out; tar -C out -xf a"),
            );
            sparse.check(&dir.path().join("out/f"), &format!("{limit}{flags}"));
            fs::remove_dir_all(dir.path().join("out")).unwrap();
        }
    }
    rustix::mount::unmount(&at, rustix::mount::UnmountFlags::empty()).unwrap();
}

#[test]
fn soak_tar_keeps_extents_and_holes() {
    for seed in Soak::of(8) {
        let rng = &mut seed.rng();
        let (fs, dir, sparse) = scene(rng);
        let ours = rng.pick(&["-S", "-S --hole-detection=seek", "--hole-detection=raw"]);
        let format = rng.pick(&["gnu", "oldgnu", "pax"]);
        let theirs =
            rng.pick(&["gnu", "pax --sparse-version=0.0", "pax --sparse-version=0.1", "pax"]);
        let small = rng.pick(&["", "--block=64K", "--mode=cached", "--depth=1"]);
        let what = format!("{}: {ours} --format={format} {small}; {theirs}, {seed:?}", fs.name);
        // Both archives begin with a file that is not checked, so that the members do not begin at
        // blocks of memory.
        script(
            dir.path(),
            &format!(
                "echo x > before; mkdir a b c
                dio tar -cf ours {small} {ours} --format={format} before f
                tar -cSf theirs --format={theirs} before f
                tar -C a -xf ours; dio tar -C b {small} -xf ours; dio tar -C c -xf theirs
                dio tar -df ours; dio tar -df theirs; tar -df ours
                cat ours | dio tar -xOf - f | cmp - f"
            ),
        );
        for (name, by) in [("b/f", "by dio"), ("c/f", "GNU's archive by dio")] {
            sparse.check_with_holes(&dir.path().join(name), &format!("{by}, {what}"));
        }
        // For a file that grows, xfs allocates space beyond the end, which stays in the holes that
        // GNU tar leaves.
        let by_gnu = format!("extracted by GNU, {what}");
        match fs.name.as_str() {
            "xfs" => sparse.check(&dir.path().join("a/f"), &by_gnu),
            _ => sparse.check_with_holes(&dir.path().join("a/f"), &by_gnu),
        }
    }
}

#[test]
fn soak_copies_keep_extents_and_holes() {
    for seed in Soak::of(8) {
        let rng = &mut seed.rng();
        let (fs, dir, sparse) = scene(rng);
        let what = format!("{}, {seed:?}", fs.name);
        let (at, size) = (
            |name: &str| dir.path().join(name),
            rng.pick(&["512", "1000", "4K", "64K", "1M", "3M"]),
        );
        let reflink = rng.pick(&["auto", "never"]);
        let mode = rng.pick(&["direct", "cached", "uncached"]);
        script(
            dir.path(),
            &format!(
                "for how in auto always never; do
                    dio cp --mode={mode} --sparse=$how --reflink={reflink} f cp-$how
                    dio cp --sparse=$how --reflink=never --block=64K f small-$how
                done
                dio dd if=f of=dd conv=sparse bs={size} status=none
                dio dd if=f of=direct conv=sparse iflag=direct bs=64K status=none
                dio dd if=f of=plain bs={size} status=none; dio cat f > cat; mkdir d; dio cp -a f d/f"
            ),
        );
        for name in ["cp-auto", "cp-always", "small-auto", "small-always", "d/f"] {
            sparse.check_with_holes(
                &at(name),
                &format!("{name} --reflink={reflink} --mode={mode}, {what}"),
            );
        }
        for name in ["cp-never", "small-never", "plain", "cat", "dd", "direct"] {
            sparse.check(&at(name), &format!("{name} bs={size}, {what}"));
        }
    }
}

#[test]
fn soak_striped_files_keep_extents() {
    for seed in Soak::of(4) {
        let rng = &mut seed.rng();
        let (fs, dir, sparse) = scene(rng);
        let stripe = rng.pick(&["4K", "64K", "1M"]);
        let what = format!("{}: stripes of {stripe}, {seed:?}", fs.name);
        script(
            dir.path(),
            &format!(
                "mkdir a b c s t u; for f in s/f u/f; do dio stripe set -S {stripe} -t a,b,c $f 2> note; done
                dio cp f s/f; dio cp s/f back; dio cat s/f > cat
                dio dd if=f of=u/f conv=notrunc,sparse bs=64K status=none
                dio cp u/f dd; dio tar -cSf ours -C s f; dio tar -C t -xf ours; dio stripe check -q s/f"
            ),
        );
        for name in ["back", "cat", "dd", "t/f"] {
            sparse.check(&dir.path().join(name), &format!("{name}, {what}"));
        }
    }
}

#[test]
fn soak_a_mount_keeps_extents() {
    if !is_root() || !Path::new("/dev/fuse").exists() {
        skip!("mounting needs root and /dev/fuse");
        return;
    }
    for seed in Soak::of(2) {
        let rng = &mut seed.rng();
        let systems = file_systems();
        let system = rng.pick(&systems);
        let scratch = system.dir();
        let source = scratch.path();
        let mode = *rng.pick(&MODES);
        let below = Sparse::make(rng, &source.join("below"));
        let mounted = Mounted::new(env!("CARGO_BIN_EXE_dio"), source, mode);
        let what = format!("{}, {mode}, {seed:?}", system.name);
        let at = mounted.path();
        let through = Sparse::make(rng, &at.join("through"));
        // Bytes that are held back are neither holes nor missing. So the script runs before any
        // file is finally closed or synced.
        let text = "for f in below through; do
                dio tar -cSf $f.ours $f; tar -cSf $f.theirs $f
                dio tar --hole-detection=raw -cf $f.raw $f
                for by in ours theirs raw; do mkdir $f.$by.d; tar -C $f.$by.d -xf $f.$by; done
                for how in auto always never; do
                    cp --sparse=$how $f $f.cp-$how; dio cp --sparse=$how $f $f.dio-$how
                done
            done";
        script(at, text);
        for (name, sparse) in [("below", &below), ("through", &through)] {
            for by in [
                "ours.d/",
                "theirs.d/",
                "raw.d/",
                "cp-auto",
                "cp-always",
                "cp-never",
                "dio-auto",
                "dio-always",
            ] {
                let file = if by.ends_with('/') {
                    format!("{name}.{by}{name}")
                } else {
                    format!("{name}.{by}")
                };
                sparse.check(&at.join(&file), &format!("{file} through the mount, {what}"));
            }
        }
        below.check(&at.join("below"), &format!("through the mount, {what}"));
        drop(mounted);
        through.check(&source.join("through"), &format!("below the mount, {what}"));
        through.check(&source.join("through.cp-auto"), &format!("copy below the mount, {what}"));
    }
}
