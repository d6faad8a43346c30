//! A cluster whose one node runs containers.
//!
//! It can only run in an enclosure of its own (`csi-cluster enclosed`), so `e2e/runtime/enclosed.sh`
//! starts such a program there, and reports if a machine cannot do it.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use oci_archive::Archive;

use crate::cluster::{Cluster, Options};
use crate::{image, process, program};

/// The folder with containerd, runc, CNI plugins and busybox.
pub fn runtime() -> PathBuf {
    program::root().join("build").join("node")
}

/// The busybox in images.
pub fn busybox() -> PathBuf {
    runtime().join("bin").join("busybox")
}

/// Starts a cluster with a real node.
pub fn up(flags: &[&str]) -> Result<Cluster> {
    let runtime = runtime();
    ensure!(
        std::env::var_os("CSI_CLUSTER_ENCLOSURE").is_some(),
        "a real node needs an enclosure: start this through e2e/runtime/enclosed.sh"
    );
    let mut all = vec![
        "--real-node".to_owned(),
        format!("--runtime={}", runtime.display()),
    ];
    all.extend(flags.iter().map(|flag| (*flag).to_owned()));
    Cluster::up(&Options {
        nodes: 1,
        flags: all,
    })
}

/// Writes images to a file and loads them; from then on pods can use them by name.
pub fn load(cluster: &Cluster, images: &Archive) -> Result<()> {
    let file: &Path = &cluster.dir().join("run").join("images.tar");
    images.write(file)?;
    cluster.import(file)?;
    std::fs::remove_file(file)?;
    Ok(())
}

/// Loads an archive that `make images` has written, as an administrator would, and gives the image
/// the name in a manifest.
pub fn load_shipped(cluster: &Cluster, archive: &Path, name: &str) -> Result<()> {
    cluster.import(archive)?;
    let own = oci_archive::names(archive)?;
    let own = own.first();
    let own = own.with_context(|| format!("{} names no image", archive.display()))?;
    if own != name {
        let mut ctr = Command::new(runtime().join("bin").join("ctr"));
        ctr.arg("--address")
            .arg(cluster.state("/nodes/0/containerd")?);
        ctr.args(["--namespace", "k8s.io", "images", "tag", "--force"]);
        process::output(ctr.args([own, name]))?;
    }
    Ok(())
}

/// The images that every pod and Kubernetes' own tests need.
pub fn basic_images() -> Result<Archive> {
    image::basic(&busybox())
}
