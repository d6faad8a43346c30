//! Staging and target paths.
//!
//! CSI: the caller creates the staging path, the driver creates and removes the target path; a
//! block volume's target is a file onto which the device node is bound.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use super::storage::Storage;
use super::{Error, mount, wrap};
use crate::model::volume::{Backing, Kind, Volume};

/// Stages and publishes volumes.
#[derive(Debug, Clone)]
pub struct Targets {
    /// The data.
    pub storage: Storage,
    /// Whether to really mount; otherwise only paths are created and removed, which is all that a
    /// kubelet with fake mounts checks.
    pub mounts: bool,
}

impl Targets {
    /// Makes the volume available at the staging path.
    pub fn stage(&self, volume: &Volume, staging: &Path, options: &[String]) -> Result<(), Error> {
        fs::create_dir_all(staging).map_err(wrap("create", staging))?;
        let flags = mount::flags(options, false)?;
        if !self.mounts || mount::is_mount_point(staging)? {
            return Ok(());
        }
        let data = self.storage.of_volume(volume);
        match (volume.kind, volume.backing) {
            // The device appears only at the target path.
            (Kind::Block, _) => self.storage.attach(volume).map(drop),
            (Kind::Mount, Backing::Directory) => mount::bind(&data, staging, flags),
            (Kind::Mount, Backing::Image) => {
                let fs_type = self.storage.format(volume)?;
                let device = self.storage.attach(volume)?;
                mount::device(&device, staging, &fs_type, flags)?;
                // A clone may be larger than the copied file system.
                if volume.source.is_some() {
                    self.storage.grow_shown(volume)
                } else {
                    Ok(())
                }
            }
        }
    }

    /// Undoes [`Self::stage`].
    pub fn unstage(&self, staging: &Path) -> Result<(), Error> {
        if self.mounts {
            mount::undo(staging)
        } else {
            Ok(())
        }
    }

    /// Detaches the loop device if `unused` returns true while no other process can attach it.
    pub fn release(&self, volume: &Volume, unused: impl FnOnce() -> bool) -> Result<(), Error> {
        if !self.mounts || volume.backing == Backing::Directory {
            return Ok(());
        }
        self.storage.detach(volume, unused)
    }

    /// Updates device and file system to the volume's size.
    pub fn grow(&self, volume: &Volume) -> Result<(), Error> {
        if self.mounts {
            self.storage.grow_shown(volume)
        } else {
            Ok(())
        }
    }

    /// Makes the volume available at the target path.
    pub fn publish(&self, volume: &Volume, request: &Publish<'_>) -> Result<(), Error> {
        let target = request.target;
        let flags = mount::flags(request.options, request.readonly)?;
        match volume.kind {
            Kind::Mount => make_folder(target)?,
            Kind::Block => make_file(target)?,
        }
        if !self.mounts || mount::is_mount_point(target)? {
            return Ok(());
        }
        let data = self.storage.of_volume(volume);
        match (volume.kind, volume.backing, request.staging) {
            (Kind::Block, _, _) => mount::bind(&self.storage.attach(volume)?, target, flags),
            (Kind::Mount, _, Some(staging)) => mount::bind(staging, target, flags),
            (Kind::Mount, Backing::Directory, None) => mount::bind(&data, target, flags),
            (Kind::Mount, Backing::Image, None) => {
                let fs_type = self.storage.format(volume)?;
                let device = self.storage.attach(volume)?;
                mount::device(&device, target, &fs_type, flags)
            }
        }
    }

    /// Undoes [`Self::publish`] and removes the target path.
    pub fn unpublish(&self, target: &Path) -> Result<(), Error> {
        if self.mounts {
            mount::undo(target)?;
        }
        // Never recursive: files in an unmounted target are user data.
        let removed = match fs::symlink_metadata(target) {
            Ok(meta) if meta.is_dir() => fs::remove_dir(target),
            Ok(_) => fs::remove_file(target),
            Err(error) => Err(error),
        };
        match removed {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(wrap("remove", target)(error))
            }
            _ => Ok(()),
        }
    }
}

/// The options of a publish.
#[derive(Debug)]
pub struct Publish<'a> {
    /// Target path.
    pub target: &'a Path,
    /// Staging path, if the volume is staged.
    pub staging: Option<&'a Path>,
    /// Read-only.
    pub readonly: bool,
    /// Mount options of the capability.
    pub options: &'a [String],
}

fn make_folder(target: &Path) -> Result<(), Error> {
    let made = DirBuilder::new().recursive(true).mode(0o750).create(target);
    made.map_err(wrap("create", target))
}

fn make_file(target: &Path) -> Result<(), Error> {
    let parent = target.parent().map(PathBuf::from).unwrap_or_default();
    make_folder(&parent)?;
    let mut options = OpenOptions::new();
    let made = options
        .create(true)
        .truncate(false)
        .write(true)
        .open(target);
    made.map(drop).map_err(wrap("create", target))
}
