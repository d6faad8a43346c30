//! The command line: csi-driver-host-path's flags, so that either can replace the other, and those
//! of the instrument.

mod table;

use std::collections::BTreeMap;
use std::path::PathBuf;

use sidecar::flags::Values;

pub use table::SPEC;

use crate::plan::Policy;
use crate::server::endpoint;
use crate::service::Identity;
use crate::service::advertise::Features;
use crate::size;

/// Topology key of csi-driver-host-path.
const HOSTPATH_TOPOLOGY_KEY: &str = "topology.hostpath.csi/node";

/// A validated command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// The driver's identity.
    pub identity: Identity,
    /// Limits and options of its decisions.
    pub policy: Policy,
    /// Its services and capabilities.
    pub features: Features,
    /// Attachments per node that ControllerPublishVolume allows, 0 for no limit.
    pub attach_limit: i64,
    /// CSI socket.
    pub endpoint: PathBuf,
    /// State folder.
    pub state: PathBuf,
    /// Whether it really mounts.
    pub mounts: bool,
    /// Whether it waits for the disk after each change.
    pub sync: bool,
    /// File of the record.
    pub record: Option<PathBuf>,
    /// Control socket.
    pub control: Option<PathBuf>,
    /// File with rules and settings.
    pub setup: Option<PathBuf>,
    /// Seed of random latencies.
    pub seed: u64,
}

/// An invalid flag.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("--{flag}: {reason}")]
pub struct Error {
    flag: &'static str,
    reason: String,
}

fn fault<T>(flag: &'static str, reason: impl Into<String>) -> Result<T, Error> {
    Err(Error {
        flag,
        reason: reason.into(),
    })
}

fn path(values: &Values, flag: &str) -> Option<PathBuf> {
    Some(values.string(flag))
        .filter(|text| !text.is_empty())
        .map(PathBuf::from)
}

fn socket(values: &Values, flag: &'static str) -> Result<PathBuf, Error> {
    endpoint::parse(values.string(flag)).map_err(|error| Error {
        flag,
        reason: error.to_string(),
    })
}

impl Config {
    /// Validates the flags.
    pub fn from_flags(values: &Values) -> Result<Self, Error> {
        if !values.string("proxy-endpoint").is_empty() {
            return fault("proxy-endpoint", "not supported by this driver");
        }
        if values.bool("ephemeral") {
            return fault("ephemeral", "not supported, inline volumes need no flag");
        }
        let features = features(values)?;
        let identity = identity(values)?;
        let control = match values.string("control") {
            "" => None,
            _ => Some(socket(values, "control")?),
        };
        Ok(Self {
            policy: policy(values, &features)?,
            identity,
            features,
            attach_limit: values.int("attach-limit"),
            endpoint: socket(values, "endpoint")?,
            state: match path(values, "statedir") {
                Some(path) => path,
                None => return fault("statedir", "must name a folder"),
            },
            mounts: match values.string("mounts") {
                "real" => true,
                "fake" => false,
                other => return fault("mounts", format!("{other:?} is neither real nor fake")),
            },
            sync: values.bool("sync"),
            record: path(values, "record"),
            control,
            setup: path(values, "setup"),
            seed: values.int("seed").unsigned_abs(),
        })
    }
}

fn features(values: &Values) -> Result<Features, Error> {
    let (controller, node) = match values.string("role") {
        "all" => (true, true),
        "controller" => (true, false),
        "node" => (false, true),
        other => {
            return fault(
                "role",
                format!("{other:?} is none of controller, node and all"),
            );
        }
    };
    Ok(Features {
        controller,
        node,
        attach: values.bool("enable-attach"),
        topology: values.bool("enable-topology"),
        controller_expansion: !values.bool("disable-controller-expansion"),
        node_expansion: !values.bool("disable-node-expansion"),
        expansion: values.bool("enable-volume-expansion") && values.bool("node-expand-required"),
        modify: values.bool("enable-controller-modify-volume"),
        list_snapshots: values.bool("enable-list-snapshots"),
        snapshot_metadata: values.bool("enable-snapshot-metadata"),
    })
}

fn identity(values: &Values) -> Result<Identity, Error> {
    let name = values.string("drivername");
    if name.is_empty() {
        return fault("drivername", "must not be empty");
    }
    let node = values.string("nodeid");
    if node.is_empty() {
        return fault("nodeid", "must not be empty");
    }
    let mut topology = BTreeMap::new();
    if values.bool("enable-topology") {
        for pair in values.strings("topology") {
            let Some((key, value)) = pair.split_once('=') else {
                return fault("topology", format!("{pair:?} is not KEY=VALUE"));
            };
            topology.insert(key.to_owned(), value.to_owned());
        }
        if topology.is_empty() {
            topology.insert(HOSTPATH_TOPOLOGY_KEY.to_owned(), node.to_owned());
        }
    }
    let limits = [values.int("maxvolumespernode"), values.int("attach-limit")];
    Ok(Identity {
        name: name.to_owned(),
        vendor_version: values.string("vendor-version").to_owned(),
        node: node.to_owned(),
        topology,
        max_volumes: limits.into_iter().find(|limit| *limit > 0).unwrap_or(0),
    })
}

fn policy(values: &Values, features: &Features) -> Result<Policy, Error> {
    let mut capacity = BTreeMap::new();
    for pair in values.strings("capacity") {
        let parsed = pair.split_once('=');
        let parsed = parsed.and_then(|(kind, text)| Some((kind, size::parse(text)?)));
        let Some((kind, bytes)) = parsed.filter(|(_, bytes)| *bytes >= 0) else {
            return fault(
                "capacity",
                format!("{pair:?} is not KIND=QUANTITY, as in fast=10Gi"),
            );
        };
        capacity.insert(kind.to_owned(), bytes);
    }
    let names = values.strings("accepted-mutable-parameter-names");
    let names = names.iter().flat_map(|list| list.split(','));
    let max = values.int("max-volume-size");
    if max <= 0 {
        return fault("max-volume-size", "must be positive");
    }
    Ok(Policy {
        max_volume_size: max,
        max_volume_size_node: match values.int("max-volume-size-node") {
            0 => max,
            bytes => bytes,
        },
        capacity,
        topology: features.topology,
        modify: features.modify,
        mutable_names: names
            .filter(|name| !name.is_empty())
            .map(str::to_owned)
            .collect(),
        check_lifecycle: values.bool("check-volume-lifecycle"),
        attach: features.attach,
        fs_images: values.bool("fs-images"),
        any_node: values.bool("accept-any-node"),
        id_prefix: values.string("volume-id-prefix").to_owned(),
        node_expansion: features.expansion && features.node_expansion,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(flags: &[&str]) -> Result<Config, String> {
        let argv = ["driver", "--nodeid=n1"]
            .iter()
            .chain(flags)
            .map(|flag| (*flag).to_owned());
        let values = sidecar::flags::parse(&SPEC, argv).map_err(|exit| exit.stderr)?;
        Config::from_flags(&values).map_err(|error| error.to_string())
    }

    #[test]
    fn the_flags_of_the_host_path_driver_are_understood() {
        let config = config(&[
            "--drivername=d",
            "-endpoint",
            "unix:///a/csi.sock",
            "--statedir=/a/state",
            "--enable-attach",
            "--capacity=fast=10Gi",
            "--capacity=slow=1Ti",
            "--attach-limit=3",
            "--enable-controller-modify-volume=true",
            "--accepted-mutable-parameter-names=a,b",
            "--max-volume-size=1000",
            "-v=5",
        ]);
        let config = config.unwrap();
        assert_eq!(config.endpoint, PathBuf::from("/a/csi.sock"));
        assert_eq!(config.policy.capacity["slow"], 1 << 40);
        assert_eq!(config.policy.mutable_names, ["a", "b"]);
        assert_eq!((config.identity.max_volumes, config.attach_limit), (3, 3));
        assert_eq!(config.identity.topology[HOSTPATH_TOPOLOGY_KEY], "n1");
        assert!(config.features.attach && config.features.controller && config.features.node);
    }

    #[test]
    fn faults_name_the_flag() {
        for (flag, name) in [
            ("--proxy-endpoint=/x", "--proxy-endpoint"),
            ("--endpoint=tcp://x", "--endpoint"),
            ("--capacity=fast", "--capacity"),
            ("--topology=zone", "--topology"),
            ("--role=both", "--role"),
            ("--mounts=no", "--mounts"),
            ("--nodeid=", "--nodeid"),
            ("--max-volume-size=0", "--max-volume-size"),
        ] {
            let error = config(&[flag]).unwrap_err();
            assert!(error.starts_with(name), "{flag}: {error}");
        }
        assert!(
            config(&["--no-such-flag"])
                .unwrap_err()
                .contains("no-such-flag")
        );
    }

    #[test]
    fn topology_can_be_given_or_switched_off() {
        let given = config(&["--topology=zone=a", "--topology=rack=r1"]).unwrap();
        assert_eq!(given.identity.topology.len(), 2);
        let off = config(&["--enable-topology=false", "--topology=zone=a"]).unwrap();
        assert!(off.identity.topology.is_empty() && !off.policy.topology);
    }
}
