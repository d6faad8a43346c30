//! Removes what drivers that were killed left on the machine: mounts and loop devices.
//!
//! Works without the state, from the tables of the kernel, so that it also helps after a crash in
//! the middle of a change.

use std::fs;
use std::path::{Path, PathBuf};

use crate::backing::command::run as run_program;
use crate::backing::mount_table::belonging_to;
use crate::backing::{Error, loop_device, mount, wrap};

/// What was removed.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Done {
    /// Mount points, innermost first.
    pub unmounted: Vec<PathBuf>,
    /// Loop devices.
    pub detached: Vec<PathBuf>,
}

/// Undoes all mounts and loop devices of the state folder, and removes the folder if asked to.
pub fn run(folder: &Path, remove: bool) -> Result<Done, Error> {
    if !folder.exists() {
        return Ok(Done::default());
    }
    let folder = folder.canonicalize().map_err(wrap("find", folder))?;
    let mut done = Done::default();
    let loops = loop_device::below(&folder)?;
    // Kubelet puts a loop device of its own on top of a block volume's target.
    let points = belonging_to(&mount::table()?, &folder, &loops);
    for point in &points {
        for upper in loop_device::below(point)? {
            detach(&upper, &mut done)?;
        }
    }
    for point in points {
        mount::undo(&point)?;
        done.unmounted.push(point);
    }
    for device in loops {
        for upper in loop_device::of(&device)? {
            detach(&upper, &mut done)?;
        }
        detach(&device, &mut done)?;
    }
    if remove {
        fs::remove_dir_all(&folder).map_err(wrap("remove", &folder))?;
    }
    Ok(done)
}

fn detach(device: &Path, done: &mut Done) -> Result<(), Error> {
    run_program("losetup", &["--detach".as_ref(), device.as_os_str()])?;
    done.detached.push(device.to_owned());
    Ok(())
}
