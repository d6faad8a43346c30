//! Programs with the features that determine their permissions, and the matching flags of driver
//! and program.

use e2e::controller::{
    ATTACHER, HEALTH_MONITOR, PROVISIONER, RESIZER, SNAPSHOT_CONTROLLER, SNAPSHOTTER, Sidecar,
};

/// A program and its features.
pub(super) struct Setup {
    /// Name in the table.
    pub(super) title: &'static str,
    /// The driver's name; with dashes, the namespace.
    pub(super) driver: &'static str,
    pub(super) program: Program,
    pub(super) driver_flags: &'static [&'static str],
    pub(super) flags: &'static [&'static str],
}

/// The program whose permissions are tested.
#[derive(Debug, Clone, Copy)]
pub(super) enum Program {
    /// A controller under the chart's permissions, with these values.
    Sidecar(Sidecar, &'static [&'static str]),
    /// csi-node-agent under the ClusterRole that is shipped with it.
    NodeAgent,
}

pub(super) const SETUPS: &[Setup] = &[
    Setup {
        title: "csi-attacher",
        driver: "attach.rbac.test",
        program: Program::Sidecar(ATTACHER, &["secrets.access=all"]),
        driver_flags: &["--enable-attach=true"],
        flags: &["--leader-election"],
    },
    Setup {
        title: "csi-attacher, nothing to attach",
        driver: "trivial.rbac.test",
        program: Program::Sidecar(ATTACHER, &["driver.publishes=false"]),
        driver_flags: &["--enable-attach=false"],
        flags: &["--leader-election"],
    },
    Setup {
        title: "csi-provisioner, every feature",
        driver: "every.rbac.test",
        program: Program::Sidecar(
            PROVISIONER,
            &[
                "features.cloning=true",
                "features.snapshots=true",
                "features.capacity=true",
                "features.volumeAttributesClass=true",
                "features.crossNamespaceDataSource=true",
                "secrets.access=all",
            ],
        ),
        driver_flags: &[
            "--enable-attach=true",
            "--enable-controller-modify-volume=true",
        ],
        flags: &[
            "--leader-election",
            "--enable-capacity",
            "--capacity-ownerref-level=2",
            "--feature-gates=CrossNamespaceVolumeDataSource=true",
        ],
    },
    Setup {
        title: "csi-provisioner on each node",
        driver: "nodes.rbac.test",
        program: Program::Sidecar(
            PROVISIONER,
            &[
                "driver.publishes=false",
                "features.nodeDeployment=true",
                "features.capacity=true",
                "features.cloning=true",
                "features.snapshots=true",
                "provisioner.snapshotOrphanSweepInterval=0s",
                "secrets.access=all",
            ],
        ),
        driver_flags: &["--enable-attach=false"],
        flags: &[
            "--node-deployment",
            "--enable-capacity",
            "--capacity-ownerref-level=1",
            "--snapshot-orphan-sweep-interval=0s",
        ],
    },
    Setup {
        title: "csi-resizer",
        driver: "resize.rbac.test",
        program: Program::Sidecar(
            RESIZER,
            &["features.volumeAttributesClass=true", "secrets.access=all"],
        ),
        driver_flags: &["--enable-controller-modify-volume=true"],
        flags: &["--leader-election"],
    },
    Setup {
        title: "csi-resizer, pods not watched, nothing to modify",
        driver: "grow.rbac.test",
        program: Program::Sidecar(
            RESIZER,
            &["resizer.handleVolumeInUseError=false", "secrets.access=all"],
        ),
        driver_flags: &["--enable-controller-modify-volume=false"],
        flags: &[
            "--leader-election",
            "--handle-volume-inuse-error=false",
            "--feature-gates=VolumeAttributesClass=false",
        ],
    },
    Setup {
        title: "csi-snapshotter",
        driver: "snapshots.rbac.test",
        program: Program::Sidecar(SNAPSHOTTER, &["secrets.access=all"]),
        driver_flags: &[],
        flags: &[
            "--leader-election",
            "--feature-gates=CSIVolumeGroupSnapshot=false",
        ],
    },
    Setup {
        title: "csi-snapshotter on each node",
        driver: "nodesnapshots.rbac.test",
        program: Program::Sidecar(
            SNAPSHOTTER,
            &["features.nodeDeployment=true", "secrets.access=all"],
        ),
        driver_flags: &[],
        flags: &[
            "--node-deployment",
            "--feature-gates=CSIVolumeGroupSnapshot=false",
        ],
    },
    Setup {
        title: "csi-snapshotter, groups",
        driver: "groups.rbac.test",
        program: Program::Sidecar(
            SNAPSHOTTER,
            &["features.groupSnapshots=true", "secrets.access=all"],
        ),
        driver_flags: &[],
        flags: &[
            "--leader-election",
            "--feature-gates=CSIVolumeGroupSnapshot=true",
        ],
    },
    Setup {
        title: "csi-external-health-monitor-controller",
        driver: "health.rbac.test",
        program: Program::Sidecar(HEALTH_MONITOR, &["features.volumeHealth=true"]),
        driver_flags: &[],
        flags: &["--leader-election"],
    },
    Setup {
        title: "csi-external-health-monitor-controller, conditions of CSI 1.12",
        driver: "conditions.rbac.test",
        program: Program::Sidecar(HEALTH_MONITOR, &[]),
        driver_flags: &[concat!(
            "--setup=",
            env!("CARGO_MANIFEST_DIR"),
            "/tests/chart/conditions.json"
        )],
        flags: &["--leader-election"],
    },
    Setup {
        title: "snapshot-controller",
        driver: "cluster.rbac.test",
        program: Program::Sidecar(SNAPSHOT_CONTROLLER, &["features.groupSnapshots=false"]),
        driver_flags: &[],
        flags: &[
            "--leader-election",
            "--feature-gates=CSIVolumeGroupSnapshot=false",
        ],
    },
    Setup {
        title: "snapshot-controller, distributed",
        driver: "distributed.rbac.test",
        program: Program::Sidecar(
            SNAPSHOT_CONTROLLER,
            &[
                "features.groupSnapshots=false",
                "features.distributedSnapshotting=true",
            ],
        ),
        driver_flags: &[],
        flags: &[
            "--leader-election",
            "--enable-distributed-snapshotting",
            "--feature-gates=CSIVolumeGroupSnapshot=false",
        ],
    },
    Setup {
        title: "snapshot-controller, groups",
        driver: "clustergroups.rbac.test",
        program: Program::Sidecar(SNAPSHOT_CONTROLLER, &["features.groupSnapshots=true"]),
        driver_flags: &[],
        flags: &[
            "--leader-election",
            "--feature-gates=CSIVolumeGroupSnapshot=true",
        ],
    },
    Setup {
        title: "csi-node-agent",
        driver: "agent.rbac.test",
        program: Program::NodeAgent,
        driver_flags: &[],
        flags: &["--register-node"],
    },
];
