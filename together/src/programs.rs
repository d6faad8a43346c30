//! The controllers and programs that a process can contain, in the order of their leases.

use sidecar::flags::standard::{AUTOMAXPROCS, HTTP_ENDPOINT, LOGGING, METRICS};
use sidecar::flags::{Dialect, Spec, retired};
#[cfg(feature = "controllers")]
use sidecar::gates::{API_SERVER, API_SERVER_0_36};
use sidecar::gates::{Gate, retired as retired_gates};

use crate::plan::split::Program;

const NO_GATES: &[Gate] = &[];

const LIVENESSPROBE: Program = Program {
    name: "livenessprobe",
    others: &[],
    spec: &livenessprobe::args::SPEC,
    gates: NO_GATES,
    ignored_gates: &[],
    retired_gates: &retired_gates::NONE,
    is_for_nodes: false,
    has_own_listener: true,
};

const REGISTRAR: Program = Program {
    name: "node-driver-registrar",
    others: &["registrar", "csi-node-driver-registrar"],
    spec: &registrar::args::SPEC,
    gates: NO_GATES,
    ignored_gates: &[],
    retired_gates: &retired_gates::NONE,
    is_for_nodes: true,
    has_own_listener: true,
};

/// The process's own flags, if no controller defines them: HTTP server, metrics and log.
pub static PROCESS: Spec = Spec {
    dialect: Dialect::Go,
    tables: &[HTTP_ENDPOINT, METRICS, AUTOMAXPROCS, LOGGING],
    retired: &retired::NONE,
};

/// The programs that a process without a Kubernetes client can contain.
pub static NODE: &[Program] = &[
    Program {
        name: Program::PROCESS,
        others: &[],
        spec: &PROCESS,
        gates: NO_GATES,
        ignored_gates: &[],
        retired_gates: &retired_gates::NONE,
        is_for_nodes: false,
        has_own_listener: false,
    },
    LIVENESSPROBE,
    // In this process, `*` includes the registrar.
    Program {
        is_for_nodes: false,
        ..REGISTRAR
    },
];

/// All controllers and programs.
#[cfg(feature = "controllers")]
pub static ALL: &[Program] = &[
    Program {
        name: "provisioner",
        others: &["csi-provisioner", "external-provisioner"],
        spec: &provisioner::args::SPEC,
        gates: provisioner::args::GATES,
        ignored_gates: API_SERVER_0_36,
        retired_gates: &retired_gates::PROVISIONER,
        is_for_nodes: false,
        has_own_listener: false,
    },
    Program {
        name: "attacher",
        others: &["csi-attacher", "external-attacher"],
        spec: &attacher::args::SPEC,
        gates: attacher::args::GATES,
        ignored_gates: API_SERVER,
        retired_gates: &retired_gates::ATTACHER,
        is_for_nodes: false,
        has_own_listener: false,
    },
    Program {
        name: "resizer",
        others: &["csi-resizer", "external-resizer"],
        spec: &resizer::args::SPEC,
        gates: resizer::args::GATES,
        ignored_gates: API_SERVER,
        retired_gates: &retired_gates::RESIZER,
        is_for_nodes: false,
        has_own_listener: false,
    },
    Program {
        name: "snapshotter",
        others: &["csi-snapshotter", "external-snapshotter"],
        spec: &snapshotter::args::SPEC,
        gates: snapshotter::args::GATES,
        ignored_gates: API_SERVER,
        retired_gates: &retired_gates::SNAPSHOTTER,
        is_for_nodes: false,
        has_own_listener: false,
    },
    Program {
        name: "health-monitor",
        others: &[
            "external-health-monitor",
            "csi-external-health-monitor-controller",
        ],
        spec: &health_monitor::args::SPEC,
        gates: health_monitor::args::GATES,
        ignored_gates: API_SERVER,
        retired_gates: &retired_gates::NONE,
        is_for_nodes: false,
        has_own_listener: false,
    },
    LIVENESSPROBE,
    REGISTRAR,
];

/// The controller or program of this name.
#[cfg(feature = "controllers")]
pub(crate) fn named(name: &str) -> Option<&'static Program> {
    ALL.iter().find(|program| program.name == name)
}

#[cfg(feature = "controllers")]
#[cfg(test)]
mod tests;
