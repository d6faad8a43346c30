//! The flags of csi-provisioner.
//!
//! Data only: help, parser and the comparison with upstream walk over it.

use sidecar::flags::standard::{
    AUTOMAXPROCS, CSI_ADDRESS, FEATURE_GATES, HTTP_ENDPOINT, KUBE_API, LEADER_ELECTION, LOGGING,
    MASTER, METRICS, VERSION,
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
        "How many volumes are created, and as many deleted, at the same time.",
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
        "Longest delay before a retry, also for what the driver calls impossible.",
    ),
    flag(
        "cloning-protection-threads",
        Kind::Uint,
        "1",
        "How many finalizers of cloned claims are removed at the same time.",
    ),
    flag(
        "snapshot-orphan-sweep-interval",
        Kind::Duration,
        "5m",
        "How often finalizers are removed from snapshots that nobody restores any more. 0 is never.",
    ),
    flag(
        "provisioning-protection",
        Kind::String,
        "journal",
        "How it is remembered what the driver was asked, so that no volume is lost if claim and \
         process go: \"journal\" writes it into Leases beside the one of leader election before the \
         driver is asked, \"off\" keeps it in memory.",
    ),
];

static VOLUMES: &[Flag] = &[
    flag(
        "volume-name-prefix",
        Kind::String,
        "pvc",
        "What the names of volumes begin with.",
    ),
    flag(
        "volume-name-uuid-length",
        Kind::Int,
        "-1",
        "How many characters of the claim's UID, without dashes, a volume's name has. -1 is the \
         whole UID with its dashes.",
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
        "A snapshot is restored with another volume mode only if it is annotated so.",
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
        "How many capacities are looked at at the same time.",
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
        "Owner of the objects: 0 the pod, 1 its controller, 2 the controller of that. Negative is \
         no owner.",
    ),
    flag(
        "capacity-for-immediate-binding",
        Kind::Bool,
        "false",
        "Produce capacity also for classes with immediate binding.",
    ),
    flag(
        "kube-api-capacity-qps",
        Kind::Float,
        "1",
        "QPS limit towards the API server for capacity.",
    ),
    flag(
        "kube-api-capacity-burst",
        Kind::Int,
        "5",
        "Burst towards the API server for capacity.",
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
        METRICS,
        PPROF,
        FEATURE_GATES,
        VERSION,
        AUTOMAXPROCS,
        LOGGING,
    ],
    retired: &retired::PROVISIONER,
};
