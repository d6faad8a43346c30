//! Kubelet's directory.

use std::fs::{self, DirBuilder, File};
use std::io::{self, Read as _};
use std::os::unix::fs::{DirBuilderExt as _, symlink};
use std::path::{Path, PathBuf};

use sidecar::error::Chain;
use tracing::warn;

pub(super) use super::mounts::{is_mounted, references};
pub(super) use super::ownership::own;
use crate::agent::plan::layout::{ESCAPED_PLUGIN, Layout, METADATA, Places, parent, pod_uid};
use crate::agent::plan::metadata::Metadata;
use crate::agent::plan::reconstruct::{PodFound, StageFound};

/// Kubelet's directories are its own.
const MODE: u32 = 0o750;

/// No handle is that long; a file that is was written by nobody who belongs here.
const LONGEST_METADATA: u64 = 1 << 20;

/// Makes a directory and those above it.
pub(super) fn make_directory(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(MODE).create(path)
}

/// Writes a metadata file, at once or not at all.
pub(super) fn write(path: &Path, metadata: &Metadata) -> io::Result<()> {
    make_directory(parent(path))?;
    let unfinished = path.with_extension("json.new");
    fs::write(&unfinished, metadata.text())?;
    fs::rename(&unfinished, path)
}

/// Reads a metadata file; `None` if it is not there.
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

/// Makes a symbolic link, in place of an older one.
pub(super) fn link(link: &Path, target: &Path) -> io::Result<()> {
    make_directory(parent(link))?;
    match fs::remove_file(link) {
        Err(error) if !is_absent(&error) => return Err(error),
        Ok(()) | Err(_) => {}
    }
    symlink(target, link)
}

/// Removes files and empty directories, in this order.
pub(super) fn remove(paths: &[PathBuf]) -> io::Result<()> {
    for path in paths {
        let removed = match fs::symlink_metadata(path) {
            Ok(metadata) if metadata.is_dir() => fs::remove_dir(path),
            Ok(_) => fs::remove_file(path),
            Err(error) => Err(error),
        };
        match removed {
            Err(error) if !is_absent(&error) => {
                let path = path.display();
                return Err(io::Error::new(error.kind(), format!("{path}: {error}")));
            }
            Ok(()) | Err(_) => {}
        }
    }
    Ok(())
}

/// Removes empty directories.
pub(super) fn tidy(paths: &[PathBuf]) {
    for path in paths {
        // Used by others, or not there.
        let _ = fs::remove_dir(path);
    }
}

fn is_absent(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    )
}

/// What earlier processes left.
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
        warn!(%file, %error, "Passing over what was left of a volume");
        None
    })
}

/// Names in a directory, sorted; those that are no text are nobody's.
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

/// Removes the directories of a pod as far as they are empty.
pub(super) fn tidy_pod(layout: &Layout, uid: &str) {
    let Ok(uid) = pod_uid(uid) else {
        return;
    };
    let pod = layout.pods().join(uid);
    let volumes = pod.join("volumes").join(ESCAPED_PLUGIN);
    for name in names(&volumes) {
        let folder = volumes.join(name);
        tidy(&[folder.join("mount"), folder]);
    }
    for folder in ["volumes", "volumeDevices"] {
        let folder = pod.join(folder);
        tidy(&[folder.join(ESCAPED_PLUGIN), folder]);
    }
    tidy(&[pod]);
}

/// Removes the directories of a volume that was never staged, as far as they are empty.
pub(super) fn tidy_staged(places: &Places) {
    let folder = parent(&places.stage_metadata);
    tidy(&[places.staging.clone(), folder.to_path_buf()]);
}
