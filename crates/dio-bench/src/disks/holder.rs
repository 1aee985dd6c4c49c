//! A child process that keeps a list of the limits in force, and lifts them if this process ends
//! without doing so itself, by SIGKILL or a second Ctrl-C.

use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use parking_lot::Mutex;

use super::groups::LimitGroup;
use crate::BenchError;

/// Reads `hold` and `free` lines. At the end of its input it lifts the limits that are still held
/// and removes the group. Its arguments: the text that lifts a limit, the group or nothing, the
/// files of limits.
const SCRIPT: &str = r#"
trap '' HUP INT TERM
off=$0 group=$1 held=
shift
while read -r word number; do
    rest=
    for one in $held; do [ "$one" = "$number" ] || rest="$rest $one"; done
    [ "$word" = free ] || rest="$rest $number"
    held=$rest
done
for number in $held; do
    for file in "$@"; do
        echo "$number $off" > "$file" || echo "dio: not lifted: the limit of the device $number in '$file'" >&2
    done
done
tries=50
while [ -n "$group" ] && [ -d "$group" ] && ! rmdir "$group" 2>/dev/null; do
    tries=$((tries - 1))
    [ $tries -gt 0 ] || { echo "dio: not removed: the control group '$group'" >&2; exit 1; }
    sleep 0.1
done
"#;

/// The child process. It ends when this is dropped or when the process ends.
#[derive(Debug)]
pub(super) struct Holder(Mutex<Child>);

impl Holder {
    /// Starts the child. Keys of the terminal do not reach it, nor does a limit.
    pub(super) fn start(place: &LimitGroup) -> Result<Holder, BenchError> {
        let mut command = Command::new("sh");
        command
            .args(["-c", SCRIPT, &place.words(None)])
            .arg(place.own().unwrap_or(Path::new("")))
            .args(place.files());
        command.current_dir("/").stdin(Stdio::piped()).stdout(Stdio::null()).process_group(0);
        Ok(Holder(Mutex::new(
            command.spawn().map_err(BenchError::system("start", Path::new("sh")))?,
        )))
    }

    /// Adds a device, given as `MAJOR:MINOR`, to the list of devices whose limits the child lifts.
    pub(super) fn hold(&self, number: &str) -> Result<(), BenchError> {
        self.say("hold", number)
            .map_err(BenchError::system("tell", Path::new("the holder of limits")))
    }

    /// Removes a device from that list: its limits are lifted, and another program may use it.
    pub(super) fn free(&self, number: &str) -> std::io::Result<()> {
        self.say("free", number)
    }

    fn say(&self, word: &str, number: &str) -> std::io::Result<()> {
        let mut child = self.0.lock();
        // A single write of this length to a pipe is atomic.
        let line = format!("{word} {number}\n");
        child.stdin.as_mut().map_or(Ok(()), |input| input.write_all(line.as_bytes()))
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        let child = self.0.get_mut();
        drop(child.stdin.take());
        let _ = child.wait();
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::super::groups::tests::second;
    use super::*;

    #[test]
    fn what_is_held_at_the_end_is_lifted_and_nothing_else() {
        let (root, mounts) = second("io memory");
        let place = LimitGroup::find(&mounts, "0::/\n", "group").unwrap();
        let (group, file) = (place.group.clone(), place.files()[0].clone());
        std::fs::create_dir(&group).unwrap();
        std::fs::write(&file, "").unwrap();
        let holder = Holder::start(&place).unwrap();
        for number in ["7:1", "7:11", "7:12"] {
            holder.hold(number).unwrap();
        }
        holder.free("7:1").unwrap();
        holder.free("7:12").unwrap();
        // The files in a real control group do not prevent its removal. This regular file does,
        // until the content has been read below.
        let tidy = std::thread::spawn(move || {
            let begin = Instant::now();
            let mut said = String::new();
            while said.is_empty() {
                assert!(begin.elapsed().as_secs() < 20, "nothing is lifted");
                std::thread::sleep(Duration::from_millis(10));
                said = std::fs::read_to_string(&file).unwrap();
            }
            std::fs::remove_file(&file).unwrap();
            said
        });
        drop(holder);
        assert_eq!(tidy.join().unwrap(), "7:11 rbps=max wbps=max\n");
        assert!(!group.exists() && root.path().exists());
    }
}
