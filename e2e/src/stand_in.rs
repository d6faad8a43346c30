//! This project's programs under the image names of others.
//!
//! For a sidecar it loads the archive that `make images` writes, not one made for the tests.

use std::path::PathBuf;

use anyhow::Result;
use oci_archive::Archive;
use oci_archive::catalogue::PROGRAMS;

use crate::cluster::Cluster;
use crate::{image, program, real};

/// Loads this project's program under the name in a manifest; false if there is none.
pub fn load(cluster: &Cluster, name: &str) -> Result<bool> {
    let Some(file) = ours(name).and_then(Result::ok) else {
        return Ok(false);
    };
    let mut images = Archive::new();
    if is_driver(name) {
        image::program_with_tools(&mut images, &[name], &real::busybox(), &file, &[])?;
    } else if program::is_foreign(&file)? {
        image::program(&mut images, &[name], &file, &[])?;
    } else if let Some(folder) = program::archives(&file) {
        real::load_shipped(cluster, &image::shipped(&folder, &file)?, name)?;
        return Ok(true);
    } else {
        let links = if base(name) == "csi-sidecars" {
            PROGRAMS
        } else {
            &[]
        };
        image::program(&mut images, &[name], &file, links)?;
    }
    real::load(cluster, &images)?;
    Ok(true)
}

/// Name of the program in an image: csi-attacher for
/// `registry.k8s.io/sig-storage/csi-attacher:v4.11.0`.
pub fn base(image: &str) -> &str {
    let name = image.rsplit('/').next().unwrap_or_default();
    name.split([':', '@']).next().unwrap_or_default()
}

/// Whether it is a driver, which needs other programs in its image.
fn is_driver(image: &str) -> bool {
    base(image) == "hostpathplugin"
}

/// This project's program in place of the one in an image.
fn ours(image: &str) -> Option<Result<PathBuf>> {
    match base(image) {
        "hostpathplugin" => Some(program::driver()),
        "csi-node-driver-registrar" => Some(program::registrar()),
        "livenessprobe" => Some(program::livenessprobe()),
        "csi-attacher" => Some(program::attacher()),
        "csi-provisioner" => Some(program::provisioner()),
        "csi-resizer" => Some(program::resizer()),
        "csi-snapshotter" => Some(program::snapshotter()),
        "csi-snapshot-metadata" => Some(program::snapshot_metadata()),
        "snapshot-controller" => Some(program::snapshot_controller()),
        "csi-external-health-monitor-controller" => Some(program::health_monitor()),
        "csi-sidecars" => Some(program::all_in_one()),
        "csi-node-sidecars" => Some(program::node_sidecars()),
        _ => None,
    }
}
