//! Limits block devices to the speed of a disk: a number of bytes per second in each direction, by
//! control groups.
//!
//! While there are limits, this process is in the group that has them, so all its accesses to the
//! device share the same limit.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use parking_lot::Mutex;

use super::groups::LimitGroup;
use super::holder::Holder;
use crate::BenchError;
use crate::undo::Undo;

/// The control group with the limits. This process is in it until this is dropped; it leaves the
/// group before the holder ends.
#[derive(Debug)]
pub(super) struct Controller {
    _home: Option<Undo>,
    limits: Arc<Limits>,
}

/// The group that limits are written to, and the child that lifts them if this process cannot.
#[derive(Debug)]
struct Limits {
    place: LimitGroup,
    holder: Holder,
}

impl Controller {
    /// Finds the controller and enters the group.
    ///
    /// # Errors
    /// When there is no controller, or when this process has no right to change groups.
    pub(super) fn enter() -> Result<Controller, BenchError> {
        let read = |path: &str| {
            fs::read_to_string(path).map_err(BenchError::system("read", Path::new(path)))
        };
        let name = format!("dio-bench-disks-{}", std::process::id());
        Controller::in_place(LimitGroup::find(
            &read("/proc/self/mounts")?,
            &read("/proc/self/cgroup")?,
            &name,
        )?)
    }

    fn in_place(place: LimitGroup) -> Result<Controller, BenchError> {
        // The holder is started before this process enters the group, so that the holder stays
        // outside it.
        let holder = Holder::start(&place)?;
        place.make()?;
        let home = place.is_elsewhere().then(|| {
            let place = place.clone();
            Undo::calling(move |_| place.leave())
        });
        let files = place.files();
        if let Some(missing) = files.iter().find(|file| place.own().is_some() && !file.exists()) {
            let text =
                format!("the kernel has no '{}' (CONFIG_BLK_DEV_THROTTLING)", missing.display());
            return Err(BenchError::Asked(format!("devices cannot be slowed down: {text}")));
        }
        if place.is_elsewhere() {
            LimitGroup::join(&place.group)
                .map_err(BenchError::system("enter the control group", &place.group))?;
        }
        Ok(Controller { _home: home, limits: Arc::new(Limits { place, holder }) })
    }

    /// The controller's name.
    pub(super) fn name(&self) -> &'static str {
        self.limits.place.controller()
    }

    /// Creates a rule for a device, not in force yet. `number` is its `MAJOR:MINOR`.
    ///
    /// # Errors
    /// When the group accepts no limits for this device.
    pub(super) fn rule(&self, number: &str, rate: u64) -> Result<Rule, BenchError> {
        self.limits.holder.hold(number)?;
        // A killed process may have left limits of its own there.
        self.limits.write(number, None)?;
        let limit = Arc::new(Limit {
            limits: self.limits.clone(),
            number: number.to_owned(),
            rate,
            over: Mutex::default(),
        });
        let lifted = Arc::clone(&limit);
        Ok(Rule { limit, _undo: Undo::calling_ahead(move |_| lifted.lift()) })
    }
}

impl Limits {
    /// Writes the limits of a device to all files, even if one of them fails.
    fn write(&self, number: &str, rate: Option<u64>) -> Result<(), BenchError> {
        let line = format!("{number} {}", self.place.words(rate));
        let write = |file: &std::path::PathBuf| {
            fs::write(file, &line).map_err(BenchError::system("write", file))
        };
        let outcomes: Vec<_> = self.place.files().iter().map(write).collect();
        outcomes.into_iter().collect()
    }
}

/// The limit of one device; lifted when dropped.
#[derive(Debug)]
pub(super) struct Rule {
    limit: Arc<Limit>,
    _undo: Undo,
}

impl Rule {
    /// Puts the rule in force, or lifts it.
    ///
    /// # Errors
    /// When the group does not accept it, or when the limit was lifted for good by a signal that
    /// ends the process.
    pub(super) fn set(&self, on: bool) -> Result<(), BenchError> {
        self.limit.set(on)
    }
}

#[derive(Debug)]
struct Limit {
    limits: Arc<Limits>,
    number: String,
    rate: u64,
    /// Set when the limit was lifted for good. The lock is held while the limit is written, so that
    /// no thread puts the limit in force again after another thread lifted it.
    over: Mutex<bool>,
}

impl Limit {
    fn set(&self, on: bool) -> Result<(), BenchError> {
        let over = self.over.lock();
        if *over {
            let text = format!("the limit of the device {} was lifted for good", self.number);
            return if on { Err(BenchError::Asked(text)) } else { Ok(()) };
        }
        self.limits.write(&self.number, on.then_some(self.rate))
    }

    /// Lifts the limit for good, and takes the device off the holder's list, since another program
    /// may use it.
    fn lift(&self) -> Result<(), String> {
        let mut over = self.over.lock();
        *over = true;
        self.limits.write(&self.number, None).map_err(|error| error.to_string())?;
        // A holder that has ended has lifted the limit as well.
        let _ = self.limits.holder.free(&self.number);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::groups::Version;
    use super::super::groups::tests::second;
    use super::*;

    /// A directory that looks like a group of version 1.
    fn controller() -> (tempfile::TempDir, Controller, [std::path::PathBuf; 2]) {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().to_owned();
        let files =
            ["read", "write"].map(|way| root.join(format!("blkio.throttle.{way}_bps_device")));
        let place =
            LimitGroup { version: Version::First, home: root.clone(), group: root.clone(), root };
        let controller = Controller::in_place(place).unwrap();
        (directory, controller, files)
    }

    fn said(files: &[std::path::PathBuf; 2]) -> [String; 2] {
        files.each_ref().map(|file| fs::read_to_string(file).unwrap())
    }

    #[test]
    fn a_rule_begins_lifted_and_ends_lifted() {
        let (_directory, controller, files) = controller();
        let rule = controller.rule("7:3", 1000).unwrap();
        assert_eq!(said(&files), ["7:3 0", "7:3 0"]);
        rule.set(true).unwrap();
        assert_eq!(said(&files), ["7:3 1000", "7:3 1000"]);
        drop(rule);
        assert_eq!(said(&files), ["7:3 0", "7:3 0"]);
        // The limit is not written again, since the device may belong to another program by now.
        files.iter().for_each(|file| fs::write(file, "").unwrap());
        drop(controller);
        assert_eq!(said(&files), ["", ""]);
    }

    #[test]
    fn what_was_lifted_for_good_is_not_put_in_force() {
        let (_directory, controller, files) = controller();
        let rule = controller.rule("7:3", 1000).unwrap();
        rule.set(true).unwrap();
        // A signal lifts the limit while the measuring thread goes on.
        rule.limit.lift().unwrap();
        let error = rule.set(true).unwrap_err().to_string();
        assert!(error.contains("7:3 was lifted for good"), "{error}");
        rule.set(false).unwrap();
        assert_eq!(said(&files), ["7:3 0", "7:3 0"]);
    }

    #[test]
    fn a_kernel_without_limits_is_told_and_the_group_is_removed() {
        let (_root, mounts) = second("io memory");
        let place = LimitGroup::find(&mounts, "0::/\n", "group").unwrap();
        let group = place.group.clone();
        let error = Controller::in_place(place).unwrap_err().to_string();
        assert!(error.contains("CONFIG_BLK_DEV_THROTTLING"), "{error}");
        assert!(!group.exists());
    }

    #[test]
    fn a_limit_that_cannot_be_lifted_is_told_and_the_others_are_lifted() {
        let (_directory, controller, files) = controller();
        let rule = controller.rule("7:3", 1000).unwrap();
        rule.set(true).unwrap();
        fs::remove_file(&files[0]).unwrap();
        fs::create_dir(&files[0]).unwrap();
        let error = rule.limit.lift().unwrap_err();
        assert!(error.contains("read_bps_device"), "{error}");
        assert_eq!(fs::read_to_string(&files[1]).unwrap(), "7:3 0");
        fs::remove_dir(&files[0]).unwrap();
        drop(rule);
        assert_eq!(said(&files), ["7:3 0", "7:3 0"]);
    }
}
