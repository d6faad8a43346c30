//! Effects: files, mounts and loop devices below the state folder and at kubelet's paths.
//!
//! Everything here blocks and is called from a blocking thread. Each function may be repeated: a
//! driver that died in the middle is asked again by the caller.

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
    /// The system refused.
    #[error("cannot {action} {}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// On which file.
        path: PathBuf,
        /// The system's reason.
        #[source]
        source: io::Error,
    },
    /// A program is missing.
    #[error("cannot run {program}: is it installed?")]
    Missing {
        /// Its name.
        program: String,
        /// The system's reason.
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
        /// What it printed.
        output: String,
    },
    /// A mount option that a bind mount cannot have.
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
