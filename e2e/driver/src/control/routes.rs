//! The requests of the control socket.

use std::sync::{Arc, PoisonError};

use csi_proto::csi;
use http::{Method, StatusCode};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::instrument::call::Instrument;
use crate::instrument::rules::Rule;
use crate::model::state::{Change, State};
use crate::model::volume::Attachment;
use crate::plan::Refusal;
use crate::server::listener::Listener;
use crate::service::Driver;

/// The objects that the control socket acts on.
#[derive(Debug)]
pub struct Control {
    /// The driver.
    pub driver: Arc<Driver>,
    /// Its rules and counters.
    pub instrument: Arc<Instrument>,
    /// Its socket.
    pub listener: Arc<Listener>,
}

/// A response.
#[derive(Debug)]
pub struct Reply {
    /// HTTP status.
    pub status: StatusCode,
    /// JSON.
    pub body: Value,
}

impl Reply {
    fn ok(body: Value) -> Self {
        Self {
            status: StatusCode::OK,
            body,
        }
    }

    fn error(status: StatusCode, message: impl Into<String>) -> Self {
        Self {
            status,
            body: json!({ "error": message.into() }),
        }
    }

    /// The request is invalid.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::error(StatusCode::BAD_REQUEST, message)
    }
}

/// Objects that the driver forgets; their data and mounts stay.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Forget {
    /// Everything.
    all: bool,
    /// These volumes.
    volumes: Vec<String>,
    /// The attachments of these volumes; `*` for those of all volumes.
    attachments: Vec<String>,
    /// These snapshots.
    snapshots: Vec<String>,
    /// These nodes.
    nodes: Vec<String>,
}

/// An attachment made or undone without the sidecars' knowledge.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Attach {
    volume: String,
    node: String,
    attached: bool,
    #[serde(default)]
    readonly: bool,
}

/// A snapshot that the storage's administrator takes, without a CSI call.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Snap {
    name: String,
    volume: String,
}

/// Volumes that the storage's administrator creates, without a CSI call.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Make {
    names: Vec<String>,
    bytes: i64,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Socket {
    action: SocketAction,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum SocketAction {
    Stop,
    Start,
    Remove,
    Disconnect,
}

fn parse<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T, Reply> {
    serde_json::from_slice(body).map_err(|error| Reply::bad_request(error.to_string()))
}

impl Control {
    /// Handles one request.
    pub fn route(&self, method: &Method, path: &str, body: &[u8]) -> Reply {
        let words: Vec<&str> = path.split('/').filter(|word| !word.is_empty()).collect();
        let result = match (method.as_str(), words.as_slice()) {
            ("GET", ["state"]) => self.state(),
            ("GET", ["counters"]) => Ok(json!({
                "calls": self.instrument.counters(), "in_flight": self.instrument.in_flight()
            })),
            ("GET", ["rules"]) => Ok(json!(self.instrument.rules(|rules| rules.list()))),
            ("POST", ["rules"]) => self.add_rules(body),
            ("DELETE", ["rules"]) => {
                self.instrument.rules(|rules| rules.clear());
                Ok(json!({}))
            }
            ("DELETE", ["rules", id]) => self.remove_rule(id),
            ("GET", ["settings"]) => Ok(json!(self.driver.settings())),
            ("PATCH" | "POST", ["settings"]) => self.change_settings(body),
            ("DELETE", ["settings"]) => {
                self.replace_settings(Default::default());
                Ok(json!({}))
            }
            ("POST", ["volumes"]) => self.make(body),
            ("POST", ["snapshots"]) => self.snap(body),
            ("POST", ["forget"]) => self.forget(body),
            ("POST", ["attachment"]) => self.attach(body),
            ("POST", ["socket"]) => self.socket(body),
            _ => {
                let message = format!("{method} {path} is not known, see the driver's README");
                Err(Reply::error(StatusCode::NOT_FOUND, message))
            }
        };
        result.map_or_else(|error| error, Reply::ok)
    }

    fn state(&self) -> Result<Value, Reply> {
        self.driver
            .store
            .read(state_json)
            .map_err(|error| internal(&error.into()))
    }

    fn add_rules(&self, body: &[u8]) -> Result<Value, Reply> {
        let value: Value = parse(body)?;
        let list = if value.is_array() {
            value
        } else {
            json!([value])
        };
        let parsed = serde_json::from_value::<Vec<Rule>>(list);
        let rules = parsed.map_err(|error| Reply::bad_request(error.to_string()))?;
        let ids = self.instrument.rules(|present| {
            rules
                .into_iter()
                .map(|rule| present.add(rule))
                .collect::<Vec<String>>()
        });
        Ok(json!({ "ids": ids }))
    }

    fn remove_rule(&self, id: &str) -> Result<Value, Reply> {
        if self.instrument.rules(|rules| rules.remove(id)) {
            return Ok(json!({}));
        }
        Err(Reply::error(
            StatusCode::NOT_FOUND,
            format!("there is no rule {id:?}"),
        ))
    }

    fn replace_settings(&self, settings: crate::instrument::settings::Settings) {
        let mut present = self
            .driver
            .settings
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        *present = settings;
    }

    fn change_settings(&self, body: &[u8]) -> Result<Value, Reply> {
        let changed = self.driver.settings().merge(parse(body)?);
        let settings = changed
            .map_err(|error| Reply::bad_request(sidecar::error::Chain(&error).to_string()))?;
        self.replace_settings(settings.clone());
        Ok(json!(settings))
    }

    fn forget(&self, body: &[u8]) -> Result<Value, Reply> {
        let what: Forget = parse(body)?;
        let forgotten = self.driver.store.transact(|state| {
            let changes = forget_changes(state, &what);
            let number = changes.len();
            Ok::<_, Refusal>((changes, number))
        });
        Ok(json!({ "changes": forgotten.map_err(|error| internal(&error))? }))
    }

    fn make(&self, body: &[u8]) -> Result<Value, Reply> {
        let wanted: Make = parse(body)?;
        let mut ids = Vec::new();
        for name in wanted.names {
            let request = csi::CreateVolumeRequest {
                name,
                capacity_range: Some(csi::CapacityRange {
                    required_bytes: wanted.bytes,
                    limit_bytes: 0,
                }),
                volume_capabilities: vec![mounted()],
                ..Default::default()
            };
            let made = self.driver.create_volume(&request);
            let made = made.map_err(|error| internal(&error))?;
            ids.push(
                made.volume
                    .map(|volume| volume.volume_id)
                    .unwrap_or_default(),
            );
        }
        Ok(json!({ "ids": ids }))
    }

    fn snap(&self, body: &[u8]) -> Result<Value, Reply> {
        let wanted: Snap = parse(body)?;
        let request = csi::CreateSnapshotRequest {
            name: wanted.name,
            source_volume_id: wanted.volume,
            ..Default::default()
        };
        let taken = self.driver.create_snapshot(&request);
        let taken = taken.map_err(|error| internal(&error))?.snapshot;
        Ok(json!({ "id": taken.map(|snapshot| snapshot.snapshot_id) }))
    }

    fn attach(&self, body: &[u8]) -> Result<Value, Reply> {
        let wanted: Attach = parse(body)?;
        let done = self.driver.store.transact(|state| {
            let Some(volume) = state.volumes.get(&wanted.volume) else {
                return Ok((Vec::new(), false));
            };
            let mut volume = volume.clone();
            if wanted.attached {
                let attachment = Attachment {
                    readonly: wanted.readonly,
                    access_mode: 5,
                };
                volume.attachments.insert(wanted.node.clone(), attachment);
            } else {
                volume.attachments.remove(&wanted.node);
            }
            Ok::<_, Refusal>((vec![Change::PutVolume(Box::new(volume))], true))
        });
        if done.map_err(|error| internal(&error))? {
            return Ok(json!({}));
        }
        let message = format!("there is no volume {:?}", wanted.volume);
        Err(Reply::error(StatusCode::NOT_FOUND, message))
    }

    fn socket(&self, body: &[u8]) -> Result<Value, Reply> {
        match parse::<Socket>(body)?.action {
            SocketAction::Stop => self.listener.stop(),
            SocketAction::Remove => self.listener.remove(),
            SocketAction::Disconnect => self.listener.hang_up(),
            SocketAction::Start => self.listener.start().map_err(|error| {
                let message = sidecar::error::Chain(&error).to_string();
                Reply::error(StatusCode::INTERNAL_SERVER_ERROR, message)
            })?,
        }
        Ok(json!({}))
    }
}

/// A file system, for any node.
fn mounted() -> csi::VolumeCapability {
    use csi::volume_capability::{AccessMode, AccessType, MountVolume, access_mode::Mode};
    csi::VolumeCapability {
        access_type: Some(AccessType::Mount(MountVolume::default())),
        access_mode: Some(AccessMode {
            mode: Mode::MultiNodeMultiWriter.into(),
        }),
    }
}

fn internal(error: &Refusal) -> Reply {
    Reply::error(StatusCode::INTERNAL_SERVER_ERROR, error.to_string())
}

/// The state, with a summary of leftovers.
pub fn state_json(state: &State) -> Value {
    let volumes = || state.volumes.values();
    let mut value = json!(state);
    let left_over = json!({
        "volumes": state.volumes.len(),
        "snapshots": state.snapshots.len(),
        "attachments": volumes().map(|volume| volume.attachments.len()).sum::<usize>(),
        "staged": volumes().flat_map(|volume| volume.staged.values()).map(|p| p.len()).sum::<usize>(),
        "published":
            volumes().flat_map(|volume| volume.published.values()).map(|p| p.len()).sum::<usize>(),
    });
    if let Some(members) = value.as_object_mut() {
        members.insert("left_over".to_owned(), left_over);
    }
    value
}

fn forget_changes(state: &State, what: &Forget) -> Vec<Change> {
    let mut changes = Vec::new();
    let all = what.all;
    let listed = |list: &[String], id: &String| all || list.contains(id);
    for (id, volume) in &state.volumes {
        if listed(&what.volumes, id) {
            changes.push(Change::DropVolume(id.clone()));
        } else if (what.attachments.contains(id) || what.attachments.iter().any(|it| it == "*"))
            && !volume.attachments.is_empty()
        {
            let mut volume = volume.clone();
            volume.attachments.clear();
            changes.push(Change::PutVolume(Box::new(volume)));
        }
    }
    let snapshots = state
        .snapshots
        .keys()
        .filter(|id| listed(&what.snapshots, id));
    changes.extend(snapshots.cloned().map(Change::DropSnapshot));
    let groups = state.groups.keys().filter(|_| all);
    changes.extend(groups.cloned().map(Change::DropGroup));
    let nodes = state.nodes.keys().filter(|id| what.nodes.contains(id));
    changes.extend(nodes.cloned().map(Change::DropNode));
    changes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::testing::{node, put, state, volume};

    #[test]
    fn forgetting_drops_what_is_named_and_nothing_else() {
        let mut attached = volume("v1", 1);
        attached.attachments.insert(
            "n1".to_owned(),
            Attachment {
                readonly: false,
                access_mode: 1,
            },
        );
        let state = state([put(attached), put(volume("v2", 2)), node("n1", "", 0)]);
        let ids = |body: Value| {
            let what: Forget = serde_json::from_value(body).unwrap();
            let mut after = state.clone();
            forget_changes(&state, &what)
                .into_iter()
                .for_each(|change| after.apply(change));
            let attached = after.attached_to("n1");
            (after.volumes.len(), attached, after.nodes.len())
        };
        assert_eq!(ids(json!({"volumes": ["v2"]})), (1, 1, 1));
        assert_eq!(ids(json!({"attachments": ["*"]})), (2, 0, 1));
        assert_eq!(ids(json!({"attachments": ["v2"]})), (2, 1, 1));
        assert_eq!(ids(json!({"nodes": ["n1"]})), (2, 1, 0));
        assert_eq!(
            ids(json!({"all": true})),
            (0, 0, 1),
            "nodes register at start only"
        );
    }

    #[test]
    fn the_state_counts_what_is_left() {
        let mut used = volume("v1", 1);
        used.attachments.insert(
            "n1".to_owned(),
            Attachment {
                readonly: false,
                access_mode: 1,
            },
        );
        used.staged
            .insert("n1".to_owned(), ["/s".to_owned()].into());
        let left = state_json(&state([put(used)]))["left_over"].clone();
        let expected =
            json!({"volumes": 1, "snapshots": 0, "attachments": 1, "staged": 1, "published": 0});
        assert_eq!(left, expected);
    }
}
