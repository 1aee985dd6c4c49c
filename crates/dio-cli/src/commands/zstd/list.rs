//! `zstd -l`: lists the contents of compressed files, from the headers of the frames.

use std::fmt::Write as _;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use dio::stream::Input;
use rustix::fs::FileType;

use super::ZstdRun;
use super::human::human;
use super::operand::File;
use crate::codec::zstd::frame::{ListError, Summary, list};
use crate::quote::words;
use crate::tool::errno_of;

impl ZstdRun {
    /// Lists all files.
    pub(super) fn list(&mut self, files: &[File]) {
        if files.iter().any(File::is_stdin) || files.is_empty() {
            self.tell(0, &[b"--list does not support reading from standard input"]);
            self.say(0, &[b"No files given \n"]);
            return self.tool.fail();
        }
        let long = self.level() > 2;
        if !long {
            self.print(b"Frames  Skips  Compressed  Uncompressed  Ratio  Check  Filename\n");
        }
        let mut total = Summary { content: Some(0), checksum: true, ..Summary::default() };
        for File { path: name, .. } in files {
            let Some(summary) = self.summary_of(name) else { continue };
            let shown = name.as_os_str().as_bytes();
            match long {
                true => self.print(&[shown, long_form(&summary).as_bytes()].concat()),
                false => {
                    let check = if summary.checksum { "XXH64" } else { "None" };
                    self.print(&[row(&summary, check).as_bytes(), shown, b"\n"].concat());
                }
            }
            total.frames += summary.frames;
            total.skippable += summary.skippable;
            total.compressed += summary.compressed;
            total.content = total.content.zip(summary.content).map(|(sum, size)| sum + size);
            total.checksum &= summary.checksum;
        }
        if files.len() > 1 && !long {
            let (line, check) = ("-".repeat(65), if total.checksum { "XXH64" } else { "" });
            self.print(
                format!("{line} \n{}{} files\n", row(&total, check), files.len()).as_bytes(),
            );
        }
    }

    /// Returns the summary of a file's frames; an error has been reported.
    fn summary_of(&self, name: &Path) -> Option<Summary> {
        let shown = name.as_os_str().as_bytes();
        let fail = |parts: &[&[u8]]| {
            self.tool.fail();
            self.say(1, parts);
            None
        };
        match rustix::fs::stat(name) {
            Err(errno) => {
                return fail(&[
                    b"zstd: can't stat ",
                    shown,
                    b" : ",
                    words(errno).as_bytes(),
                    b" -- ignored \n",
                ]);
            }
            Ok(stat) if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile => {
                return fail(&[b"Error : ", shown, b" is not a file \n"]);
            }
            Ok(_) => {}
        }
        let input = Input::open(name, self.tool.stream_options());
        let mut source = match input {
            Ok(input) => self.tool.source(input),
            Err(error) => {
                return fail(&[
                    b"zstd: ",
                    shown,
                    b": ",
                    words(errno_of(&error)).as_bytes(),
                    b" \n",
                ]);
            }
        };
        match list(&mut source) {
            Ok(summary) => Some(summary),
            Err(ListError::NotInFormat) => {
                fail(&[b"File \"", shown, b"\" not compressed by zstd \n"])
            }
            Err(ListError::Read(error)) => {
                fail(&[b"zstd: ", shown, b": ", words(errno_of(&error)).as_bytes(), b" \n"])
            }
            Err(error @ ListError::Damaged { .. }) => fail(&[
                b"Error while parsing \"",
                shown,
                b"\" : ",
                error.to_string().as_bytes(),
                b" \n",
            ]),
        }
    }
}

fn ratio(summary: &Summary, content: u64) -> f64 {
    if summary.compressed == 0 { 0.0 } else { content as f64 / summary.compressed as f64 }
}

/// Returns a line of the table without the name; `check` is the text for the checksum.
fn row(summary: &Summary, check: &str) -> String {
    let (size, unit) = human(summary.compressed);
    let frames = summary.frames + summary.skippable;
    let mut line = format!("{frames:6}  {:5}  {size:>6}{unit:>4}  ", summary.skippable);
    match summary.content {
        Some(content) => {
            let (size, unit) = human(content);
            let _ = write!(line, "{size:>8}{unit:>4}  {:5.3}", ratio(summary, content));
        }
        None => line.push_str(&" ".repeat(19)),
    }
    let _ = write!(line, "  {check:>5}  ");
    line
}

/// Returns the details of a file, which follow its name.
fn long_form(summary: &Summary) -> String {
    let sized = |bytes| {
        let (size, unit) = human(bytes);
        format!("{size}{unit} ({bytes} B)")
    };
    let mut text = format!(" \n# Zstandard Frames: {}\n", summary.frames);
    if summary.skippable > 0 {
        let _ = writeln!(text, "# Skippable Frames: {}", summary.skippable);
    }
    let _ =
        writeln!(text, "DictID: {}\nWindow Size: {}", summary.dictionary, sized(summary.window));
    let _ = writeln!(text, "Compressed Size: {}", sized(summary.compressed));
    if let Some(content) = summary.content {
        let _ = writeln!(
            text,
            "Decompressed Size: {}\nRatio: {:.4}",
            sized(content),
            ratio(summary, content)
        );
    }
    match (summary.checksum, summary.check) {
        (true, Some(check)) if summary.frames == 1 => {
            let _ = writeln!(text, "Check: XXH64 {check:08x}");
        }
        (true, _) => text.push_str("Check: XXH64\n"),
        (false, _) => text.push_str("Check: None\n"),
    }
    text.push('\n');
    text
}
