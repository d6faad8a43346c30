//! The flags of csi-provisioner.
//!
//! Data only: help, parser and the comparison with upstream iterate over it.

use sidecar::flags::standard::{
    AUTOMAXPROCS, CSI_ADDRESS, FEATURE_GATES, HTTP_ENDPOINT, KUBE_API, LEADER_ELECTION, LOGGING,
    MASTER, METRICS, SECURE_HTTP, TRACING, VERSION, WHY,
};
use sidecar::flags::{Dialect, Flag, Kind, Spec, retired};

const fn flag(name: &'static str, kind: Kind, default: &'static str, help: &'static str) -> Flag {
    Flag::new(name, kind, default, help)
}

static WORK: &[Flag] = &[
    flag(
        "timeout",
        Kind::Duration,
        "10s",
        "Timeout of each call to the driver.",
    ),
    flag(
        "worker-threads",
        Kind::Uint,
        "100",
        "Number of volumes created at the same time, and the same number deleted.",
    ),
    flag(
        "retry-interval-start",
        Kind::Duration,
        "1s",
        "Delay before the first retry of a failed operation. It doubles with each failure.",
    ),
    flag(
        "retry-interval-max",
        Kind::Duration,
        "5m",
        "Longest delay before a retry, also of a request that the driver rejected as infeasible.",
    ),
    flag(
        "cloning-protection-threads",
        Kind::Uint,
        "1",
        "Number of finalizers of cloned claims removed at the same time.",
    ),
    flag(
        "snapshot-orphan-sweep-interval",
        Kind::Duration,
        "5m",
        "How often finalizers are removed from snapshots that no claim restores any more. 0 disables it.",
    ),
    flag(
        "provisioning-protection",
        Kind::String,
        "journal",
        "Where CreateVolume requests are recorded, so that no volume leaks when both the claim and the process go away: \"journal\" writes them into Leases, next to that of leader election, before the driver is called; \"off\" keeps them in memory.",
    ),
];

static VOLUMES: &[Flag] = &[
    flag(
        "volume-name-prefix",
        Kind::String,
        "pvc",
        "Prefix of volume names.",
    ),
    flag(
        "volume-name-uuid-length",
        Kind::Int,
        "-1",
        "Number of characters of the claim's UID, without dashes, in a volume's name. -1 means the whole UID with its dashes.",
    ),
    flag(
        "strict-topology",
        Kind::Bool,
        "false",
        "With a selected node, pass only the topology of that node.",
    ),
    flag(
        "immediate-topology",
        Kind::Bool,
        "true",
        "Without a selected node and without allowedTopologies, pass the topology of the whole \
         cluster.",
    ),
    flag(
        "extra-create-metadata",
        Kind::Bool,
        "false",
        "Pass the names of claim and volume to the driver as parameters.",
    ),
    flag(
        "default-fstype",
        Kind::String,
        "",
        "File system type of volumes whose class names none.",
    ),
    flag(
        "controller-publish-readonly",
        Kind::Bool,
        "false",
        "Mark volumes whose only access mode is ReadOnlyMany as read-only.",
    ),
    flag(
        "prevent-volume-mode-conversion",
        Kind::Bool,
        "true",
        "Restore a snapshot with another volume mode only if its VolumeSnapshotContent has the annotation that allows it.",
    ),
];

static CAPACITY: &[Flag] = &[
    flag(
        "enable-capacity",
        Kind::Bool,
        "false",
        "Produce CSIStorageCapacity objects. Needs the environment variable NAMESPACE, and \
         POD_NAME unless the owner level is negative.",
    ),
    flag(
        "capacity-threads",
        Kind::Uint,
        "1",
        "Number of GetCapacity calls and CSIStorageCapacity updates at the same time.",
    ),
    flag(
        "capacity-poll-interval",
        Kind::Duration,
        "1m",
        "How often the driver is asked for its capacity.",
    ),
    flag(
        "capacity-ownerref-level",
        Kind::Int,
        "1",
        "Owner of the CSIStorageCapacity objects: 0 is the pod, 1 its controller, 2 the controller of that. Negative means no owner.",
    ),
    flag(
        "capacity-for-immediate-binding",
        Kind::Bool,
        "false",
        "Produce CSIStorageCapacity objects also for classes with immediate binding.",
    ),
    flag(
        "kube-api-capacity-qps",
        Kind::Float,
        "1",
        "QPS limit for the API server, for storage capacity.",
    ),
    flag(
        "kube-api-capacity-burst",
        Kind::Int,
        "5",
        "Burst for the API server, for storage capacity.",
    ),
];

static NODE_DEPLOYMENT: &[Flag] = &[
    flag(
        "node-deployment",
        Kind::Bool,
        "false",
        "One provisioner per node, each for the volumes of its node. Needs the environment \
         variable NODE_NAME.",
    ),
    flag(
        "node-deployment-immediate-binding",
        Kind::Bool,
        "true",
        "Take claims with immediate binding for this node.",
    ),
    flag(
        "node-deployment-base-delay",
        Kind::Duration,
        "20s",
        "Longest wait before the first attempt to take a claim for this node.",
    ),
    flag(
        "node-deployment-max-delay",
        Kind::Duration,
        "60s",
        "Longest wait before any attempt to take a claim for this node.",
    ),
];

static PPROF: &[Flag] = &[flag(
    "enable-pprof",
    Kind::Bool,
    "false",
    "Accepted for compatibility without effect: there is no Go runtime to profile.",
)];

/// All flags, with the rules of pflag.
pub static SPEC: Spec = Spec {
    dialect: Dialect::Pflag,
    tables: &[
        WORK,
        VOLUMES,
        CAPACITY,
        NODE_DEPLOYMENT,
        CSI_ADDRESS,
        MASTER,
        KUBE_API,
        LEADER_ELECTION,
        HTTP_ENDPOINT,
        SECURE_HTTP,
        WHY,
        METRICS,
        PPROF,
        FEATURE_GATES,
        VERSION,
        AUTOMAXPROCS,
        TRACING,
        LOGGING,
    ],
    retired: &retired::PROVISIONER,
};
