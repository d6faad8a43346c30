//! What can be in one process, in the order of their leases.

use sidecar::gates::Gate;

use crate::plan::split::Program;

const NO_GATES: &[Gate] = &[];

/// All of them.
pub static ALL: &[Program] = &[
    Program {
        name: "provisioner",
        others: &["csi-provisioner", "external-provisioner"],
        spec: &provisioner::args::SPEC,
        gates: provisioner::args::GATES,
        is_for_nodes: false,
        has_own_listener: false,
    },
    Program {
        name: "attacher",
        others: &["csi-attacher", "external-attacher"],
        spec: &attacher::args::SPEC,
        gates: attacher::args::GATES,
        is_for_nodes: false,
        has_own_listener: false,
    },
    Program {
        name: "resizer",
        others: &["csi-resizer", "external-resizer"],
        spec: &resizer::args::SPEC,
        gates: resizer::args::GATES,
        is_for_nodes: false,
        has_own_listener: false,
    },
    Program {
        name: "snapshotter",
        others: &["csi-snapshotter", "external-snapshotter"],
        spec: &snapshotter::args::SPEC,
        gates: snapshotter::args::GATES,
        is_for_nodes: false,
        has_own_listener: false,
    },
    Program {
        name: "livenessprobe",
        others: &[],
        spec: &livenessprobe::args::SPEC,
        gates: NO_GATES,
        is_for_nodes: false,
        has_own_listener: true,
    },
    Program {
        name: "node-driver-registrar",
        others: &["registrar", "csi-node-driver-registrar"],
        spec: &registrar::args::SPEC,
        gates: NO_GATES,
        is_for_nodes: true,
        has_own_listener: true,
    },
];

#[cfg(test)]
mod tests;
