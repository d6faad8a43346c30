//! The file system calls of each step, in order.
//!
//! The process may be killed between two calls, and any call may fail, for lack of space for
//! example. The directory must then mean the same as before or after the whole step: so files and
//! links appear only by a rename, and unfinished ones beside them mean nothing and are removed with
//! the rest.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::layout::parent;
use super::metadata::Metadata;

/// One file system call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileCall {
    /// Creates a directory and its parents. It never looks at an existing one: a dead storage
    /// system may be mounted on it, and a look would hang for ever.
    MakeDirectory(PathBuf),
    /// Creates a file with this text. If it fails, any part of the text may be there.
    Fill(PathBuf, String),
    /// Creates a symbolic link; nothing may exist at its path.
    Link {
        /// Path of the link.
        link: PathBuf,
        /// Its target.
        target: PathBuf,
    },
    /// Renames the first path to the second, which it replaces.
    Rename(PathBuf, PathBuf),
    /// Removes a file, a link or an empty directory; succeeds if nothing is there.
    Remove(PathBuf),
}

/// The calls of one step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sequence {
    /// Run in this order, up to the first failure.
    pub calls: Vec<FileCall>,
    /// Run after a failure; its own result does not matter.
    pub undo: Option<FileCall>,
}

/// Temporary path of a metadata file before its rename.
#[must_use]
pub fn unfinished(metadata: &Path) -> PathBuf {
    metadata.with_file_name(UNFINISHED_METADATA)
}

/// Temporary path of a pod's link before its rename: a name that no volume has.
#[must_use]
pub fn unfinished_link(link: &Path) -> PathBuf {
    let mut name = OsString::from(UNFINISHED_LINK);
    name.push(link.file_name().unwrap_or_default());
    link.with_file_name(name)
}

/// Whether this is one of the temporary paths.
#[must_use]
pub fn is_unfinished(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().as_encoded_bytes();
    name.starts_with(UNFINISHED_LINK.as_bytes()) || name == UNFINISHED_METADATA.as_bytes()
}

const UNFINISHED_METADATA: &str = "vol_data.json.new";
/// Prefix of the names of temporary links.
pub const UNFINISHED_LINK: &str = ".";

/// Creates a directory and its parents.
#[must_use]
pub fn make_directory(path: PathBuf) -> Sequence {
    Sequence {
        calls: vec![FileCall::MakeDirectory(path)],
        undo: None,
    }
}

/// Writes a metadata file.
#[must_use]
pub fn write(file: &Path, metadata: &Metadata) -> Sequence {
    let unfinished = unfinished(file);
    Sequence {
        calls: vec![
            FileCall::MakeDirectory(parent(file).to_path_buf()),
            FileCall::Fill(unfinished.clone(), metadata.text()),
            FileCall::Rename(unfinished.clone(), file.to_path_buf()),
        ],
        undo: Some(FileCall::Remove(unfinished)),
    }
}

/// Creates a symbolic link, or replaces an older one.
#[must_use]
pub fn link(link: PathBuf, target: PathBuf) -> Sequence {
    let unfinished = unfinished_link(&link);
    Sequence {
        calls: vec![
            FileCall::MakeDirectory(parent(&link).to_path_buf()),
            FileCall::Remove(unfinished.clone()),
            FileCall::Link {
                link: unfinished.clone(),
                target,
            },
            FileCall::Rename(unfinished.clone(), link),
        ],
        undo: Some(FileCall::Remove(unfinished)),
    }
}

/// Removes files, links and empty directories.
#[must_use]
pub fn remove(paths: Vec<PathBuf>) -> Sequence {
    Sequence {
        calls: paths.into_iter().map(FileCall::Remove).collect(),
        undo: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unfinished_names_stand_beside_the_finished() {
        let file = Path::new("/k/pods/u/volumes/kubernetes.io~csi/pv/vol_data.json");
        assert_eq!(unfinished(file), file.with_file_name("vol_data.json.new"));
        let link = Path::new("/k/pods/u/volumeDevices/kubernetes.io~csi/pv.1");
        assert_eq!(unfinished_link(link), link.with_file_name(".pv.1"));
        for path in [file, link] {
            assert!(!is_unfinished(path), "{path:?}");
        }
        assert!(is_unfinished(&unfinished(file)) && is_unfinished(&unfinished_link(link)));
    }
}
