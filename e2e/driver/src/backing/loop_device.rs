//! Loop devices of image files.
//!
//! Loop devices belong to the machine, not to a mount namespace: the drivers of several nodes on
//! one machine share the device of an image, so that each sees the others' writes.

use std::fs;
use std::path::{Path, PathBuf};

use super::command::run;
use super::{Error, wrap};

const BLOCK: &str = "/sys/block";

/// Loop devices whose backing file is `image`.
pub fn of(image: &Path) -> Result<Vec<PathBuf>, Error> {
    Ok(all()?
        .into_iter()
        .filter(|(_, file)| file == image)
        .map(|(device, _)| device)
        .collect())
}

/// Loop devices whose backing file lies below `folder`.
pub fn below(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    let inside = all()?
        .into_iter()
        .filter(|(_, file)| file.starts_with(folder));
    Ok(inside.map(|(device, _)| device).collect())
}

/// Every loop device in use, with its backing file.
fn all() -> Result<Vec<(PathBuf, PathBuf)>, Error> {
    let mut devices = Vec::new();
    for entry in fs::read_dir(BLOCK).map_err(wrap("read", Path::new(BLOCK)))? {
        let entry = entry.map_err(wrap("read", Path::new(BLOCK)))?;
        // The file is missing while the device is unused; the device may also disappear at this
        // moment.
        if let Ok(file) = fs::read_to_string(entry.path().join("loop/backing_file")) {
            let file = file.trim_end_matches('\n');
            let file = file.strip_suffix(" (deleted)").unwrap_or(file);
            devices.push((
                Path::new("/dev").join(entry.file_name()),
                PathBuf::from(file),
            ));
        }
    }
    Ok(devices)
}

/// The device of an image; attaches a new one if there is none.
pub fn attach(image: &Path) -> Result<PathBuf, Error> {
    if let Some(device) = of(image)?.into_iter().next() {
        return Ok(device);
    }
    let arguments = ["--find".as_ref(), "--show".as_ref(), image.as_os_str()];
    Ok(PathBuf::from(run("losetup", &arguments)?))
}

/// Detaches the devices of an image.
pub fn detach(image: &Path) -> Result<(), Error> {
    for device in of(image)? {
        run("losetup", &["--detach".as_ref(), device.as_os_str()])?;
    }
    Ok(())
}

/// Updates the devices of an image to its new size.
pub fn grow(image: &Path) -> Result<Vec<PathBuf>, Error> {
    let devices = of(image)?;
    for device in &devices {
        run("losetup", &["--set-capacity".as_ref(), device.as_os_str()])?;
    }
    Ok(devices)
}
