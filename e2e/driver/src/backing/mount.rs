//! Mounting and unmounting.

use std::fs;
use std::path::Path;

use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags, mount, mount_bind, mount_remount, unmount};

use super::mount_table::{self, Mount};
use super::{Error, wrap};

const TABLE: &str = "/proc/self/mountinfo";

/// The mounts of this process's mount namespace.
pub fn table() -> Result<Vec<Mount>, Error> {
    let text = fs::read_to_string(TABLE).map_err(wrap("read", Path::new(TABLE)))?;
    Ok(mount_table::parse(&text))
}

/// Whether something is mounted at exactly this path.
pub fn is_mount_point(path: &Path) -> Result<bool, Error> {
    Ok(table()?.iter().any(|mount| mount.point == path))
}

/// The flags of a bind mount with these mount options.
pub fn flags(options: &[String], readonly: bool) -> Result<MountFlags, Error> {
    let mut flags = MountFlags::empty();
    if readonly {
        flags |= MountFlags::RDONLY;
    }
    for option in options.iter().flat_map(|options| options.split(',')) {
        flags |= match option {
            "" | "rw" | "bind" | "defaults" => MountFlags::empty(),
            "ro" => MountFlags::RDONLY,
            "nosuid" => MountFlags::NOSUID,
            "nodev" => MountFlags::NODEV,
            "noexec" => MountFlags::NOEXEC,
            "noatime" => MountFlags::NOATIME,
            "nodiratime" => MountFlags::NODIRATIME,
            "relatime" => MountFlags::RELATIME,
            other => return Err(Error::Option(other.to_owned())),
        };
    }
    Ok(flags)
}

/// Bind-mounts with these flags; flags take a second call, as in mount(8).
pub fn bind(source: &Path, target: &Path, flags: MountFlags) -> Result<(), Error> {
    mount_bind(source, target).map_err(wrap("bind-mount on", target))?;
    if flags.is_empty() {
        return Ok(());
    }
    let remounted = mount_remount(target, MountFlags::BIND | flags, "");
    remounted.map_err(wrap("set mount options of", target))
}

/// Mounts a device.
pub fn device(source: &Path, target: &Path, fs_type: &str, flags: MountFlags) -> Result<(), Error> {
    mount(source, target, fs_type, flags, None).map_err(wrap("mount on", target))
}

/// Flags of a mount from the kernel's table; those that cannot be set again are omitted.
pub fn known_flags(options: &[String]) -> MountFlags {
    let known = |option: &String| flags(std::slice::from_ref(option), false).ok();
    options.iter().filter_map(known).collect()
}

/// Unmounts the topmost mount at the path.
pub fn once(target: &Path) -> Result<(), Error> {
    unmount(target, UnmountFlags::NOFOLLOW).map_err(wrap("unmount", target))
}

/// Unmounts all mounts at exactly this path.
pub fn undo(target: &Path) -> Result<(), Error> {
    loop {
        match unmount(target, UnmountFlags::NOFOLLOW) {
            Ok(()) => {}
            // EINVAL: the path is not a mount point.
            Err(Errno::INVAL | Errno::NOENT) => return Ok(()),
            Err(error) => return Err(wrap("unmount", target)(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_of_bind_mounts_are_known_others_refused() {
        let list = |text: &[&str]| {
            text.iter()
                .map(|s| (*s).to_owned())
                .collect::<Vec<String>>()
        };
        assert_eq!(flags(&[], false).unwrap(), MountFlags::empty());
        assert_eq!(flags(&[], true).unwrap(), MountFlags::RDONLY);
        let both = flags(&list(&["rw,noatime", "nodev"]), false).unwrap();
        assert_eq!(both, MountFlags::NOATIME | MountFlags::NODEV);
        let error = flags(&list(&["vers=4"]), false).unwrap_err();
        assert_eq!(
            error.to_string(),
            "mount option \"vers=4\" is not supported"
        );
    }
}
