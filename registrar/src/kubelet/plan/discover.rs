//! What an event of the registry directory, or a file met while walking it, means.
//!
//! The differences between events and the walk (hidden names, directories behind symbolic links)
//! are kubelet's.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

/// What a path is; the caller says whether symbolic links were followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// A directory.
    Directory,
    /// A unix socket.
    Socket,
    /// A regular file, pipe, device, link.
    Other,
    /// It cannot be looked at: gone, a link that leads nowhere, no permission.
    Missing,
}

/// What to do about a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Nothing.
    Ignore,
    /// Watch this directory.
    Watch,
    /// Watch this directory and look at everything in it.
    Walk,
    /// A registration socket: record it as a new incarnation.
    Desire,
}

/// A name appeared in a watched directory, created or moved in. `own` is the kind of the path
/// itself, `target` with links followed. Of a directory behind a link only what happens from now on
/// is seen.
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

/// A path met in a walk. `own` is the kind of the path itself, `target` with links followed.
///
/// Hidden names are not filtered here (kubelet does not either), and a link to a directory is not
/// followed, so a walk cannot run in circles.
#[must_use]
pub fn decide_walked(own: FileKind, target: FileKind) -> Action {
    match (own, target) {
        (FileKind::Directory, _) => Action::Watch,
        (_, FileKind::Socket) => Action::Desire,
        (FileKind::Socket | FileKind::Other | FileKind::Missing, _) => Action::Ignore,
    }
}
