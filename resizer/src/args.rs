//! The command line: the flags of csi-resizer and the configuration that they result in.
//!
//! Pure, so that a test can list the order of the checks, which decides the message and the exit
//! code.

use std::time::Duration;

use sidecar::controller::flags::at_least_one;
use sidecar::controller::{self, Election, Http, Pacing};
use sidecar::flags::standard::{
    AUTOMAXPROCS, CSI_ADDRESS, HTTP_ENDPOINT, KUBE_API, LEADER_ELECTION, LOGGING, MASTER, METRICS,
    SECURE_HTTP, TRACING, VERSION, WHY,
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

/// All flags; they follow the rules of Go's `flag` package.
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
        WHY,
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

/// Upstream's own gates. This program always releases its lease at exit, whatever the last gate
/// says.
pub static GATES: &[Gate] = &[
    Gate::new(ANNOTATE, true, Stage::Beta),
    Gate::new(ATTRIBUTES_CLASS, true, Stage::Ga),
    Gate::new("ReleaseLeaderElectionOnExit", false, Stage::Alpha),
];

/// The command to run.
pub type Command = controller::Command<Config>;

/// Timeouts of calls that change volumes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// `ControllerExpandVolume`
    pub resize: Duration,
    /// `ControllerModifyVolume`
    pub modify: Duration,
}

/// The configuration of csi-resizer.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// `--resync-period`; zero disables resyncs.
    pub resync: Duration,
    /// `--workers` and the retry intervals.
    pub pacing: Pacing,
    /// `--timeout`
    pub timeout: Duration,
    /// Timeouts of calls that change volumes.
    pub timeouts: Timeouts,
    /// `--csi-address`
    pub csi_address: String,
    /// Settings that decisions depend on.
    pub settings: Settings,
    /// Whether `--feature-gates` names `VolumeAttributesClass`: then discovery of the kind is not
    /// consulted.
    pub attributes_class_given: bool,
    /// The HTTP server; `None` without an address.
    pub http: Option<Http>,
    /// Leader election; `None` without `--leader-election`.
    pub election: Option<Election>,
}

/// Turns the parsed flags into a command and warnings. The first check that fails counts.
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
    // A user who sets the older flag means all calls.
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
