//! The table of flags: csi-driver-host-path's with its defaults, and those of the instrument.

use sidecar::flags::standard::LOGGING;
use sidecar::flags::{Dialect, Flag, Kind, Note, Spec, retired};

const fn flag(name: &'static str, kind: Kind, default: &'static str, help: &'static str) -> Flag {
    Flag::new(name, kind, default, help)
}

static HOSTPATH: &[Flag] = &[
    flag(
        "drivername",
        Kind::String,
        "hostpath.csi.k8s.io",
        "Name of the driver.",
    ),
    flag(
        "endpoint",
        Kind::String,
        "unix://tmp/csi.sock",
        "CSI endpoint, a unix socket.",
    ),
    flag(
        "statedir",
        Kind::String,
        "/csi-data-dir",
        "`Folder` for state and data; drivers that share it share volumes.",
    ),
    flag("nodeid", Kind::String, "", "Node id."),
    flag(
        "vendor-version",
        Kind::String,
        "default",
        "Version in the answer to GetPluginInfo.",
    ),
    flag(
        "ephemeral",
        Kind::Bool,
        "false",
        "Publish volumes in ephemeral mode even if kubelet did not ask for it.",
    )
    .noted(Note::Deprecated(
        "the driver does as kubelet asks for each volume",
    )),
    flag(
        "maxvolumespernode",
        Kind::Int,
        "0",
        "Most volumes on a node, in NodeGetInfo; 0 for no limit.",
    ),
    flag(
        "attach-limit",
        Kind::Int,
        "0",
        "Most attached volumes on a node, in NodeGetInfo and enforced by ControllerPublishVolume; 0 for no limit.",
    ),
    flag(
        "capacity",
        Kind::Strings,
        "",
        "Storage of a kind, as `KIND=QUANTITY`, in every place; can be repeated. Without it storage is unlimited.",
    ),
    flag(
        "enable-attach",
        Kind::Bool,
        "false",
        "Require ControllerPublishVolume.",
    ),
    flag(
        "enable-topology",
        Kind::Bool,
        "true",
        "Volumes belong to places.",
    ),
    flag(
        "enable-list-snapshots",
        Kind::Bool,
        "true",
        "Offer ListSnapshots.",
    ),
    flag(
        "enable-volume-expansion",
        Kind::Bool,
        "true",
        "Offer expansion.",
    ),
    flag(
        "node-expand-required",
        Kind::Bool,
        "true",
        "Offer expansion.",
    )
    .noted(Note::Deprecated("use --enable-volume-expansion")),
    flag(
        "disable-controller-expansion",
        Kind::Bool,
        "false",
        "Expansion by the node alone.",
    ),
    flag(
        "disable-node-expansion",
        Kind::Bool,
        "false",
        "Expansion by the controller alone.",
    ),
    flag(
        "enable-controller-modify-volume",
        Kind::Bool,
        "false",
        "Offer mutable parameters.",
    ),
    flag(
        "accepted-mutable-parameter-names",
        Kind::Strings,
        "",
        "Comma-separated `names` of mutable parameters; without it all names are accepted.",
    ),
    flag(
        "max-volume-size",
        Kind::Int,
        "1099511627776",
        "Largest volume in bytes.",
    ),
    flag(
        "max-volume-size-node",
        Kind::Int,
        "0",
        "Largest volume in bytes on expansion by the node; 0 for --max-volume-size.",
    ),
    flag(
        "check-volume-lifecycle",
        Kind::Bool,
        "true",
        "Refuse calls in the wrong order. (csi-driver-host-path: false)",
    ),
    flag(
        "enable-snapshot-metadata",
        Kind::Bool,
        "false",
        "Serve SnapshotMetadata, for block volumes.",
    ),
    flag("proxy-endpoint", Kind::String, "", "Not supported."),
];

static INSTRUMENT: &[Flag] = &[
    flag(
        "role",
        Kind::String,
        "all",
        "Services to offer: `controller, node or all`.",
    ),
    flag(
        "topology",
        Kind::Strings,
        "",
        "`KEY=VALUE` of this node; can be repeated. Without it topology.hostpath.csi/node=NODEID.",
    ),
    flag(
        "accept-any-node",
        Kind::Bool,
        "false",
        "Attach to nodes and create in places that no driver was started for.",
    ),
    flag(
        "volume-id-prefix",
        Kind::String,
        "",
        "What ids of volumes begin with, as those of a driver that names places in them.",
    ),
    flag(
        "fs-images",
        Kind::Bool,
        "false",
        "Keep file system volumes in images with a real file system, so that size and expansion are real.",
    ),
    flag(
        "mounts",
        Kind::String,
        "real",
        "`real`, or fake: make and remove target paths only; needs no root.",
    ),
    flag(
        "sync",
        Kind::Bool,
        "true",
        "Wait for the disk after each change of state. Only a crash of the machine can tell the difference.",
    ),
    flag(
        "record",
        Kind::String,
        "",
        "`File` to which one line per call is appended.",
    ),
    flag(
        "control",
        Kind::String,
        "",
        "Unix `socket` for rules, settings and state.",
    ),
    flag(
        "setup",
        Kind::String,
        "",
        "`File` with rules and settings that hold from the start: {\"settings\": {}, \"rules\": []}.",
    ),
    flag("seed", Kind::Int, "1", "Seed of random latencies."),
    flag(
        "version",
        Kind::Bool,
        "false",
        "Print the version and exit.",
    ),
];

/// The driver's command line.
pub static SPEC: Spec = Spec {
    dialect: Dialect::Go,
    tables: &[HOSTPATH, INSTRUMENT, LOGGING],
    retired: &retired::NONE,
};
