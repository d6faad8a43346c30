//! Removes mounts and loop devices that killed drivers have left on the machine.
//!
//! It works from the kernel's tables, without the state, so that it also helps after a crash in the
//! middle of a change.

use std::fs;
use std::path::{Path, PathBuf};

use crate::backing::command::run as run_program;
use crate::backing::mount_table::belonging_to;
use crate::backing::{Error, loop_device, mount, wrap};

/// The removed mounts and devices.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Done {
    /// Mount points, innermost first.
    pub unmounted: Vec<PathBuf>,
    /// Loop devices.
    pub detached: Vec<PathBuf>,
}

/// Removes all mounts and loop devices of the state folder, and the folder itself if `remove`.
pub fn run(folder: &Path, remove: bool) -> Result<Done, Error> {
    if !folder.exists() {
        return Ok(Done::default());
    }
    let folder = folder.canonicalize().map_err(wrap("find", folder))?;
    let mut done = Done::default();
    let loops = loop_device::below(&folder)?;
    // kubelet attaches a loop device of its own to a block volume's target.
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
