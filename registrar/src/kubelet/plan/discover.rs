//! The action for an event of the registry directory, or for a file found while walking it.
//!
//! The differences between events and the walk (hidden names, directories behind symbolic links) are kubelet's.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

/// Kind of a path; the caller decides whether symbolic links are followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// A directory.
    Directory,
    /// A unix socket.
    Socket,
    /// A regular file, pipe, device, link.
    Other,
    /// The kind cannot be read: the file is gone, a dangling link, or not permitted.
    Missing,
}

/// Action for a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Do nothing.
    Ignore,
    /// Watch this directory.
    Watch,
    /// Watch this directory and walk through it.
    Walk,
    /// A registration socket: record it as a new incarnation.
    Desire,
}

/// The action for a name that appeared in a watched directory, created or moved in. `own` is the kind of the path
/// itself, `target` with links followed. In a directory behind a link only later events are seen.
#[must_use]
pub fn decide_appeared(name: &OsStr, own: FileKind, target: FileKind) -> Action {
    if name.as_bytes().starts_with(b".") {
        return Action::Ignore;
    }
    match (own, target) {
        (FileKind::Directory, _) => Action::Walk,
        (_, FileKind::Directory) => Action::Watch,
        (_, FileKind::Socket) => Action::Desire,
        (_, FileKind::Other | FileKind::Missing) => Action::Ignore,
    }
}

/// The action for a path found in a walk. `own` is the kind of the path itself, `target` with links followed.
///
/// Hidden names are not filtered here (kubelet does not either), and a link to a directory is not followed, so that a
/// walk cannot run in circles.
#[must_use]
pub fn decide_walked(own: FileKind, target: FileKind) -> Action {
    match (own, target) {
        (FileKind::Directory, _) => Action::Watch,
        (_, FileKind::Socket) => Action::Desire,
        (FileKind::Socket | FileKind::Other | FileKind::Missing, _) => Action::Ignore,
    }
}
