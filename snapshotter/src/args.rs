//! The command line: the flags of csi-snapshotter and the configuration that they result in.
//!
//! Pure, so that a test can list the order of the checks, which decides the message and the exit
//! code.

use std::time::Duration;

use sidecar::controller::flags::at_least_one;
use sidecar::controller::{self, Election, Http, Pacing};
use sidecar::flags::standard::{
    AUTOMAXPROCS, CSI_ADDRESS, HTTP_ENDPOINT, KUBE_API, LEADER_ELECTION, LOGGING, METRICS,
    SECURE_HTTP, TRACING, VERSION, WHY,
};
use sidecar::flags::{Dialect, Exit, Flag, Kind, Spec, Values, retired};
use sidecar::gates::retired::SNAPSHOTTER as RETIRED_GATES;
use sidecar::gates::{API_SERVER, Gate, Gates, Stage};

use crate::plan::Settings;
use crate::plan::settings::{Name, WHOLE_UID};

static FLAGS: &[Flag] = &[
    Flag::new(
        "resync-period",
        Kind::Duration,
        "15m",
        "Resync period: how often all cached objects are processed again, also those that wait for a retry. 0 disables it.",
    ),
    Flag::new(
        "snapshot-name-prefix",
        Kind::String,
        "snapshot",
        "Prefix of snapshot names in the storage system.",
    ),
    Flag::new(
        "snapshot-name-uuid-length",
        Kind::Int,
        "-1",
        "Number of digits of the VolumeSnapshot's UID in a snapshot's name, 1 to 32; -1 means the whole UID. With fewer than 32, two snapshots can get the same name.",
    ),
    Flag::new(
        "worker-threads",
        Kind::Int,
        "10",
        "Number of VolumeSnapshotContents processed at the same time, and the same number of VolumeGroupSnapshotContents.",
    ),
    Flag::new(
        "timeout",
        Kind::Duration,
        "1m",
        "Timeout of each call to the driver. Set it longer than the storage system takes to cut a snapshot; otherwise the call is repeated again and again.",
    ),
    Flag::new(
        "extra-create-metadata",
        Kind::Bool,
        "false",
        "Pass the names of VolumeSnapshot, namespace and VolumeSnapshotContent to the driver when it creates a snapshot.",
    ),
    Flag::new(
        "retry-interval-start",
        Kind::Duration,
        "1s",
        "Delay before the first retry, and before a snapshot that is not ready is checked again. It doubles each time.",
    ),
    Flag::new(
        "retry-interval-max",
        Kind::Duration,
        "5m",
        "Longest delay before a retry.",
    ),
    Flag::new(
        "node-deployment",
        Kind::Bool,
        "false",
        "Process only the VolumeSnapshotContents that distributed snapshotting labels with this node. Needs the environment variable NODE_NAME, and excludes --leader-election.",
    ),
    Flag::new(
        "groupsnapshot-name-prefix",
        Kind::String,
        "groupsnapshot",
        "Prefix of group snapshot names in the storage system.",
    ),
    Flag::new(
        "groupsnapshot-name-uuid-length",
        Kind::Int,
        "-1",
        "As --snapshot-name-uuid-length, for group snapshots.",
    ),
    Flag::new(
        "feature-gates",
        Kind::Gates,
        "",
        "Comma-separated Name=bool pairs that switch features: ReleaseLeaderElectionOnExit=true|false \
         (ALPHA - default=false; the lease is always released here), CSIGetSnapshot=true|false (ALPHA \
         - default=false), VolumeSnapshotTopology=true|false (ALPHA - default=false).",
    ),
];

/// All flags; they follow the rules of Go's `flag` package.
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
        VERSION,
        AUTOMAXPROCS,
        TRACING,
        LOGGING,
    ],
    retired: &retired::SNAPSHOTTER,
};

const GROUPS: &str = "CSIVolumeGroupSnapshot";
const GET_SNAPSHOT: &str = "CSIGetSnapshot";
const TOPOLOGY: &str = "VolumeSnapshotTopology";

/// Upstream's own gates, and two of this project. This program always releases its lease at exit,
/// whatever the second gate says.
pub static GATES: &[Gate] = &[
    Gate::new(GROUPS, true, Stage::Ga),
    Gate::new("ReleaseLeaderElectionOnExit", false, Stage::Alpha),
    Gate::new(GET_SNAPSHOT, false, Stage::Alpha),
    Gate::new(TOPOLOGY, false, Stage::Alpha),
];

/// The command to run.
pub type Command = controller::Command<Config>;

/// The configuration of csi-snapshotter.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// `--resync-period`; zero disables resyncs.
    pub resync: Duration,
    /// `--worker-threads` and the retry intervals.
    pub pacing: Pacing,
    /// `--timeout`
    pub timeout: Duration,
    /// `--csi-address`
    pub csi_address: String,
    /// With `--node-deployment`: `NODE_NAME`.
    pub node: Option<String>,
    /// Settings that decisions depend on.
    pub settings: Settings,
    /// Names of group snapshots; `None` with the gate `CSIVolumeGroupSnapshot` off.
    pub groups: Option<Name>,
    /// The HTTP server; `None` without an address.
    pub http: Option<Http>,
    /// Leader election; `None` without `--leader-election`.
    pub election: Option<Election>,
}

/// Turns the parsed flags into a command and warnings. The first check that fails counts.
///
/// `node_name`: the environment variable `NODE_NAME`.
///
/// # Errors
/// Exit code and a line that names the flag.
pub fn decide(values: &Values, node_name: Option<&str>) -> Result<(Command, Vec<String>), Exit> {
    let mut gates = Gates::new(GATES)
        .ignoring(API_SERVER)
        .retired(&RETIRED_GATES);
    let mut warnings = gates.set(&values.gates("feature-gates"))?;
    if values.bool("version") {
        return Ok((Command::Version, warnings));
    }
    let node = node(values, node_name)?;
    let http = Http::from_flags(values)?;
    let name = name(values, "snapshot-name-prefix", "snapshot-name-uuid-length")?;
    if name.prefix.is_empty() {
        let line = "Snapshot name prefix cannot be of length 0";
        return Err(Exit::failure(1, line));
    }
    warnings.extend(collision("snapshot-name-uuid-length", name.length));
    let pacing = Pacing::from_flags(values, at_least_one(values, "worker-threads")?);
    // An empty prefix is an error only once group snapshots are known to be served.
    let (prefix, length) = (
        "groupsnapshot-name-prefix",
        "groupsnapshot-name-uuid-length",
    );
    let groups = self::name(values, prefix, length)?;
    warnings.extend(collision(length, groups.length));
    let election = Election::from_flags(values)?;
    let duration = |name| values.duration(name).to_timeout();
    let config = Config {
        resync: duration("resync-period"),
        pacing,
        timeout: duration("timeout"),
        csi_address: values.string("csi-address").to_owned(),
        node,
        settings: Settings {
            name,
            extra_create_metadata: values.bool("extra-create-metadata"),
            get_snapshot: gates.enabled(GET_SNAPSHOT),
            topology: gates.enabled(TOPOLOGY),
            retry_max: pacing.retry_max,
        },
        groups: gates.enabled(GROUPS).then_some(groups),
        http,
        election,
    };
    Ok((Command::Run(Box::new(config)), warnings))
}

fn node(values: &Values, node_name: Option<&str>) -> Result<Option<String>, Exit> {
    if !values.bool("node-deployment") {
        return Ok(None);
    }
    if values.bool("leader-election") {
        let line = "Leader election cannot happen when node-deployment is set to true";
        return Err(Exit::failure(1, line));
    }
    match node_name.filter(|name| !name.is_empty()) {
        Some(name) => Ok(Some(name.to_owned())),
        None => Err(Exit::failure(
            1,
            "--node-deployment: the environment variable NODE_NAME must name the node; set it from \
             spec.nodeName through the downward API",
        )),
    }
}

fn name(values: &Values, prefix: &str, length: &str) -> Result<Name, Exit> {
    let number = values.int(length);
    let digits = usize::try_from(number)
        .ok()
        .filter(|n| (1..=WHOLE_UID).contains(n));
    match (digits, number) {
        (None, -1) | (Some(_), _) => Ok(Name {
            prefix: values.string(prefix).to_owned(),
            length: digits,
        }),
        (None, _) => {
            let line = format!("--{length}={number}: must be -1, or 1 to {WHOLE_UID}");
            Err(Exit::failure(1, line))
        }
    }
}

fn collision(flag: &str, length: Option<usize>) -> Option<String> {
    let length = length.filter(|length| *length < WHOLE_UID)?;
    Some(format!(
        "--{flag}={length}: snapshots whose UIDs begin alike get the same name, and only the first of \
         them is taken"
    ))
}

#[cfg(test)]
mod tests;
