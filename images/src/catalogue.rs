//! The images that this project ships.

/// One image.
pub struct Entry {
    /// Name of the image, of the program in `bin/`, and of the program in the image's root
    /// directory. Upstream's entry points are `/name` as well: a pod's `command` keeps working.
    pub name: &'static str,
    /// Package that the program is built from.
    pub package: &'static str,
    /// Cargo features that it is built with.
    pub features: &'static str,
    /// Names in the root directory under which the program has another role.
    pub links: &'static [&'static str],
    /// Description in a registry.
    pub title: &'static str,
}

/// Programs of the multi-call image, sorted; a test compares them with the program's own list.
pub const PROGRAMS: &[&str] = &[
    "csi-attacher",
    "csi-external-health-monitor-controller",
    "csi-node-agent",
    "csi-node-driver-registrar",
    "csi-plugin-manager",
    "csi-provisioner",
    "csi-resizer",
    "csi-snapshot-metadata",
    "csi-snapshotter",
    "livenessprobe",
    "snapshot-controller",
];

const fn one(name: &'static str, package: &'static str, title: &'static str) -> Entry {
    Entry {
        name,
        package,
        features: "",
        links: &[],
        title,
    }
}

/// All images, in the order in which they are built.
pub const IMAGES: &[Entry] = &[
    one(
        "csi-attacher",
        "attacher",
        "Attaches and detaches CSI volumes",
    ),
    one(
        "csi-external-health-monitor-controller",
        "health-monitor",
        "Shows on claims what the CSI driver says of the health of their volumes",
    ),
    one(
        "csi-node-agent",
        "node-agent",
        "Stages and publishes CSI volumes as kubelet does, without a kubelet",
    ),
    one(
        "csi-node-driver-registrar",
        "registrar",
        "Introduces a CSI driver to kubelet",
    ),
    Entry {
        features: "plugin-manager",
        ..one(
            "csi-plugin-manager",
            "registrar",
            "Registers CSI drivers as kubelet does, without a kubelet",
        )
    },
    one(
        "csi-node-sidecars",
        "together",
        "Introduces a CSI driver to kubelet and answers for its health, in one process",
    ),
    one(
        "csi-provisioner",
        "provisioner",
        "Creates and deletes CSI volumes for claims",
    ),
    one(
        "csi-resizer",
        "resizer",
        "Expands and modifies CSI volumes for claims",
    ),
    one(
        "csi-snapshot-metadata",
        "snapshot-metadata",
        "Tells backup clients which blocks of a snapshot are allocated or have changed",
    ),
    one(
        "csi-snapshotter",
        "snapshotter",
        "Takes, finds and deletes CSI snapshots",
    ),
    one(
        "livenessprobe",
        "livenessprobe",
        "Turns a health request into a Probe of the CSI driver",
    ),
    one(
        "snapshot-controller",
        "snapshot-controller",
        "Binds VolumeSnapshots to their contents, once per cluster",
    ),
    Entry {
        links: PROGRAMS,
        ..one(
            "csi-sidecars",
            "multicall",
            "All CSI sidecars in one program: /csi-attacher, /csi-provisioner, ...",
        )
    },
];
