//! Specs about the driver in Kubernetes' tests ("CSI Mock"). The suite starts it with sidecars in pods, from upstream's
//! manifests; this project's sidecars have the names of their images.

use anyhow::{Context, Result, ensure};
use e2e::api::text;
use e2e::cluster::Cluster;
use e2e::{image, manifest, program, real, stand_in};
use oci_archive::Archive;
use serde_json::Value;

const MANIFESTS: [&str; 4] = [
    "storage-csi/mock/csi-mock-driver.yaml",
    "storage-csi/mock/csi-mock-proxy.yaml",
    "storage-csi/mock/csi-mock-driver-attacher.yaml",
    "storage-csi/mock/csi-mock-driver-resizer.yaml",
];

/// Loads the images that the manifests name, except those with shells for specs.
pub(crate) fn load_images(cluster: &Cluster) -> Result<()> {
    let mut loaded = Vec::new();
    for name in MANIFESTS {
        for object in manifest::read(cluster, name)? {
            let containers = object.pointer("/spec/template/spec/containers");
            for container in containers.and_then(Value::as_array).into_iter().flatten() {
                let image = text(container, "/image").context("a container without image")?;
                if !loaded.iter().any(|other| other == image) {
                    load(cluster, image)?;
                    loaded.push(image.to_owned());
                }
            }
        }
    }
    Ok(())
}

fn load(cluster: &Cluster, name: &str) -> Result<()> {
    match stand_in::base(name) {
        "busybox" => Ok(()),
        // The manifests name csi-driver-host-path; the specs use only what every driver does.
        "hostpathplugin" => {
            let mut images = Archive::new();
            let driver = program::cluster()?;
            let first = ["mock-driver"];
            image::program_with_tools(&mut images, &[name], &real::busybox(), &driver, &first)?;
            real::load(cluster, &images)
        }
        _ => {
            let found = stand_in::load(cluster, name)?;
            ensure!(found, "a manifest wants {name}, and there is none of ours");
            Ok(())
        }
    }
}
