//! The environment that all comparisons share.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Result;
use crate::data;
use crate::measure;
use crate::options::SuiteOptions;
use crate::tool::{build_dio, find, home, need, tool, version};

/// The directory, the program under test, and the options.
pub(crate) struct Lab {
    pub(crate) options: SuiteOptions,
    pub(crate) dir: PathBuf,
    pub(crate) dio: PathBuf,
}

impl Lab {
    /// Makes the directory and builds dio, unless a built one was named.
    pub(crate) fn prepare(options: &SuiteOptions) -> Result<Lab> {
        if !rustix::process::geteuid().is_root() {
            return Err("run as root: dropping caches, mounts and memory limits need it".into());
        }
        let dio = match &options.dio {
            Some(built) => {
                fs::canonicalize(built).map_err(|e| format!("{}: {e}", built.display()))?
            }
            None => build_dio()?,
        };
        fs::create_dir_all(&options.dir)?;
        if options.dir.to_string_lossy().contains(char::is_whitespace) {
            return Err(
                "the directory's name must not contain white space: it stands in commands".into()
            );
        }
        Ok(Lab { options: options.clone(), dir: fs::canonicalize(&options.dir)?, dio })
    }

    /// The same lab in another directory.
    pub(crate) fn at(&self, dir: &Path) -> Lab {
        Lab { options: self.options.clone(), dir: dir.to_path_buf(), dio: self.dio.clone() }
    }

    /// A command for the shell with `$DIR` and a PATH in which the programs are found, so that
    /// recorded commands run unchanged. Programs built by this crate are found through PATH too.
    pub(crate) fn shell(&self, script: &str) -> Command {
        let mut dirs = vec![self.dio.parent().map_or(PathBuf::new(), Path::to_path_buf)];
        dirs.extend(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()));
        dirs.extend(std::env::var_os("DIO_PEERS").map(PathBuf::from));
        dirs.extend(["target/peers/bin", "scripts"].map(|dir| home().join(dir)));
        let mut shell = tool("sh");
        // A single command replaces the shell. Several commands are children of the shell, whose
        // resource usage includes theirs.
        let exec = if script.contains(['&', '|', ';']) { "" } else { "exec " };
        shell.arg("-c").arg(format!("{exec}{script}")).env("DIR", &self.dir);
        if let Ok(path) = std::env::join_paths(dirs) {
            shell.env("PATH", path);
        }
        shell
    }

    /// Creates the same conditions for each run: nothing dirty, and nothing cached except the
    /// programs themselves, whose loading is not part of the comparison.
    pub(crate) fn cool(&self) -> Result<()> {
        measure::cool()?;
        for name in [
            "sh",
            "sync",
            "cp",
            "dd",
            "nocache",
            "cpz",
            "xcp",
            "fio",
            "cat",
            "cksum",
            "md5sum",
            "sha256sum",
            "openssl",
            "b3sum",
            "tar",
            "uniq",
            "gzip",
            "pigz",
            "zstd",
            "sort",
            "git",
            "find",
        ] {
            if let Some(program) = find(name) {
                data::warm([program])?;
            }
        }
        data::warm([self.dio.clone()])
    }

    /// Names and versions of dio and of those `peers` that are installed.
    pub(crate) fn programs(&self, peers: &[&str]) -> BTreeMap<String, String> {
        let mut found = BTreeMap::from([("dio".to_string(), version(&self.dio))]);
        for name in peers {
            found.extend(find(name).map(|path| (name.to_string(), version(&path))));
        }
        found
    }

    /// Those of `peers` that are installed or could be installed.
    pub(crate) fn available<'a>(&self, peers: &[&'a str]) -> Vec<&'a str> {
        peers.iter().copied().filter(|name| need(name).is_some()).collect()
    }

    /// Makes one run of dio under `perf record`, and prints its most expensive functions.
    pub(crate) fn profile(&self, script: &str) -> Result<()> {
        if !self.options.profile {
            return Ok(());
        }
        crate::tool::must("perf")?;
        let data = self.dir.join("perf.data");
        measure::measure(
            &mut self.shell(&format!("perf record -q -g -o $DIR/perf.data -- {script}")),
        )?;
        let args =
            ["report", "--stdio", "--no-children", "-g", "none", "--percent-limit", "1", "-i"];
        eprintln!("{}", crate::tool::output(tool("perf").args(args).arg(&data))?);
        Ok(fs::remove_file(data)?)
    }
}
