//! Effects: files, mounts and loop devices below the state folder and at kubelet's paths.
//!
//! Everything here blocks and runs on a blocking thread. Every function may run twice: the caller
//! repeats a call that the driver's death has interrupted.

pub mod command;
pub mod file_system;
pub mod grow;
pub mod loop_device;
pub mod mount;
pub mod mount_table;
pub mod storage;
pub mod target;

use std::io;
use std::path::{Path, PathBuf};

use tonic::Code;

use crate::plan::Refusal;

/// Why an effect failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A system call failed.
    #[error("cannot {action} {}", path.display())]
    Io {
        /// The attempted action.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// A program is missing.
    #[error("cannot run {program}: is it installed?")]
    Missing {
        /// Name of the program.
        program: String,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// A program failed.
    #[error("{command} failed ({status}): {output}")]
    Failed {
        /// The command line.
        command: String,
        /// Exit status.
        status: String,
        /// Its output.
        output: String,
    },
    /// A mount option that a bind mount does not support.
    #[error("mount option {0:?} is not supported")]
    Option(String),
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        let code = match error {
            Error::Option(_) => Code::InvalidArgument,
            Error::Io { .. } | Error::Missing { .. } | Error::Failed { .. } => Code::Internal,
        };
        Self::new(code, sidecar::error::Chain(&error).to_string())
    }
}

pub(crate) fn wrap<'a, E: Into<io::Error>>(
    action: &'static str,
    path: &'a Path,
) -> impl FnOnce(E) -> Error + use<'a, E> {
    move |source| Error::Io {
        action,
        path: path.to_owned(),
        source: source.into(),
    }
}
