//! Which specs run.

/// The specs that the driver's definition makes; the packages that they share code with have others.
const SUITE: &str = "External Storage";

/// Never: a second node, Windows, what changed between snapshots (no sidecar of ours), file systems that the driver does not make, and a populator whose images cannot be had.
const NEVER: &str = r"\[Disruptive\]|Feature:Windows|SELinux|snapshotmetadata|VolumeSourceXFS|any volume data source";

/// The specs about the driver that Kubernetes' tests bring along.
const MOCK: &str = "CSI Mock";

/// Of these never, besides: what is alpha, and csi-snapshotter, whose manifest pulls its image from a registry.
const NEVER_MOCK: &str = r"Feature:OffByDefault|volume snapshot";

/// Specs that need csi-resizer.
const EXPANSION: &str = "volume-expand|volume-modify";

/// Specs that need csi-snapshotter and snapshot-controller.
const SNAPSHOTS: &str = "VolumeSnapshotDataSource|volumegroupsnapshot";

/// What a run of all tests leaves out besides serial specs: those that prove a kubelet more than
/// sidecars, and of snapshots those that are like others.
const LONG: &str = r"subPath|fsgroupchangepolicy|volumeIO|Ephemeral Snapshot|volumegroupsnapshot|snapshot data source \(ROX mode\)";

/// Specs that share one process of the suite, or one group of processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    /// Side by side; they mostly wait.
    Parallel,
    /// Side by side, but each starts a driver with its sidecars, in pods.
    Deploying,
    /// One after the other: they need the node for themselves.
    Serial,
}

impl Part {
    /// Its name in files and messages.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Parallel => "parallel",
            Self::Deploying => "deploying",
            Self::Serial => "serial",
        }
    }

    /// What ginkgo is told.
    pub(crate) const fn flags(self) -> [&'static str; 2] {
        match self {
            Self::Parallel => ["--procs=12", "--label-filter=!Serial"],
            Self::Deploying => ["--procs=4", "--label-filter=!Serial"],
            Self::Serial => ["--procs=1", "--label-filter=Serial"],
        }
    }
}

/// Programs without which some specs cannot run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Present {
    /// csi-resizer.
    pub(crate) resizer: bool,
    /// csi-snapshotter and snapshot-controller.
    pub(crate) snapshots: bool,
}

/// Which specs run, and how.
#[derive(Debug)]
pub(crate) struct Selection {
    pub(crate) focus: String,
    pub(crate) skip: String,
    pub(crate) parts: &'static [Part],
}

impl Selection {
    /// All specs, without those that need programs that are not here.
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

    /// What fits into a run of all tests.
    pub(crate) fn quick(present: Present) -> Self {
        let all = Self::all(present);
        Self {
            skip: format!("{}|{LONG}", all.skip),
            parts: &[Part::Parallel],
            ..all
        }
    }

    /// Specs about the driver that Kubernetes' tests bring along, whose name matches.
    pub(crate) fn mock(focus: &str) -> Self {
        Self {
            focus: format!("{MOCK}.*({focus})"),
            skip: format!("{NEVER}|{NEVER_MOCK}"),
            parts: &[Part::Deploying, Part::Serial],
        }
    }

    /// Whether the suite starts driver and sidecars.
    pub(crate) fn is_mock(&self) -> bool {
        self.focus.starts_with(MOCK)
    }

    /// Only specs whose name matches.
    pub(crate) fn focused(present: Present, focus: &str) -> Self {
        Self {
            focus: format!("{SUITE}.*({focus})"),
            ..Self::all(present)
        }
    }
}
