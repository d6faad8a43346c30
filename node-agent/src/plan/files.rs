//! What a step does to the disk, one call after the other.
//!
//! Between two calls the process may be killed, and any of them may fail: for want of space, say.
//! What is left then must mean the same as before or after the whole step, so a file or a link
//! appears by a rename only, and what an attempt leaves beside its place means nothing and is
//! removed with it.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::layout::parent;
use super::metadata::Metadata;

/// One call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileCall {
    /// A directory and those above it. One that is there is not looked at: what is mounted on it
    /// may belong to a storage system that is gone, and a look would last for ever.
    MakeDirectory(PathBuf),
    /// A file with this text. Of a call that fails any part may be there.
    Fill(PathBuf, String),
    /// A symbolic link where nothing is.
    Link {
        /// Where.
        link: PathBuf,
        /// To what.
        target: PathBuf,
    },
    /// Another name, in place of what has that name.
    Rename(PathBuf, PathBuf),
    /// A file, a link or an empty directory; nothing there is fine.
    Remove(PathBuf),
}

/// The calls of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sequence {
    /// In this order, up to the first that fails.
    pub calls: Vec<FileCall>,
    /// Done after a failure, whatever becomes of it.
    pub undo: Option<FileCall>,
}

/// Where a metadata file is written before it takes its place.
#[must_use]
pub fn unfinished(metadata: &Path) -> PathBuf {
    metadata.with_file_name(UNFINISHED_METADATA)
}

/// Where a pod's link is made before it takes its place: a name that no volume has.
#[must_use]
pub fn unfinished_link(link: &Path) -> PathBuf {
    let mut name = OsString::from(UNFINISHED_LINK);
    name.push(link.file_name().unwrap_or_default());
    link.with_file_name(name)
}

/// Whether this is such a place.
#[must_use]
pub fn is_unfinished(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().as_encoded_bytes();
    name.starts_with(UNFINISHED_LINK.as_bytes()) || name == UNFINISHED_METADATA.as_bytes()
}

const UNFINISHED_METADATA: &str = "vol_data.json.new";
/// How the names of unfinished links begin.
pub const UNFINISHED_LINK: &str = ".";

/// Makes a directory and those above it.
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

/// Makes a symbolic link, in place of an older one.
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
