//! Grows a mounted file system to the new size of its image.
//!
//! ext4 grows while mounted, but the kernel requires CAP_SYS_RESOURCE, which root does not have
//! everywhere (containers, some virtual machines). Without it the driver unmounts the file system,
//! grows it and mounts it again at the same paths; that works only while no file is open, which
//! holds on nodes without containers.

use std::path::Path;

use rustix::thread::{CapabilitySet, capabilities};

use super::command::run;
use super::mount_table::Mount;
use super::{Error, mount};

/// Grows the ext file system on `device` to the size of the device.
pub fn ext(device: &Path) -> Result<(), Error> {
    let source = device.to_string_lossy();
    let table = mount::table()?;
    let mounts: Vec<Mount> = table
        .into_iter()
        .filter(|mount| mount.source == *source)
        .collect();
    if mounts.is_empty() || may_grow_mounted() {
        return if mounts.is_empty() {
            unmounted(device)
        } else {
            resize(device)
        };
    }
    for mounted in mounts.iter().rev() {
        mount::once(&mounted.point)?;
    }
    let grown = unmounted(device);
    remount(device, &mounts)?;
    grown
}

/// Grows the XFS file system on `device` to the size of the device. XFS grows only while mounted,
/// which requires no more privileges than mounting; an unmounted one is left for its next mount.
pub fn xfs(device: &Path) -> Result<(), Error> {
    let source = device.to_string_lossy();
    let table = mount::table()?;
    match table.iter().find(|mount| mount.source == *source) {
        Some(mounted) => run("xfs_growfs", &["-d".as_ref(), mounted.point.as_os_str()]).map(drop),
        None => Ok(()),
    }
}

fn may_grow_mounted() -> bool {
    capabilities(None).is_ok_and(|sets| sets.effective.contains(CapabilitySet::SYS_RESOURCE))
}

fn resize(device: &Path) -> Result<(), Error> {
    run("resize2fs", &[device.as_os_str()]).map(drop)
}

/// resize2fs requires a check of an unmounted file system first.
fn unmounted(device: &Path) -> Result<(), Error> {
    run(
        "e2fsck",
        &["-f".as_ref(), "-p".as_ref(), device.as_os_str()],
    )?;
    resize(device)
}

/// Restores the mounts; paths that show a part of the file system are bind-mounted from the first
/// one, which shows all of it.
fn remount(device: &Path, mounts: &[Mount]) -> Result<(), Error> {
    let mut first: Option<&Path> = None;
    for mounted in mounts {
        let flags = mount::known_flags(&mounted.options);
        match first {
            None => {
                mount::device(device, &mounted.point, &mounted.fs_type, flags)?;
                first = Some(&mounted.point);
            }
            Some(first) => {
                let part = mounted.root.strip_prefix("/").unwrap_or(&mounted.root);
                mount::bind(&first.join(part), &mounted.point, flags)?;
            }
        }
    }
    Ok(())
}
