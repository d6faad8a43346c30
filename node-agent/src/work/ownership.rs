//! Changes the group of a directory tree.
//!
//! The files belong to a pod, which may change them meanwhile: the walk follows no links, opens every
//! file relative to its directory, and changes only what it has opened. A file that cannot be changed
//! is logged and skipped, as in kubelet: otherwise a file system that refuses one of them for ever
//! would keep the pod from its volume for ever.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Gid, Mode, OFlags, Stat, chownat, fchmod, fchown, fstat, openat,
    statat,
};
use tracing::warn;

/// Mode bits added to files; directories get these and set-group-id.
const FILE: u32 = 0o660;
const DIRECTORY: u32 = 0o2770;

/// Deepest nesting of directories: far beyond any real use, and each level holds a file descriptor
/// during the walk.
const DEEPEST: usize = 200;

/// Changes group and mode of the tree at `path`; skips it if `on_root_mismatch` and the root already
/// has both.
pub(super) fn own(path: &Path, group: u32, on_root_mismatch: bool) -> io::Result<()> {
    let gid = Gid::from_raw(group);
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let root = openat(CWD, path, flags, Mode::empty())?;
    let stat = fstat(&root)?;
    if on_root_mismatch && stat.st_gid == group && stat.st_mode & DIRECTORY == DIRECTORY {
        return Ok(());
    }
    if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
        let mut directory = Dir::new(root)?;
        tree(&mut directory, gid, 0)?;
        // The root comes last: it shows whether the whole tree was finished.
        change(directory.fd()?, &stat, gid, path);
    } else {
        change(root.as_fd(), &stat, gid, path);
    }
    Ok(())
}

fn tree(directory: &mut Dir, gid: Gid, depth: usize) -> io::Result<()> {
    if depth > DEEPEST {
        return Err(io::Error::other("directories are nested too deeply"));
    }
    while let Some(entry) = directory.read() {
        let entry = entry?;
        let name = entry.file_name();
        let shown = Path::new(OsStr::from_bytes(name.to_bytes()));
        let within = directory.fd()?;
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        let stat = match statat(within, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => stat,
            Err(rustix::io::Errno::NOENT) => continue,
            Err(error) => return Err(error.into()),
        };
        let kind = FileType::from_raw_mode(stat.st_mode);
        if !matches!(kind, FileType::Directory | FileType::RegularFile) {
            // Links, sockets and the like: opening one could have effects, and its mode does not
            // matter.
            let flags = AtFlags::SYMLINK_NOFOLLOW;
            let changed = chownat(within, name, None, Some(gid), flags);
            passed_over("owner", changed, shown);
            continue;
        }
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let opened = match openat(within, name, flags, Mode::empty()) {
            Ok(opened) => opened,
            Err(rustix::io::Errno::NOENT) => continue,
            Err(error) => return Err(error.into()),
        };
        let stat = fstat(&opened)?;
        if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
            let mut inner = Dir::new(opened)?;
            tree(&mut inner, gid, depth + 1)?;
            change(inner.fd()?, &stat, gid, shown);
        } else {
            change(opened.as_fd(), &stat, gid, shown);
        }
    }
    Ok(())
}

fn change(file: BorrowedFd<'_>, stat: &Stat, gid: Gid, name: &Path) {
    let is_directory = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
    let bits = if is_directory { DIRECTORY } else { FILE };
    passed_over("owner", fchown(file, None, Some(gid)), name);
    // The mode comes after the group, whose change may clear bits.
    let mode = Mode::from_raw_mode((stat.st_mode & 0o7777) | bits);
    passed_over("mode", fchmod(file, mode), name);
}

fn passed_over(what: &str, changed: rustix::io::Result<()>, name: &Path) {
    if let Err(error) = changed {
        let name = name.display();
        warn!(%name, what, %error, "Cannot give a file to the pod's group");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt, symlink};

    #[test]
    fn a_tree_is_given_away_and_links_are_not_followed() {
        let directory = tempfile::tempdir().unwrap();
        let (root, outside) = (directory.path().join("root"), directory.path().join("out"));
        std::fs::create_dir_all(root.join("a/b")).unwrap();
        for file in [root.join("a/f"), outside.clone()] {
            std::fs::write(&file, "x").unwrap();
            std::fs::set_permissions(&file, PermissionsExt::from_mode(0o600)).unwrap();
        }
        symlink(&outside, root.join("link")).unwrap();
        // The test's own group: changing to it needs no privileges.
        let group = std::fs::metadata(&root).unwrap().gid();
        own(&root, group, false).unwrap();
        let mode = |path: &Path| std::fs::metadata(path).unwrap().mode() & 0o7777;
        assert_eq!(mode(&root.join("a/f")), 0o660);
        assert_eq!(mode(&root.join("a/b")) & 0o2770, 0o2770);
        assert_eq!(mode(&outside), 0o600, "outside of the tree");
        std::fs::set_permissions(root.join("a/f"), PermissionsExt::from_mode(0o600)).unwrap();
        own(&root, group, true).unwrap();
        assert_eq!(mode(&root.join("a/f")), 0o600, "the root was right");
    }

    /// Variable that passes the tree to the test when it runs as a process of its own.
    const TREE: &str = "OWNERSHIP_TEST_TREE";

    /// Runs the test `name` in a new process after `script`; false if the script failed.
    fn again(name: &str, script: &str, tree: &Path) -> bool {
        let own = std::env::current_exe().unwrap();
        let script = format!("{script} && echo begun && exec \"$0\" --exact \"$1\" --nocapture");
        let output = std::process::Command::new("unshare")
            .args(["--mount", "--propagation=private", "sh", "-c", &script])
            .arg(own)
            .arg(format!("work::ownership::tests::{name}"))
            .env(TREE, tree)
            .output();
        let Ok(output) = output else {
            return false;
        };
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        if !text.contains("begun") {
            return false;
        }
        let complaint = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{text} {complaint}");
        assert!(text.contains("1 passed"), "{text}");
        true
    }

    #[test]
    fn fr_10_what_cannot_be_given_away_is_passed_over() {
        if let Some(tree) = std::env::var_os(TREE) {
            let tree = Path::new(&tree);
            let group = std::fs::metadata(tree).unwrap().gid();
            own(tree, group, false).unwrap();
            return;
        }
        let directory = tempfile::tempdir().unwrap();
        let files = ["a/f", "b/f", "c/f"].map(|name| directory.path().join(name));
        for file in &files {
            std::fs::create_dir(file.parent().unwrap()).unwrap();
            std::fs::write(file, "x").unwrap();
            std::fs::set_permissions(file, PermissionsExt::from_mode(0o600)).unwrap();
        }
        let name = "fr_10_what_cannot_be_given_away_is_passed_over";
        // Directory order is undefined: each of the three may come last.
        for refusing in ["a", "b", "c"] {
            let at = directory.path().join(refusing);
            let at = at.display();
            let script = format!("mount --bind {at} {at} && mount -o remount,bind,ro {at}");
            if !again(name, &script, directory.path()) {
                sidecar_testkit::process::must_not_skip("a mount namespace");
                return;
            }
            for file in &files {
                let mode = std::fs::metadata(file).unwrap().mode() & 0o7777;
                let refused = file.starts_with(directory.path().join(refusing));
                assert_eq!(mode, if refused { 0o600 } else { 0o660 }, "{file:?}");
                std::fs::set_permissions(file, PermissionsExt::from_mode(0o600)).unwrap();
            }
        }
    }

    #[test]
    fn fr_10_a_level_costs_one_descriptor() {
        if let Some(tree) = std::env::var_os(TREE) {
            let tree = Path::new(&tree);
            let group = std::fs::metadata(tree).unwrap().gid();
            own(tree, group, false).unwrap();
            return;
        }
        let directory = tempfile::tempdir().unwrap();
        let deep: std::path::PathBuf = (0..100).map(|level| level.to_string()).collect();
        std::fs::create_dir_all(directory.path().join(&deep)).unwrap();
        let name = "fr_10_a_level_costs_one_descriptor";
        if !again(name, "ulimit -n 150", directory.path()) {
            sidecar_testkit::process::must_not_skip("a mount namespace");
        }
    }
}
