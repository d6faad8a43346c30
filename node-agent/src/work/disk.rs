//! File system calls in kubelet's directory.

use std::fs::{self, DirBuilder, File};
use std::io::{self, Read as _};
use std::os::unix::fs::{DirBuilderExt as _, symlink};
use std::path::{Path, PathBuf};

use sidecar::error::Chain;
use tracing::warn;

pub(super) use super::mounts::{is_mounted, references};
pub(super) use super::ownership::own;
use crate::plan::files::{FileCall, Sequence, is_unfinished};
use crate::plan::layout::{ESCAPED_PLUGIN, Layout, METADATA, parent, pod_uid};
use crate::plan::metadata::Metadata;
use crate::plan::reconstruct::{PodFound, StageFound};

/// Mode of directories: only kubelet's user and group may enter them.
const MODE: u32 = 0o750;

/// Bytes that no valid metadata file exceeds; a larger one comes from elsewhere.
const LONGEST_METADATA: u64 = 1 << 20;

/// Makes the calls of a step, up to the first failure.
pub(super) fn execute(sequence: &Sequence) -> io::Result<()> {
    let result = sequence.calls.iter().try_for_each(execute_one);
    if let (Err(_), Some(undo)) = (&result, &sequence.undo) {
        // A remaining temporary file is removed together with its folder.
        let _ = execute_one(undo);
    }
    result
}

fn execute_one(call: &FileCall) -> io::Result<()> {
    let (path, result) = match call {
        FileCall::MakeDirectory(path) => (path, make_directory(path)),
        FileCall::Fill(path, text) => (path, fs::write(path, text)),
        FileCall::Link { link, target } => (link, symlink(target, link)),
        FileCall::Rename(from, to) => (to, fs::rename(from, to)),
        FileCall::Remove(path) => (path, remove(path)),
    };
    result.map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))
}

/// Creates a directory and its parents, without a look at an existing one.
fn make_directory(path: &Path) -> io::Result<()> {
    let make = || match DirBuilder::new().mode(MODE).create(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        result => result,
    };
    match make() {
        Err(error) if error.kind() == io::ErrorKind::NotFound && path != parent(path) => {
            make_directory(parent(path))?;
            make()
        }
        result => result,
    }
}

/// Reads a metadata file; `None` if it does not exist.
pub(super) fn read(path: &Path) -> io::Result<Option<Metadata>> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if is_absent(&error) => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut text = String::new();
    file.take(LONGEST_METADATA).read_to_string(&mut text)?;
    let metadata = Metadata::read(&text);
    metadata.map(Some).map_err(io::Error::other)
}

/// Removes a file or an empty directory, without a look at what may be mounted on it.
fn remove(path: &Path) -> io::Result<()> {
    let removed = match fs::remove_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => fs::remove_file(path),
        result => result,
    };
    match removed {
        Err(error) if !is_absent(&error) => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Removes empty directories and unfinished files.
pub(super) fn tidy(paths: &[PathBuf]) {
    for path in paths {
        // Others still use it, or it does not exist.
        let _ = if is_unfinished(path) {
            fs::remove_file(path)
        } else {
            fs::remove_dir(path)
        };
    }
}

fn is_absent(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    )
}

/// The volumes on disk, as earlier processes left them.
pub fn scan(layout: &Layout) -> (Vec<PodFound>, Vec<StageFound>) {
    let mut pods = Vec::new();
    for pod in names(&layout.pods()) {
        let directory = layout.pods().join(&pod);
        let volumes = directory.join("volumes").join(ESCAPED_PLUGIN);
        for name in names(&volumes) {
            let metadata = found(&volumes.join(&name).join(METADATA));
            let (pod, block) = (pod.clone(), false);
            pods.push(PodFound {
                pod,
                name,
                block,
                metadata,
            });
        }
        for name in names(&directory.join("volumeDevices").join(ESCAPED_PLUGIN)) {
            let file = layout.devices().join(&name).join("data").join(METADATA);
            let (pod, block, metadata) = (pod.clone(), true, found(&file));
            pods.push(PodFound {
                pod,
                name,
                block,
                metadata,
            });
        }
    }
    (pods, stages(layout))
}

fn stages(layout: &Layout) -> Vec<StageFound> {
    let mut stages = Vec::new();
    let stage = |file: PathBuf, block| StageFound {
        metadata: found(&file),
        file,
        block,
    };
    for driver in names(&layout.plugins()) {
        let directory = layout.plugins().join(&driver);
        for name in names(&directory) {
            if directory == layout.devices() {
                let data = directory.join(&name).join("data");
                if data.is_dir() {
                    stages.push(stage(data.join(METADATA), true));
                }
            } else {
                stages.push(stage(directory.join(&name).join(METADATA), false));
            }
        }
    }
    stages
}

fn found(file: &Path) -> Option<Metadata> {
    read(file).unwrap_or_else(|error| {
        let (file, error) = (file.display(), Chain(&error));
        warn!(%file, %error, "Skipping the remains of a volume");
        None
    })
}

/// Names in a directory, sorted. Names that are not UTF-8 are not the agent's.
fn names(directory: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(directory) else {
        return Vec::new();
    };
    let entries = entries.filter_map(Result::ok);
    let mut names: Vec<String> = entries
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect();
    names.sort_unstable();
    names
}

/// Removes the empty directories of a pod.
pub(super) fn tidy_pod(layout: &Layout, uid: &str) {
    let Ok(part) = pod_uid(uid) else {
        return;
    };
    let pod = layout.pods().join(part);
    let volumes = names(&pod.join("volumes").join(ESCAPED_PLUGIN));
    let links = names(&pod.join("volumeDevices").join(ESCAPED_PLUGIN));
    tidy(&layout.pod_leftovers(uid, &volumes, &links));
}

/// UIDs of pods with a directory.
pub(super) fn pods(layout: &Layout) -> Vec<String> {
    names(&layout.pods())
}
