//! Feature gates that upstream's programs knew in an earlier release and know no longer.
//!
//! The counterpart of [`crate::flags::retired`]: manifests carry such gates for years, and upstream's
//! programs end over them.

/// What one program of upstream's no longer knows.
#[derive(Debug)]
pub struct Retired {
    /// The program, as in the name of its image.
    pub program: &'static str,
    /// Each release that retired gates, with their names.
    pub releases: &'static [(&'static str, &'static [&'static str])],
}

impl Retired {
    /// The release that retired the gate.
    pub fn release(&self, gate: &str) -> Option<&'static str> {
        let mut releases = self.releases.iter();
        let release = releases.find(|(_, gates)| gates.contains(&gate));
        release.map(|(release, _)| *release)
    }
}

/// For programs without a predecessor.
pub static NONE: Retired = Retired {
    program: "",
    releases: &[],
};

/// csi-attacher.
pub static ATTACHER: Retired = Retired {
    program: "csi-attacher",
    releases: &[
        ("v4.13.0", LIBRARY_0_37),
        ("v4.12.0", LIBRARY_0_36),
        ("v4.11.0", LIBRARY_0_35),
    ],
};

/// csi-provisioner.
pub static PROVISIONER: Retired = Retired {
    program: "csi-provisioner",
    releases: &[
        ("v6.3.0", LIBRARY_0_36),
        ("v6.2.0", LIBRARY_0_35),
        ("v6.2.0", &["HonorPVReclaimPolicy"]),
    ],
};

/// csi-resizer.
pub static RESIZER: Retired = Retired {
    program: "csi-resizer",
    releases: &[
        ("v2.3.0", LIBRARY_0_37),
        ("v2.3.0", &["RecoverVolumeExpansionFailure"]),
        ("v2.2.0", LIBRARY_0_36),
        ("v2.1.0", LIBRARY_0_35),
    ],
};

/// csi-snapshotter.
pub static SNAPSHOTTER: Retired = Retired {
    program: "csi-snapshotter",
    releases: SNAPSHOTS,
};

/// snapshot-controller.
pub static SNAPSHOT_CONTROLLER: Retired = Retired {
    program: "snapshot-controller",
    releases: SNAPSHOTS,
};

const SNAPSHOTS: &[(&str, &[&str])] = &[
    ("v8.7.0", LIBRARY_0_37),
    ("v8.6.0", LIBRARY_0_36),
    ("v8.5.0", LIBRARY_0_35),
];

/// Those of the generic API server library which its version 0.37 dropped.
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

/// The same for its version 0.36. No program linked them before version 0.34.
const LIBRARY_0_36: &[&str] = &[
    "StructuredAuthorizationConfiguration",
    "WatchFromStorageWithoutResourceVersion",
];

/// The same for its version 0.35.
const LIBRARY_0_35: &[&str] = &[
    "StrictCostEnforcementForVAP",
    "StrictCostEnforcementForWebhooks",
];
