//! The measured programs: ours, and the other one.

use std::path::PathBuf;

use anyhow::Result;
use e2e::program;

/// A controller of this repository.
#[derive(Debug)]
pub(crate) struct Controller {
    /// Name of the program.
    pub(crate) program: &'static str,
    /// Environment variable with the path of the other program.
    pub(crate) other_by: &'static str,
    /// Additional flags of this program.
    pub(crate) flags: &'static [&'static str],
}

/// A program to measure.
#[derive(Debug)]
pub(crate) struct Contender {
    /// `ours` or `other`; also the name of its service account.
    pub(crate) name: &'static str,
    pub(crate) path: PathBuf,
    /// Additional flags of this program.
    pub(crate) flags: &'static [&'static str],
}

impl Controller {
    /// Our program, and the other one if the environment names it.
    pub(crate) fn contenders(&self) -> Result<Vec<Contender>> {
        let path = program::find(self.program, "", "build")?;
        let mut all = vec![Contender {
            name: "ours",
            path,
            flags: self.flags,
        }];
        if std::env::var_os(self.other_by).is_some_and(|path| !path.is_empty()) {
            let path = program::find(self.program, self.other_by, "build")?;
            all.push(Contender {
                name: "other",
                path,
                flags: self.flags,
            });
        }
        Ok(all)
    }
}
