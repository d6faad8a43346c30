//! The command line: the flags of csi-resizer and what a combination of them asks for.
//!
//! Pure, so that the order of the checks, which decides about message and exit code, is a table in a
//! test.

use std::time::Duration;

use sidecar::controller::flags::at_least_one;
use sidecar::controller::{self, Election, Http, Pacing};
use sidecar::flags::standard::{
    AUTOMAXPROCS, CSI_ADDRESS, HTTP_ENDPOINT, KUBE_API, LEADER_ELECTION, LOGGING, MASTER, METRICS,
    SECURE_HTTP, TRACING, VERSION,
};
use sidecar::flags::{Dialect, Exit, Flag, Kind, Spec, Values, retired};
use sidecar::gates::retired::RESIZER as RETIRED_GATES;
use sidecar::gates::{API_SERVER, Gate, Gates, Stage};

use crate::plan::Settings;
use crate::plan::settings;

static FLAGS: &[Flag] = &[
    Flag::new(
        "resync-period",
        Kind::Duration,
        "10m",
        "Resync period: how often every claim with pending work is processed again. 0 disables it.",
    ),
    Flag::new(
        "workers",
        Kind::Int,
        "10",
        "Number of claims processed at the same time.",
    ),
    Flag::new(
        "timeout",
        Kind::Duration,
        "10s",
        "Timeout of calls that ask the driver who it is. If given, even with its default value, it replaces --resize-timeout and --modify-timeout.",
    ),
    Flag::new(
        "resize-timeout",
        Kind::Duration,
        "10s",
        "Timeout of each ControllerExpandVolume call. Set it longer than the storage system takes to expand a volume; otherwise the call is repeated again and again.",
    ),
    Flag::new(
        "modify-timeout",
        Kind::Duration,
        "10s",
        "Timeout of each ControllerModifyVolume call. Set it longer than the storage system takes to modify a volume.",
    ),
    Flag::new(
        "retry-interval-start",
        Kind::Duration,
        "1s",
        "Delay before the first retry of a failed expansion or modification. It doubles with each \
         failure.",
    ),
    Flag::new(
        "retry-interval-max",
        Kind::Duration,
        "5m",
        "Longest delay before a retry, and the delay after the driver rejected a size or a class as infeasible.",
    ),
    Flag::new(
        "handle-volume-inuse-error",
        Kind::Bool,
        "true",
        "Watch pods, and after FailedPrecondition do not call the driver again while a pod uses the claim.",
    ),
    Flag::new(
        "extra-modify-metadata",
        Kind::Bool,
        "false",
        "Pass the names of claim, namespace and PersistentVolume to the driver when it modifies a volume.",
    ),
    Flag::new(
        "feature-gates",
        Kind::Gates,
        "",
        "Comma-separated Name=bool pairs that switch features: AnnotateFsResize=true|false (BETA - \
         default=true), ReleaseLeaderElectionOnExit=true|false (ALPHA - default=false; the lease \
         is always released here). VolumeAttributesClass, which is on, will go.",
    ),
];

/// All flags, with the rules of Go's `flag` package.
pub static SPEC: Spec = Spec {
    dialect: Dialect::Go,
    tables: &[
        FLAGS,
        CSI_ADDRESS,
        MASTER,
        KUBE_API,
        LEADER_ELECTION,
        HTTP_ENDPOINT,
        SECURE_HTTP,
        METRICS,
        VERSION,
        AUTOMAXPROCS,
        TRACING,
        LOGGING,
    ],
    retired: &retired::RESIZER,
};

const ANNOTATE: &str = "AnnotateFsResize";
const ATTRIBUTES_CLASS: &str = "VolumeAttributesClass";

/// The gates that upstream knows by itself. The lease is always released here, whatever the last
/// one says.
pub static GATES: &[Gate] = &[
    Gate::new(ANNOTATE, true, Stage::Beta),
    Gate::new(ATTRIBUTES_CLASS, true, Stage::Ga),
    Gate::new("ReleaseLeaderElectionOnExit", false, Stage::Alpha),
];

/// What the program shall do.
pub type Command = controller::Command<Config>;

/// How long calls that change volumes may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// `ControllerExpandVolume`
    pub resize: Duration,
    /// `ControllerModifyVolume`
    pub modify: Duration,
}

/// How to expand and modify volumes.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// `--resync-period`; zero is never.
    pub resync: Duration,
    /// `--workers` and delays.
    pub pacing: Pacing,
    /// `--timeout`
    pub timeout: Duration,
    /// Of the calls that change volumes.
    pub timeouts: Timeouts,
    /// `--csi-address`
    pub csi_address: String,
    /// What decisions need.
    pub settings: Settings,
    /// Whether the gate `VolumeAttributesClass` was named: what the API server says of the kind is
    /// then nothing to go by.
    pub attributes_class_given: bool,
    /// The HTTP server, if there is to be one.
    pub http: Option<Http>,
    /// Leader election, if there is to be one.
    pub election: Option<Election>,
}

/// What the command line asks for, and what to warn about. The first check that fails counts.
///
/// # Errors
/// Exit code and a line that names the flag.
pub fn decide(values: &Values) -> Result<(Command, Vec<String>), Exit> {
    if values.bool("version") {
        return Ok((Command::Version, Vec::new()));
    }
    let http = Http::from_flags(values)?;
    let mut gates = Gates::new(GATES)
        .ignoring(API_SERVER)
        .retired(&RETIRED_GATES);
    let mut warnings = gates.set(&values.gates("feature-gates"))?;
    let duration = |name| values.duration(name).to_timeout();
    // Whoever sets the older flag means all calls.
    let mut either = |name| {
        if !values.is_set("timeout") {
            return name;
        }
        if values.is_set(name) {
            warnings.push(format!(
                "Flag --{name} has no effect beside --timeout, which is the timeout of all calls"
            ));
        }
        "timeout"
    };
    let timeouts = Timeouts {
        resize: duration(either("resize-timeout")),
        modify: duration(either("modify-timeout")),
    };
    let pacing = Pacing::from_flags(values, at_least_one(values, "workers")?);
    let config = Config {
        resync: duration("resync-period"),
        pacing,
        timeout: duration("timeout"),
        timeouts,
        csi_address: values.string("csi-address").to_owned(),
        settings: Settings {
            handle_in_use: values.bool("handle-volume-inuse-error"),
            extra_modify_metadata: values.bool("extra-modify-metadata"),
            infeasible_wait: pacing.retry_max,
            gates: settings::Gates {
                annotate: gates.enabled(ANNOTATE),
                attributes_class: gates.enabled(ATTRIBUTES_CLASS),
            },
        },
        attributes_class_given: gates.is_explicit(ATTRIBUTES_CLASS),
        http,
        election: Election::from_flags(values)?,
    };
    Ok((Command::Run(Box::new(config)), warnings))
}

#[cfg(test)]
mod tests;
