//! The controllers under test.

use std::path::PathBuf;

use anyhow::Result;

use crate::program;

/// Durations of a lease that outlives a restart of the API server on a busy machine, for scenarios that do not
/// test elections.
pub const LONG_LEASE: [&str; 2] = [
    "--leader-election-lease-duration=180s",
    "--leader-election-renew-deadline=150s",
];

/// A sidecar that uses the API server.
#[derive(Debug, Clone, Copy)]
pub struct Sidecar {
    /// Name of the program and of its service account.
    pub name: &'static str,
    /// Path of upstream's RBAC objects, among the manifests of the pinned Kubernetes.
    pub manifest: &'static str,
    /// Finds the program.
    pub program: fn() -> Result<PathBuf>,
    /// Whether it runs beside a driver.
    pub has_driver: bool,
}

/// csi-attacher, or the program that `ATTACHER` names.
pub const ATTACHER: Sidecar = Sidecar {
    name: "csi-attacher",
    manifest: "storage-csi/external-attacher/rbac.yaml",
    program: program::attacher,
    has_driver: true,
};

/// csi-provisioner, or the program that `PROVISIONER` names.
pub const PROVISIONER: Sidecar = Sidecar {
    name: "csi-provisioner",
    manifest: "storage-csi/external-provisioner/rbac.yaml",
    program: program::provisioner,
    has_driver: true,
};

/// csi-resizer, or the program that `RESIZER` names.
pub const RESIZER: Sidecar = Sidecar {
    name: "csi-resizer",
    manifest: "storage-csi/external-resizer/rbac.yaml",
    program: program::resizer,
    has_driver: true,
};

/// csi-snapshotter, or the program that `SNAPSHOTTER` names.
pub const SNAPSHOTTER: Sidecar = Sidecar {
    name: "csi-snapshotter",
    manifest: "storage-csi/external-snapshotter/csi-snapshotter/rbac-csi-snapshotter.yaml",
    program: program::snapshotter,
    has_driver: true,
};

/// csi-external-health-monitor-controller, or the program that `HEALTH_MONITOR` names.
pub const HEALTH_MONITOR: Sidecar = Sidecar {
    name: "csi-external-health-monitor-controller",
    manifest: "storage-csi/external-health-monitor/external-health-monitor-controller/rbac.yaml",
    program: program::health_monitor,
    has_driver: true,
};

/// snapshot-controller, or the program that `SNAPSHOT_CONTROLLER` names. It serves all drivers of a cluster.
pub const SNAPSHOT_CONTROLLER: Sidecar = Sidecar {
    name: "snapshot-controller",
    manifest: "cluster/addons/volumesnapshots/volume-snapshot-controller/rbac-volume-snapshot-controller.yaml",
    program: program::snapshot_controller,
    has_driver: false,
};

/// All of a driver's controllers in one process; [`Controller::of`] gives single ones under the same account.
///
/// [`Controller::of`]: super::Controller::of
pub const TOGETHER: Sidecar = Sidecar {
    name: "csi-sidecars",
    // Upstream has no such program.
    manifest: "",
    program: program::all_in_one,
    has_driver: true,
};

/// The sections of the chart's values for the program under this account.
pub(super) fn sections(account: &'static str) -> Vec<&'static str> {
    match account.trim_start_matches("csi-") {
        "sidecars" => vec![
            "provisioner",
            "attacher",
            "resizer",
            "snapshotter",
            "healthMonitor",
        ],
        "external-health-monitor-controller" => vec!["healthMonitor"],
        single => vec![single],
    }
}
