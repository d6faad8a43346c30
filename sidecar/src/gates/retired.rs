//! Feature gates that upstream's programs had in an earlier release and removed since.
//!
//! The counterpart of [`crate::flags::retired`]: manifests carry such gates for years, and upstream's
//! programs exit because of them.

/// Gates that one of upstream's programs no longer has.
#[derive(Debug)]
pub struct Retired {
    /// The program, named like its image.
    pub program: &'static str,
    /// The names of the gates by the release that removed them.
    pub releases: &'static [(&'static str, &'static [&'static str])],
}

impl Retired {
    /// The release that removed the gate.
    pub fn release(&self, gate: &str) -> Option<&'static str> {
        let mut releases = self.releases.iter();
        let release = releases.find(|(_, gates)| gates.contains(&gate));
        release.map(|(release, _)| *release)
    }
}

/// The list of programs without a predecessor.
pub static NONE: Retired = Retired {
    program: "",
    releases: &[],
};

/// Removed gates of csi-attacher.
pub static ATTACHER: Retired = Retired {
    program: "csi-attacher",
    releases: &[
        ("v4.13.0", LIBRARY_0_37),
        ("v4.12.0", LIBRARY_0_36),
        ("v4.11.0", LIBRARY_0_35),
    ],
};

/// Removed gates of csi-provisioner.
pub static PROVISIONER: Retired = Retired {
    program: "csi-provisioner",
    releases: &[
        ("v6.3.0", LIBRARY_0_36),
        ("v6.2.0", LIBRARY_0_35),
        ("v6.2.0", &["HonorPVReclaimPolicy"]),
    ],
};

/// Removed gates of csi-resizer.
pub static RESIZER: Retired = Retired {
    program: "csi-resizer",
    releases: &[
        ("v2.3.0", LIBRARY_0_37),
        ("v2.3.0", &["RecoverVolumeExpansionFailure"]),
        ("v2.2.0", LIBRARY_0_36),
        ("v2.1.0", LIBRARY_0_35),
    ],
};

/// Removed gates of csi-snapshotter.
pub static SNAPSHOTTER: Retired = Retired {
    program: "csi-snapshotter",
    releases: SNAPSHOTS,
};

/// Removed gates of snapshot-controller.
pub static SNAPSHOT_CONTROLLER: Retired = Retired {
    program: "snapshot-controller",
    releases: SNAPSHOTS,
};

const SNAPSHOTS: &[(&str, &[&str])] = &[
    ("v8.7.0", LIBRARY_0_37),
    ("v8.6.0", LIBRARY_0_36),
    ("v8.5.0", LIBRARY_0_35),
];

/// Gates that version 0.37 of the generic API server library removed.
const LIBRARY_0_37: &[&str] = &[
    "APIServerTracing",
    "AnonymousAuthConfigurableEndpoints",
    "AuthorizeWithSelectors",
    "BtreeWatchCache",
    "ConsistentListFromCache",
    "ResilientWatchCacheInitialization",
    "RetryGenerateName",
    "StreamingCollectionEncodingToJSON",
    "StreamingCollectionEncodingToProtobuf",
    "StructuredAuthenticationConfiguration",
];

/// Gates that its version 0.36 removed. No program linked them before version 0.34.
const LIBRARY_0_36: &[&str] = &[
    "StructuredAuthorizationConfiguration",
    "WatchFromStorageWithoutResourceVersion",
];

/// Gates that its version 0.35 removed.
const LIBRARY_0_35: &[&str] = &[
    "StrictCostEnforcementForVAP",
    "StrictCostEnforcementForWebhooks",
];
