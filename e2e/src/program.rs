//! Finds the programs under test.

use std::env;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};

/// The repository's root.
pub fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_owned()
}

/// A test tool in `bin/`, or the file in the environment variable `override_by`.
pub fn find(name: &str, override_by: &str, make_target: &str) -> Result<PathBuf> {
    find_in(&root().join("bin"), name, override_by, make_target)
}

/// One of this project's programs in the folder in `CSI_PROGRAMS` (relative to the repository's root), or the file in
/// the environment variable `override_by`. The default folder is `build/programs`; `make` sets another one for
/// measurements, which test the released programs.
fn sidecar(name: &str, override_by: &str) -> Result<PathBuf> {
    find_in(&folder(), name, override_by, "programs")
}

fn folder() -> PathBuf {
    let folder = env::var_os("CSI_PROGRAMS").unwrap_or_else(|| "build/programs".into());
    root().join(folder)
}

/// Whether the programs under test are the released ones.
pub fn ships() -> bool {
    folder() == root().join("bin")
}

fn find_in(folder: &Path, name: &str, override_by: &str, make_target: &str) -> Result<PathBuf> {
    if let Some(path) = env::var_os(override_by).filter(|path| !path.is_empty()) {
        let path = PathBuf::from(path);
        if !path.is_file() {
            bail!("{override_by}={} is not a file", path.display());
        }
        return Ok(path.canonicalize()?);
    }
    let path = folder.join(name);
    if !path.is_file() {
        bail!(
            "{} is missing: run `make {make_target}` first",
            path.display()
        );
    }
    Ok(path)
}

/// The test cluster's program.
pub fn cluster() -> Result<PathBuf> {
    find("csi-cluster", "CSI_CLUSTER", "cluster")
}

/// helm, which renders the charts.
pub fn helm() -> Result<PathBuf> {
    find("helm", "HELM", "helm")
}

/// The registrar under test.
pub fn registrar() -> Result<PathBuf> {
    sidecar("csi-node-driver-registrar", "REGISTRAR")
}

/// The health check under test.
pub fn livenessprobe() -> Result<PathBuf> {
    sidecar("livenessprobe", "LIVENESSPROBE")
}

/// The registration loop for machines without kubelet.
pub fn plugin_manager() -> Result<PathBuf> {
    sidecar("csi-plugin-manager", "PLUGIN_MANAGER")
}

/// The node agent for machines without kubelet.
pub fn node_agent() -> Result<PathBuf> {
    sidecar("csi-node-agent", "NODE_AGENT")
}

/// The attacher under test.
pub fn attacher() -> Result<PathBuf> {
    sidecar("csi-attacher", "ATTACHER")
}

/// The provisioner under test.
pub fn provisioner() -> Result<PathBuf> {
    sidecar("csi-provisioner", "PROVISIONER")
}

/// The resizer under test.
pub fn resizer() -> Result<PathBuf> {
    sidecar("csi-resizer", "RESIZER")
}

/// The snapshotter under test.
pub fn snapshotter() -> Result<PathBuf> {
    sidecar("csi-snapshotter", "SNAPSHOTTER")
}

/// The health monitor under test.
pub fn health_monitor() -> Result<PathBuf> {
    sidecar("csi-external-health-monitor-controller", "HEALTH_MONITOR")
}

/// The snapshot metadata service under test.
pub fn snapshot_metadata() -> Result<PathBuf> {
    sidecar("csi-snapshot-metadata", "SNAPSHOT_METADATA")
}

/// The snapshot-controller under test.
pub fn snapshot_controller() -> Result<PathBuf> {
    sidecar("snapshot-controller", "SNAPSHOT_CONTROLLER")
}

/// The kubectl plugin.
pub fn kubectl_csi() -> Result<PathBuf> {
    sidecar("kubectl-csi", "KUBECTL_CSI")
}

/// Whether `UPSTREAM` names a folder with upstream's programs.
pub fn has_upstreams() -> bool {
    env::var_os("UPSTREAM").is_some_and(|folder| !folder.is_empty())
}

/// Upstream's program in the folder that `UPSTREAM` names.
fn upstreams(name: &str) -> Result<PathBuf> {
    let folder = env::var_os("UPSTREAM").unwrap_or_default();
    let path = Path::new(&folder).join(name);
    if !path.is_file() {
        bail!("UPSTREAM: {} is not a file", path.display());
    }
    Ok(path.canonicalize()?)
}

/// Upstream's provisioner, beside the one under test.
pub fn upstreams_provisioner() -> Result<PathBuf> {
    upstreams("csi-provisioner")
}

/// Upstream's attacher.
pub fn upstreams_attacher() -> Result<PathBuf> {
    upstreams("csi-attacher")
}

/// Upstream's resizer.
pub fn upstreams_resizer() -> Result<PathBuf> {
    upstreams("csi-resizer")
}

/// Upstream's snapshotter.
pub fn upstreams_snapshotter() -> Result<PathBuf> {
    upstreams("csi-snapshotter")
}

/// Upstream's snapshot controller.
pub fn upstreams_snapshot_controller() -> Result<PathBuf> {
    upstreams("snapshot-controller")
}

/// The program with all sidecars.
pub fn all_in_one() -> Result<PathBuf> {
    sidecar("csi-sidecars", "CSI_SIDECARS")
}

/// The program with a node's sidecars.
pub fn node_sidecars() -> Result<PathBuf> {
    sidecar("csi-node-sidecars", "CSI_NODE_SIDECARS")
}

/// Whether one process runs all of a driver's controllers: `SIDECARS=together`.
///
/// # Errors
/// Another value, or a variable that names a single program as well.
pub fn are_together() -> Result<bool> {
    match env::var("SIDECARS").as_deref() {
        Err(_) | Ok("" | "separate") => return Ok(false),
        Ok("together") => {}
        Ok(other) => bail!("SIDECARS={other}: must be separate or together"),
    }
    for single in [
        "PROVISIONER",
        "ATTACHER",
        "RESIZER",
        "SNAPSHOTTER",
        "HEALTH_MONITOR",
    ] {
        if env::var_os(single).is_some_and(|path| !path.is_empty()) {
            bail!(
                "SIDECARS=together is csi-sidecars alone: unset {single}, or name another csi-sidecars with CSI_SIDECARS"
            );
        }
    }
    Ok(true)
}

/// The folder with the archives that `make archives` or `make images` has written of one of this project's programs;
/// `None` for other programs.
pub fn archives(program: &Path) -> Option<PathBuf> {
    let build = root().join("build");
    let folder = program.parent()?;
    if folder == root().join("bin") {
        Some(build.join("images"))
    } else if folder == build.join("programs") {
        Some(folder.join("images"))
    } else {
        None
    }
}

/// Whether the sidecar under test is another project's: a program outside this repository, or in `build/upstream`. Then
/// scenarios about this project's own features are skipped, and its figures are shown beside this project's.
pub fn is_foreign(sidecar: &Path) -> Result<bool> {
    let root = root().canonicalize()?;
    let upstream = root.join("build").join("upstream");
    Ok(!sidecar.starts_with(root) || sidecar.starts_with(upstream))
}

/// The CSI driver: this project's, or csi-driver-host-path if `HOSTPATHPLUGIN` names it.
pub fn driver() -> Result<PathBuf> {
    find("csi-test-driver", "HOSTPATHPLUGIN", "driver")
}

/// Whether the scenarios use csi-driver-host-path instead of this project's driver.
pub fn driver_is_foreign() -> bool {
    env::var_os("HOSTPATHPLUGIN").is_some_and(|path| !path.is_empty())
}
