//! The command line: csi-attacher's flags and the configuration they produce.
//!
//! Pure, so that a table test can check the order of the validations, which determines the message
//! and the exit code.

use std::time::Duration;

use sidecar::controller::{self, Election, Http, Pacing};
use sidecar::flags::standard::{
    AUTOMAXPROCS, CSI_ADDRESS, FEATURE_GATES, HTTP_ENDPOINT, KUBE_API, LEADER_ELECTION, LOGGING,
    METRICS, SECURE_HTTP, TRACING, VERSION, WHY,
};
use sidecar::flags::{Dialect, Exit, Flag, Kind, Spec, Values, retired};
use sidecar::gates::retired::ATTACHER as RETIRED_GATES;
use sidecar::gates::{API_SERVER, Gate, Gates, Stage};

static FLAGS: &[Flag] = &[
    Flag::new(
        "resync",
        Kind::Duration,
        "10m",
        "Resync period: how often all cached objects are processed again, also those that wait for a retry. 0 disables it.",
    ),
    Flag::new(
        "timeout",
        Kind::Duration,
        "15s",
        "Timeout of each call to the driver; for ListVolumes, of all its pages together.",
    ),
    Flag::new(
        "worker-threads",
        Kind::Uint,
        "10",
        "Number of attach and detach operations, together, that run at the same time.",
    ),
    Flag::new(
        "max-entries",
        Kind::Int,
        "0",
        "Maximum number of entries in a page of ListVolumes. 0 means no limit.",
    ),
    Flag::new(
        "retry-interval-start",
        Kind::Duration,
        "1s",
        "Delay before the first retry of a failed attach or detach. It doubles with each failure.",
    ),
    Flag::new(
        "retry-interval-max",
        Kind::Duration,
        "5m",
        "Longest delay before a retry.",
    ),
    Flag::new(
        "reconcile-sync",
        Kind::Duration,
        "1m",
        "Pause between comparisons of VolumeAttachments with the driver's list of published \
         volumes, for drivers that have one.",
    ),
    Flag::new(
        "default-fstype",
        Kind::String,
        "",
        "File system type of volumes that name none.",
    ),
    Flag::new(
        "max-grpc-log-length",
        Kind::Int,
        "-1",
        "Maximum length of a driver's response in the log at level 5, in bytes. 0 or less means no limit.",
    ),
];

/// All flags, parsed by the rules of Go's `flag` package.
pub static SPEC: Spec = Spec {
    dialect: Dialect::Go,
    tables: &[
        FLAGS,
        CSI_ADDRESS,
        KUBE_API,
        LEADER_ELECTION,
        HTTP_ENDPOINT,
        SECURE_HTTP,
        WHY,
        METRICS,
        FEATURE_GATES,
        VERSION,
        AUTOMAXPROCS,
        TRACING,
        LOGGING,
    ],
    retired: &retired::ATTACHER,
};

const ERROR_CODES: &str = "MutableCSINodeAllocatableCount";

/// The feature gates that upstream csi-attacher defines itself. This program always releases the
/// Lease, whatever `ReleaseLeaderElectionOnExit` says.
pub static GATES: &[Gate] = &[
    Gate::new("ReleaseLeaderElectionOnExit", false, Stage::Alpha),
    Gate::new(ERROR_CODES, true, Stage::Ga),
];

/// The command to run.
pub type Command = controller::Command<Config>;

/// Configuration of the attacher.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// `--resync`; zero disables it.
    pub resync: Duration,
    /// `--timeout`
    pub timeout: Duration,
    /// `--worker-threads` and the retry delays. As upstream does, zero threads are rejected later.
    pub pacing: Pacing,
    /// `--max-entries`
    pub max_entries: i32,
    /// `--reconcile-sync`
    pub reconcile: Duration,
    /// `--default-fstype`
    pub default_fs_type: String,
    /// `--max-grpc-log-length`
    pub response_limit: Option<usize>,
    /// `--csi-address`
    pub csi_address: String,
    /// Feature gate `MutableCSINodeAllocatableCount`
    pub error_codes: bool,
    /// The HTTP server, if one is configured.
    pub http: Option<Http>,
    /// Leader election, if it is enabled.
    pub election: Option<Election>,
}

/// The command that the flags select, and the warnings to log. Returns the first error found.
///
/// # Errors
/// Returns the exit code and a message that names the flag.
pub fn decide(values: &Values) -> Result<(Command, Vec<String>), Exit> {
    let mut gates = Gates::new(GATES)
        .ignoring(API_SERVER)
        .retired(&RETIRED_GATES);
    let warnings = gates.set(&values.gates("feature-gates"))?;
    if values.bool("version") {
        return Ok((Command::Version, warnings));
    }
    let http = Http::from_flags(values)?;
    let election = Election::from_flags(values)?;
    let duration = |name| values.duration(name).to_timeout();
    let workers = usize::try_from(values.uint("worker-threads")).unwrap_or(usize::MAX);
    let config = Config {
        resync: duration("resync"),
        timeout: duration("timeout"),
        pacing: Pacing::from_flags(values, workers),
        max_entries: narrow(values.int("max-entries")),
        reconcile: duration("reconcile-sync"),
        default_fs_type: values.string("default-fstype").to_owned(),
        response_limit: usize::try_from(values.int("max-grpc-log-length"))
            .ok()
            .filter(|limit| *limit > 0),
        csi_address: values.string("csi-address").to_owned(),
        error_codes: gates.enabled(ERROR_CODES),
        http,
        election,
    };
    Ok((Command::Run(Box::new(config)), warnings))
}

/// Clamps to the `int32` of the CSI message; upstream truncates the bits, which yields an arbitrary
/// number.
fn narrow(entries: i64) -> i32 {
    i32::try_from(entries).unwrap_or(if entries < 0 { i32::MIN } else { i32::MAX })
}

#[cfg(test)]
mod tests;
