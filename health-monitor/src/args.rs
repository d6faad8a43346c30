//! The command line: the flags of csi-external-health-monitor-controller and the configuration they produce.
//!
//! Pure, so that a table test can check the order of the validations, which determines the message and the exit code.

use std::time::Duration;

use sidecar::controller::{self, Election, Http, Pacing};
use sidecar::flags::standard::{
    AUTOMAXPROCS, CSI_ADDRESS, FEATURE_GATES, HTTP_ENDPOINT, KUBE_API, LEADER_ELECTION, LOGGING,
    METRICS, SECURE_HTTP, VERSION, WHY,
};
use sidecar::flags::{Dialect, Exit, Flag, Kind, Spec, Values, retired};
use sidecar::gates::{API_SERVER, Gate, Gates, Stage};

use crate::plan::Settings;

static FLAGS: &[Flag] = &[
    Flag::new(
        "monitor-interval",
        Kind::Duration,
        "1m",
        "Interval between the starts of two lists of volume health, and, for drivers without lists, between two \
         questions about the same volume.",
    ),
    Flag::new(
        "list-volumes-interval",
        Kind::Duration,
        "5m",
        "Interval between the starts of two calls of ListVolumes, for drivers of CSI 1.12 and older that report \
         volume conditions there.",
    ),
    Flag::new(
        "worker-threads",
        Kind::Uint,
        "10",
        "Calls about single volumes that run at the same time, and that begin in a second, at most.",
    ),
    Flag::new(
        "timeout",
        Kind::Duration,
        "15s",
        "Timeout of each call to the driver.",
    ),
    Flag::new(
        "retry-interval-start",
        Kind::Duration,
        "1s",
        "Delay before the first retry of a failed write to a claim. It doubles with each failure.",
    ),
    Flag::new(
        "retry-interval-max",
        Kind::Duration,
        "5m",
        "Longest delay before a retry.",
    ),
    Flag::new(
        "volume-list-add-interval",
        Kind::Duration,
        "5m",
        "Accepted for compatibility. New volumes are known as soon as they are bound.",
    ),
    Flag::new(
        "resync",
        Kind::Duration,
        "10m",
        "Accepted for compatibility. Every volume is looked at once in --monitor-interval.",
    ),
    Flag::new(
        "enable-node-watcher",
        Kind::Bool,
        "false",
        "Accepted for compatibility, with a warning. There is no node watcher.",
    ),
    Flag::new(
        "node-list-add-interval",
        Kind::Duration,
        "5m",
        "Accepted for compatibility. There is no node watcher.",
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
        LOGGING,
    ],
    retired: &retired::HEALTH_MONITOR,
};

/// The feature gate that upstream defines itself. This program always releases the Lease, whatever the gate says.
pub static GATES: &[Gate] = &[Gate::new(
    "ReleaseLeaderElectionOnExit",
    false,
    Stage::Alpha,
)];

/// The command to run.
pub type Command = controller::Command<Config>;

/// Configuration of the health monitor.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// `--timeout`
    pub timeout: Duration,
    /// `--worker-threads`, and the retry delays of writes.
    pub pacing: Pacing,
    /// Settings that decisions read.
    pub settings: Settings,
    /// `--csi-address`
    pub csi_address: String,
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
    let mut gates = Gates::new(GATES).ignoring(API_SERVER);
    let mut warnings = gates.set(&values.gates("feature-gates"))?;
    if values.bool("version") {
        return Ok((Command::Version, warnings));
    }
    let http = Http::from_flags(values)?;
    let workers = usize::try_from(values.uint("worker-threads")).unwrap_or(usize::MAX);
    if workers == 0 {
        let line = "Option --worker-threads must be greater than zero";
        return Err(Exit::failure(1, line));
    }
    let duration = |name| values.duration(name).to_timeout();
    // Zero would call the driver without a pause.
    for name in ["monitor-interval", "list-volumes-interval"] {
        if duration(name).is_zero() {
            let given = values.duration(name);
            let line = format!("--{name}={given}: must be greater than zero");
            return Err(Exit::failure(1, line));
        }
    }
    if values.bool("enable-node-watcher") {
        warnings.push(
            "Flag --enable-node-watcher has no effect: there is no node watcher, and claims on failed nodes get no \
             events"
                .to_owned(),
        );
    }
    let pacing = Pacing::from_flags(values, workers);
    let config = Config {
        timeout: duration("timeout"),
        pacing,
        settings: Settings {
            interval: duration("monitor-interval"),
            list_interval: duration("list-volumes-interval"),
            workers,
        },
        csi_address: values.string("csi-address").to_owned(),
        http,
        election: Election::from_flags(values)?,
    };
    Ok((Command::Run(Box::new(config)), warnings))
}

#[cfg(test)]
mod tests;
