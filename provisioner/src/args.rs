//! The command line: the flags of csi-provisioner, and the configuration that they result in.
//!
//! Pure, so that a table in a test holds the order of the checks, which determines message and exit code. The table of
//! flags is in `table`.

mod table;

use std::time::Duration;

use sidecar::controller::{self, Election, Http};
use sidecar::flags::{Exit, Values};
use sidecar::gates::retired::PROVISIONER as RETIRED_GATES;
use sidecar::gates::{API_SERVER_0_36, Gate, Gates, Stage};
use sidecar::kube::rate::Rate;
use sidecar::names::is_subdomain;

use crate::plan::request::volume_name;
use crate::plan::settings::{self, NodeDeployment, Protection, Settings};

pub use table::SPEC;

/// Exit code of upstream's fatal log lines, for every error after parsing except a failed connection to the driver.
pub const FATAL: u8 = 255;

const EXAMPLE_UID: &str = "00000000-0000-0000-0000-000000000000";

const TOPOLOGY: &str = "Topology";
const CROSS_NAMESPACE: &str = "CrossNamespaceVolumeDataSource";
const ATTRIBUTES_CLASS: &str = "VolumeAttributesClass";

/// The feature gates that upstream defines itself. This program always releases the lease, whatever the last one is set
/// to.
pub static GATES: &[Gate] = &[
    Gate::new(TOPOLOGY, true, Stage::Ga),
    Gate::new(CROSS_NAMESPACE, false, Stage::Alpha),
    Gate::new(ATTRIBUTES_CLASS, true, Stage::Ga),
    Gate::new("ReleaseLeaderElectionOnExit", false, Stage::Alpha),
];

/// Environment variables that flags depend on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Environment {
    /// `NODE_NAME`
    pub node_name: String,
    /// `NAMESPACE`
    pub namespace: String,
    /// `POD_NAME`
    pub pod_name: String,
}

impl Environment {
    /// Reads the variables through `read`.
    pub fn new(read: impl Fn(&str) -> Option<String>) -> Self {
        let read = |name| read(name).unwrap_or_default();
        Self {
            node_name: read("NODE_NAME"),
            namespace: read("NAMESPACE"),
            pod_name: read("POD_NAME"),
        }
    }
}

/// The command that the flags select.
pub type Command = controller::Command<Config>;

/// The configuration of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// `--csi-address`
    pub csi_address: String,
    /// `--timeout`
    pub timeout: Duration,
    /// `--worker-threads`: the number of claims, and of volumes, that are worked on at the same time.
    pub threads: usize,
    /// `--retry-interval-start`
    pub retry_start: Duration,
    /// `--retry-interval-max`
    pub retry_max: Duration,
    /// `--cloning-protection-threads`
    pub clone_threads: usize,
    /// `--snapshot-orphan-sweep-interval`; `None` disables the sweep.
    pub sweep: Option<Duration>,
    /// `--leader-election-namespace`: also the namespace of the journal.
    pub lease_namespace: String,
    /// Settings of decisions; the identity is still empty.
    pub settings: Settings,
    /// Whether the gate `VolumeAttributesClass` was set, which saves the discovery.
    pub attributes_class_given: bool,
    /// `--enable-capacity` and the flags of storage capacity.
    pub capacity: Option<Capacity>,
    /// `--node-deployment-base-delay` and `--node-deployment-max-delay`.
    pub ownership: Ownership,
    /// The HTTP server, if it is enabled.
    pub http: Option<Http>,
    /// Leader election, if it is enabled.
    pub election: Option<Election>,
}

/// The producer of CSIStorageCapacity objects.
#[derive(Debug, Clone, PartialEq)]
pub struct Capacity {
    /// `NAMESPACE`
    pub namespace: String,
    /// `POD_NAME`, empty if the objects get no owner.
    pub pod_name: String,
    /// `--capacity-ownerref-level`; `None` for objects without owner.
    pub owner_level: Option<u32>,
    /// `--capacity-threads`
    pub threads: usize,
    /// `--capacity-poll-interval`
    pub poll: Duration,
    /// `--capacity-for-immediate-binding`
    pub immediate: bool,
    /// `--kube-api-capacity-qps` and `--kube-api-capacity-burst`
    pub rate: Rate,
}

/// Delays before a process takes a claim for its node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ownership {
    /// `--node-deployment-base-delay`
    pub base: Duration,
    /// `--node-deployment-max-delay`
    pub max: Duration,
}

/// The command that the flags select, with the warnings to log. The first check that fails determines the error.
///
/// # Errors
/// Exit code and a line that names the flag.
pub fn decide(values: &Values, environment: &Environment) -> Result<(Command, Vec<String>), Exit> {
    let mut gates = Gates::new(GATES)
        .ignoring(API_SERVER_0_36)
        .retired(&RETIRED_GATES);
    let warnings = gates.set(&values.gates("feature-gates"));
    let refused = |error| Exit::failure(FATAL, format_args!("--feature-gates: {error}"));
    let warnings = warnings.map_err(refused)?;
    let node = node(values, environment)?;
    if values.bool("version") {
        return Ok((Command::Version, warnings));
    }
    let http = Http::from_flags(values)?;
    let duration = |name| values.duration(name).to_timeout();
    let config = Config {
        csi_address: values.string("csi-address").to_owned(),
        timeout: duration("timeout"),
        threads: threads(values, "worker-threads")?,
        retry_start: duration("retry-interval-start"),
        retry_max: duration("retry-interval-max"),
        clone_threads: threads(values, "cloning-protection-threads")?,
        sweep: Some(duration("snapshot-orphan-sweep-interval")).filter(|every| !every.is_zero()),
        lease_namespace: values.string("leader-election-namespace").to_owned(),
        settings: settings(values, &gates, node)?,
        attributes_class_given: gates.is_explicit(ATTRIBUTES_CLASS),
        capacity: capacity(values, environment)?,
        ownership: Ownership {
            base: duration("node-deployment-base-delay"),
            max: duration("node-deployment-max-delay"),
        },
        http,
        election: Election::from_flags(values)?,
    };
    Ok((Command::Run(Box::new(config)), warnings))
}

fn node(values: &Values, environment: &Environment) -> Result<Option<NodeDeployment>, Exit> {
    if !values.bool("node-deployment") {
        return Ok(None);
    }
    if environment.node_name.is_empty() {
        return Err(Exit::failure(
            FATAL,
            "--node-deployment: the environment variable NODE_NAME must name the node; set it from \
             spec.nodeName through the downward API",
        ));
    }
    Ok(Some(NodeDeployment {
        name: environment.node_name.as_str().into(),
        immediate_binding: values.bool("node-deployment-immediate-binding"),
    }))
}

fn threads(values: &Values, name: &str) -> Result<usize, Exit> {
    match values.uint(name) {
        0 => {
            let line = format_args!("--{name}=0: must be greater than zero").to_string();
            Err(Exit::failure(1, line))
        }
        number => Ok(usize::try_from(number).unwrap_or(usize::MAX)),
    }
}

fn settings(
    values: &Values,
    gates: &Gates,
    node: Option<NodeDeployment>,
) -> Result<Settings, Exit> {
    let settings = Settings {
        volume_name_prefix: values.string("volume-name-prefix").to_owned(),
        volume_name_uuid_length: values.int("volume-name-uuid-length"),
        strict_topology: values.bool("strict-topology"),
        immediate_topology: values.bool("immediate-topology"),
        extra_create_metadata: values.bool("extra-create-metadata"),
        default_fs_type: values.string("default-fstype").to_owned(),
        publish_readonly: values.bool("controller-publish-readonly"),
        prevent_mode_conversion: values.bool("prevent-volume-mode-conversion"),
        protection: protection(values.string("provisioning-protection"))?,
        node,
        gates: settings::Gates {
            topology: gates.enabled(TOPOLOGY),
            cross_namespace: gates.enabled(CROSS_NAMESPACE),
            attributes_class: gates.enabled(ATTRIBUTES_CLASS),
        },
        identity: String::new(),
    };
    named(&settings)?;
    Ok(settings)
}

/// Rejects flags with which a PersistentVolume would have no valid name: its volume would be made, and stay in the
/// storage system.
fn named(settings: &Settings) -> Result<(), Exit> {
    match volume_name(settings, EXAMPLE_UID) {
        Ok(name) if !is_subdomain(&name) => Err(Exit::failure(
            1,
            format_args!(
                "--volume-name-prefix={} --volume-name-uuid-length={}: no PersistentVolume can be called \
                 {name:?}: up to 253 lower-case letters, digits, - and ., with letters or digits at both \
                 ends and beside each .",
                settings.volume_name_prefix, settings.volume_name_uuid_length
            ),
        )),
        // A missing name is reported on each claim.
        Ok(_) | Err(_) => Ok(()),
    }
}

fn protection(text: &str) -> Result<Protection, Exit> {
    match text {
        "journal" => Ok(Protection::Journal),
        "off" => Ok(Protection::Off),
        other => Err(Exit::failure(
            1,
            format_args!("--provisioning-protection={other}: must be journal or off"),
        )),
    }
}

fn capacity(values: &Values, environment: &Environment) -> Result<Option<Capacity>, Exit> {
    if !values.bool("enable-capacity") {
        return Ok(None);
    }
    let missing = |variable, field| {
        let line = format!(
            "--enable-capacity: the environment variable {variable} must be set; set it from \
             {field} through the downward API"
        );
        Exit::failure(FATAL, line)
    };
    let owner_level = u32::try_from(values.int("capacity-ownerref-level")).ok();
    if environment.namespace.is_empty() {
        return Err(missing("NAMESPACE", "metadata.namespace"));
    }
    if owner_level.is_some() && environment.pod_name.is_empty() {
        return Err(missing("POD_NAME", "metadata.name"));
    }
    let rate = Rate::new(
        values.float("kube-api-capacity-qps"),
        values.int("kube-api-capacity-burst"),
    );
    Ok(Some(Capacity {
        namespace: environment.namespace.clone(),
        pod_name: match owner_level {
            Some(_) => environment.pod_name.clone(),
            None => String::new(),
        },
        owner_level,
        threads: threads(values, "capacity-threads")?,
        poll: values.duration("capacity-poll-interval").to_timeout(),
        immediate: values.bool("capacity-for-immediate-binding"),
        rate: rate.map_err(|error| Exit::failure(FATAL, error))?,
    }))
}

#[cfg(test)]
mod tests;
