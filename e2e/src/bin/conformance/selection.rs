//! Selects the specs of a run.

/// The specs that the driver's definition creates; the packages contain others too.
const SUITE: &str = "External Storage";

/// Specs that never run: they need a second node, Windows, changed-block metadata (no sidecar of this project), file
/// systems that the driver does not make, or a populator whose images are not available.
const NEVER: &str = r"\[Disruptive\]|Feature:Windows|SELinux|snapshotmetadata|VolumeSourceXFS|any volume data source";

/// The specs about the driver in Kubernetes' tests.
const MOCK: &str = "CSI Mock";

/// Specs about the mock driver that never run either: alpha features, and csi-snapshotter, whose manifest pulls its
/// image from a registry.
const NEVER_MOCK: &str = r"Feature:OffByDefault|volume snapshot";

/// Specs that need csi-resizer.
const EXPANSION: &str = "volume-expand|volume-modify";

/// Specs that need csi-snapshotter and snapshot-controller.
const SNAPSHOTS: &str = "VolumeSnapshotDataSource|volumegroupsnapshot";

/// Specs that a run of all tests omits besides serial ones: those that test a kubelet more than sidecars, and snapshot
/// specs that resemble others.
const LONG: &str = r"subPath|fsgroupchangepolicy|volumeIO|Ephemeral Snapshot|volumegroupsnapshot|snapshot data source \(ROX mode\)";

/// Specs that share one process of the suite, or one group of processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    /// Concurrent specs, which mostly wait.
    Parallel,
    /// Concurrent specs that each start a driver with its sidecars in pods.
    Deploying,
    /// Consecutive specs, which need the node for themselves.
    Serial,
}

impl Part {
    /// The name in files and messages.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Parallel => "parallel",
            Self::Deploying => "deploying",
            Self::Serial => "serial",
        }
    }

    /// ginkgo's flags.
    pub(crate) const fn flags(self) -> [&'static str; 2] {
        match self {
            Self::Parallel => ["--procs=12", "--label-filter=!Serial"],
            Self::Deploying => ["--procs=4", "--label-filter=!Serial"],
            Self::Serial => ["--procs=1", "--label-filter=Serial"],
        }
    }
}

/// Programs that some specs require.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Present {
    /// csi-resizer.
    pub(crate) resizer: bool,
    /// csi-snapshotter and snapshot-controller.
    pub(crate) snapshots: bool,
}

/// The selected specs, and how they run.
#[derive(Debug)]
pub(crate) struct Selection {
    pub(crate) focus: String,
    pub(crate) skip: String,
    pub(crate) parts: &'static [Part],
}

impl Selection {
    /// All specs, except those whose required programs are missing.
    pub(crate) fn all(present: Present) -> Self {
        let mut skip = vec![NEVER];
        skip.extend((!present.resizer).then_some(EXPANSION));
        skip.extend((!present.snapshots).then_some(SNAPSHOTS));
        Self {
            focus: SUITE.to_owned(),
            skip: skip.join("|"),
            parts: &[Part::Parallel, Part::Serial],
        }
    }

    /// The specs for a run of all tests.
    pub(crate) fn quick(present: Present) -> Self {
        let all = Self::all(present);
        Self {
            skip: format!("{}|{LONG}", all.skip),
            parts: &[Part::Parallel],
            ..all
        }
    }

    /// Specs about the mock driver whose name matches.
    pub(crate) fn mock(focus: &str) -> Self {
        Self {
            focus: format!("{MOCK}.*({focus})"),
            skip: format!("{NEVER}|{NEVER_MOCK}"),
            parts: &[Part::Deploying, Part::Serial],
        }
    }

    /// Whether the suite itself starts driver and sidecars.
    pub(crate) fn is_mock(&self) -> bool {
        self.focus.starts_with(MOCK)
    }

    /// Only the specs whose name matches.
    pub(crate) fn focused(present: Present, focus: &str) -> Self {
        Self {
            focus: format!("{SUITE}.*({focus})"),
            ..Self::all(present)
        }
    }
}
