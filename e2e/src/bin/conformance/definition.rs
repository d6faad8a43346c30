//! The driver's definition for Kubernetes' storage suite.

use serde_json::{Value, json};

use crate::selection::Present;

/// CSI driver name.
pub(crate) const DRIVER: &str = "conformance.csi.example.com";

/// A VolumeAttributesClass that exists before the suite starts.
pub(crate) const ATTRIBUTES_CLASS: &str = "conformance";

/// Topology key of the driver: csi-driver-host-path's.
const TOPOLOGY_KEY: &str = "topology.hostpath.csi/node";

/// The driver's flags, which csi-driver-host-path accepts too. One spec uses up the limit of volumes;
/// all others need fewer at a time: at most 12 run, with at most 5 volumes each.
pub(crate) const DRIVER_FLAGS: [&str; 7] = [
    "--enable-attach=true",
    "--enable-topology=true",
    "--enable-volume-expansion=true",
    "--enable-controller-modify-volume=true",
    "--accepted-mutable-parameter-names=color",
    "--capacity=disk=100Gi",
    "--maxvolumespernode=60",
];

/// Makes the driver as slow as real storage. The performance specs register a claim only after the
/// response to its creation, and end the suite's process if they see it bound before.
pub(crate) fn driver_setup() -> Value {
    json!({ "rules": [{
        "match": { "method": "CreateVolume" },
        "action": { "delay": { "ms": 50 } },
    }] })
}

/// The provisioner's flags.
pub(crate) const PROVISIONER_FLAGS: [&str; 5] = [
    "-v=4",
    "--enable-capacity",
    "--capacity-ownerref-level=-1",
    "--capacity-poll-interval=10s",
    "--capacity-for-immediate-binding=true",
];

/// The file for `--storage.testdriver`. The suite skips specs whose capability is false or absent.
pub(crate) fn definition(present: Present) -> Value {
    let (expansion, snapshots) = (present.resizer, present.snapshots);
    let mut definition = json!({
        "DriverInfo": {
            "Name": DRIVER,
            "SupportedSizeRange": { "Min": "1Mi" },
            "TopologyKeys": [TOPOLOGY_KEY],
            "Capabilities": {
                "persistence": true,
                "block": true,
                "exec": true,
                "fsGroup": true,
                "multipods": true,
                "RWX": true,
                "capReadOnlyMany": true,
                "controllerExpansion": expansion,
                "offlineExpansion": expansion,
                "onlineExpansion": expansion,
                "nodeExpansion": expansion,
                "pvcDataSource": true,
                "snapshotDataSource": snapshots,
                "groupSnapshot": snapshots,
                "topology": true,
                "singleNodeVolume": true,
                "volumeLimits": true,
                "capacity": true,
                "readWriteOncePod": true,
                "multiplePVsSameID": true,
                "FSResizeFromSourceNotSupported": true,
            },
            "StressTestOptions": { "NumPods": 5, "NumRestarts": 3 },
            "VolumeModifyStressTestOptions": { "NumPods": 5 },
            "PerformanceTestOptions": { "ProvisioningOptions": {
                "VolumeSize": "1Mi",
                "Count": 50,
                "ExpectedMetrics": { "AvgLatency": 120_000_000_000_i64, "Throughput": 0.5 },
            } },
        },
        "StorageClass": { "FromName": true },
        "VolumeAttributesClass": { "FromExistingClassName": ATTRIBUTES_CLASS },
        "InlineVolumes": [{}],
        // The defaults are for clouds: five minutes for each pod of a spec that fails.
        "Timeouts": {
            "PodStart": "90s", "PodDelete": "90s", "PVDelete": "90s",
            "ClaimProvision": "60s", "ClaimProvisionShort": "60s", "ClaimBound": "60s",
            "PVReclaim": "60s", "PVBound": "60s", "PVCreate": "60s",
            "SnapshotCreate": "60s", "SnapshotDelete": "60s", "DataSourceProvision": "60s",
        },
    });
    if snapshots {
        let class = json!({
            "SnapshotClass": { "FromName": true },
            "GroupSnapshotClass": { "FromName": true },
            "DriverInfo": {
                "VolumeSnapshotStressTestOptions": { "NumPods": 3, "NumSnapshots": 3 },
            },
        });
        definition = e2e::object::with(definition, &class);
    }
    definition
}

pub(crate) fn attributes_class() -> Value {
    json!({
        "apiVersion": "storage.k8s.io/v1",
        "kind": "VolumeAttributesClass",
        "metadata": { "name": ATTRIBUTES_CLASS },
        "driverName": DRIVER,
        "parameters": { "color": "blue" },
    })
}

pub(crate) fn csi_driver() -> Value {
    let mut object = e2e::object::csi_driver(DRIVER, true);
    if let Some(spec) = object.pointer_mut("/spec").and_then(Value::as_object_mut) {
        spec.insert("storageCapacity".to_owned(), json!(true));
    }
    object
}
