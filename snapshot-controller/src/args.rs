//! The command line: the flags of snapshot-controller, and the configuration they add up to.
//!
//! Pure, so that the order of the checks, which determines message and exit code, is a table in a
//! test. The flags are the program's own: it has no driver, no labels on its lease, and one address.

use std::time::Duration;

use sidecar::controller::flags::at_least_one;
use sidecar::controller::{self, Election, Http, Pacing};
use sidecar::flags::standard::{
    AUTOMAXPROCS, HTTP_ENDPOINT, KUBE_API, LOGGING, METRICS_PATH, SECURE_HTTP, TRACING,
    UNLABELLED_ELECTION, VERSION, WHY,
};
use sidecar::flags::{Dialect, Exit, Flag, Kind, Spec, Values, retired};
use sidecar::gates::retired::SNAPSHOT_CONTROLLER as RETIRED_GATES;
use sidecar::gates::{API_SERVER, Gate, Gates, Stage};

use crate::plan::Settings;

static FLAGS: &[Flag] = &[
    Flag::new(
        "resync-period",
        Kind::Duration,
        "15m",
        "Resync period: how often all cached objects are processed again. 0 disables it.",
    ),
    Flag::new(
        "worker-threads",
        Kind::Int,
        "10",
        "Number of objects of each kind processed at the same time.",
    ),
    Flag::new(
        "retry-interval-start",
        Kind::Duration,
        "1s",
        "Delay before the first retry of an object that failed. It doubles with each failure.",
    ),
    Flag::new(
        "retry-interval-max",
        Kind::Duration,
        "5m",
        "Longest delay before a retry.",
    ),
    Flag::new(
        "enable-distributed-snapshotting",
        Kind::Bool,
        "false",
        "Label each VolumeSnapshotContent with a node that can reach its volume, so that the csi-snapshotter on that node handles it.",
    ),
    Flag::new(
        "prevent-volume-mode-conversion",
        Kind::Bool,
        "true",
        "Write the volume's mode into the VolumeSnapshotContent, so that a claim with another mode \
         is not restored from it unless an administrator allows that.",
    ),
    Flag::new(
        "retry-crd-interval-max",
        Kind::Duration,
        "30s",
        "How long to wait for the snapshot API at the start. Less than 1s counts as 1s.",
    ),
    Flag::new(
        "feature-gates",
        Kind::Gates,
        "",
        "Comma-separated Name=bool pairs that switch features: \
         ReleaseLeaderElectionOnExit=true|false (ALPHA - default=false; the lease is always \
         released here), VolumeSnapshotTopology=true|false (ALPHA - default=false).",
    ),
];

/// All flags, with the rules of Go's `flag` package.
pub static SPEC: Spec = Spec {
    dialect: Dialect::Go,
    tables: &[
        FLAGS,
        KUBE_API,
        UNLABELLED_ELECTION,
        HTTP_ENDPOINT,
        SECURE_HTTP,
        WHY,
        METRICS_PATH,
        VERSION,
        AUTOMAXPROCS,
        TRACING,
        LOGGING,
    ],
    retired: &retired::SNAPSHOT_CONTROLLER,
};

const GROUPS: &str = "CSIVolumeGroupSnapshot";
const TOPOLOGY: &str = "VolumeSnapshotTopology";

/// The gates that upstream declares itself, and one of ours. This program always releases its lease,
/// whatever the second gate says.
pub static GATES: &[Gate] = &[
    Gate::new(GROUPS, true, Stage::Ga),
    Gate::new("ReleaseLeaderElectionOnExit", false, Stage::Alpha),
    Gate::new(TOPOLOGY, false, Stage::Alpha),
];

/// The command that the flags select.
pub type Command = controller::Command<Config>;

/// Configuration of snapshot-controller.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// `--resync-period`; zero is never.
    pub resync: Duration,
    /// `--worker-threads` and delays.
    pub pacing: Pacing,
    /// `--retry-crd-interval-max`, at least a second: how long the start waits for the CRDs.
    pub crd_timeout: Duration,
    /// Flags and gates that decisions read.
    pub settings: Settings,
    /// Feature gate `CSIVolumeGroupSnapshot`.
    pub groups: bool,
    /// The HTTP server; `None` without an address.
    pub http: Option<Http>,
    /// Leader election; `None` without `--leader-election`.
    pub election: Option<Election>,
}

/// Builds the configuration from the flags, and the warnings to log. Reports the first check that
/// fails.
///
/// # Errors
/// Exit code and a line that names the flag.
pub fn decide(values: &Values) -> Result<(Command, Vec<String>), Exit> {
    let mut gates = Gates::new(GATES)
        .ignoring(API_SERVER)
        .retired(&RETIRED_GATES);
    let warnings = gates.set(&values.gates("feature-gates"))?;
    if values.bool("version") {
        return Ok((Command::Version, warnings));
    }
    let duration = |name| values.duration(name).to_timeout();
    let config = Config {
        resync: duration("resync-period"),
        pacing: Pacing::from_flags(values, at_least_one(values, "worker-threads")?),
        crd_timeout: duration("retry-crd-interval-max").max(Duration::from_secs(1)),
        settings: Settings {
            distributed: values.bool("enable-distributed-snapshotting"),
            keep_mode: values.bool("prevent-volume-mode-conversion"),
            topology: gates.enabled(TOPOLOGY),
        },
        groups: gates.enabled(GROUPS),
        http: Http::from_flags(values)?,
        election: Election::from_flags(values)?,
    };
    Ok((Command::Run(Box::new(config)), warnings))
}

#[cfg(test)]
mod tests;
