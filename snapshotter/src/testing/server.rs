//! The model API server: objects, resource versions, and the log that watches replay. It applies merge
//! patches like the real one, and refuses them in the same cases.

use std::collections::BTreeMap;

use serde_json::{Map, Value};
use sidecar::snapshot::{ACCESSIBLE_TOPOLOGY, YES};

use crate::model::{Class, Content, Kind, Member, SecretRef, Status, Text};
use crate::plan::outcome::{ApiError, Refusal};
use crate::plan::request::Secrets;

/// An object and its resource version.
type Versioned<T> = (u64, T);

/// A change; `None` is the object's deletion.
#[expect(clippy::large_enum_variant, reason = "most are of the larger variant")]
#[derive(Clone, Debug)]
pub(crate) enum Event {
    Content(Text, Option<Content>),
    Class(Text, Option<Class>),
}

#[derive(Default)]
pub(crate) struct Server {
    version: u64,
    pub(crate) contents: BTreeMap<Text, Versioned<Content>>,
    pub(crate) classes: BTreeMap<Text, Versioned<Class>>,
    /// `None`: a value of it is not text.
    pub(crate) secrets: BTreeMap<SecretRef, Option<Secrets>>,
    /// Patches that changed nothing, and so created no version.
    pub(crate) idle: Vec<String>,
    /// The effect of a definition without a field, or of an admission webhook, on a patched content: the
    /// content before, and after.
    pub(crate) undo: Option<fn(&Content, &mut Content)>,
    /// Every change with its resource version, oldest first.
    pub(crate) log: Vec<Versioned<Event>>,
}

pub(crate) fn refused(refusal: Refusal) -> ApiError {
    ApiError {
        message: "simulated".into(),
        refusal,
    }
}

impl Server {
    fn publish(&mut self, event: Event) -> u64 {
        self.log.push((self.version, event));
        self.version
    }

    /// Writes or removes a content; one that is being deleted and has no finalizers disappears.
    pub(crate) fn put(&mut self, name: &Text, object: Option<Content>) {
        self.version += 1;
        let goes = |content: &Content| content.deleting && content.finalizers.is_empty();
        if object.as_ref().is_some_and(goes) {
            // The write and the deletion are two versions.
            self.version += 1;
        }
        let object = object
            .filter(|content| !goes(content))
            .map(|content| Content {
                version: self.version,
                ..content
            });
        let version = self.publish(Event::Content(name.clone(), object.clone()));
        match object {
            Some(object) => drop(self.contents.insert(name.clone(), (version, object))),
            None => drop(self.contents.remove(name)),
        }
    }

    /// Another program changes a content; no effect if it is gone.
    pub(crate) fn change(&mut self, name: &Text, change: impl FnOnce(&mut Content)) {
        let Some((_, before)) = self.contents.get(name) else {
            return;
        };
        let mut object = before.clone();
        change(&mut object);
        // A write without a change creates no version.
        if object != *before {
            self.put(name, Some(object));
        }
    }

    pub(crate) fn put_class(&mut self, name: &Text, object: Option<Class>) {
        self.version += 1;
        let version = self.publish(Event::Class(name.clone(), object.clone()));
        match object {
            Some(object) => drop(self.classes.insert(name.clone(), (version, object))),
            None => drop(self.classes.remove(name)),
        }
    }

    /// Applies a merge patch of a content or of its status; returns the object in the response.
    pub(crate) fn patch(
        &mut self,
        name: &Text,
        (status, patch): (bool, &Value),
    ) -> Result<Versioned<Content>, ApiError> {
        let (version, before) = self.contents.get(name).ok_or(refused(Refusal::NotFound))?;
        let made_for = patch.pointer("/metadata/resourceVersion");
        let made_for = made_for.map(|version| version.as_str().unwrap_or_default());
        if made_for.is_some_and(|made_for| made_for != version.to_string()) {
            return Err(refused(Refusal::Conflict));
        }
        let mut object = before.clone();
        if status {
            merge_status(&mut object, &patch["status"])
        } else {
            merge_metadata(&mut object, &patch["metadata"])
        }
        if let Some(undo) = self.undo {
            undo(before, &mut object);
        }
        let new = |held: &&Text| !before.finalizers.contains(*held);
        if before.deleting && object.finalizers.iter().any(|held| new(&held)) {
            return Err(refused(Refusal::Other));
        }
        if object == *before {
            self.idle.push(patch.to_string());
            return Ok((*version, object));
        }
        self.put(name, Some(object.clone()));
        let last = self.version - 1;
        object.version = last;
        Ok(self.contents.get(name).cloned().unwrap_or((last, object)))
    }
}

fn merge_metadata(object: &mut Content, patch: &Value) {
    for (field, value) in fields(patch) {
        match field.as_str() {
            "resourceVersion" => {}
            "finalizers" => {
                let list = value.as_array().cloned().unwrap_or_default();
                let texts = list.iter().map(|held| held.as_str().unwrap().into());
                object.finalizers = texts.collect();
            }
            "annotations" => {
                let keys: Vec<&String> = fields(value).keys().collect();
                let mark = object.kind().being_created();
                if keys == [ACCESSIBLE_TOPOLOGY] {
                    let topology = object.topology.get_or_insert_default();
                    topology.accessible = text(&value[ACCESSIBLE_TOPOLOGY]);
                    continue;
                }
                assert_eq!(keys, [mark], "annotations of others");
                let value = value[mark].as_str();
                object.being_created = value.is_some();
                object.marked_again = value.is_some_and(|value| value != YES);
            }
            _ => panic!("patches {field}"),
        }
    }
}

fn merge_status(object: &mut Content, patch: &Value) {
    let kind = object.kind();
    let status = object.status.get_or_insert_with(Status::default);
    for (field, value) in fields(patch) {
        match (field.as_str(), kind) {
            ("snapshotHandle", Kind::Single) => status.handle = text(value),
            ("volumeGroupSnapshotHandle", Kind::Group) => status.handle = text(value),
            ("readyToUse", _) => status.ready = value.as_bool(),
            ("creationTime", Kind::Single) => status.created = value.as_i64(),
            ("creationTime", Kind::Group) => {
                status.created = value.as_str().map(|time| {
                    let time: jiff::Timestamp = time.parse().unwrap();
                    i64::try_from(time.as_nanosecond()).unwrap()
                });
            }
            ("restoreSize", Kind::Single) => status.size = value.as_i64(),
            ("volumeGroupSnapshotHandle", Kind::Single) => status.group = text(value),
            ("volumeSnapshotInfoList", Kind::Group) => {
                let list = value.as_array().expect("a list");
                status.members = list.iter().map(member).collect();
            }
            ("error", _) => status.error = value.get("message").and_then(text),
            _ => panic!("patches {field}"),
        }
    }
}

fn text(value: &Value) -> Option<Text> {
    value.as_str().map(Text::from)
}

fn member(value: &Value) -> Member {
    Member {
        volume: text(&value["volumeHandle"]).unwrap(),
        handle: text(&value["snapshotHandle"]).unwrap(),
        created: value["creationTime"].as_i64(),
        ready: value["readyToUse"].as_bool(),
        size: value["restoreSize"].as_i64(),
    }
}

fn fields(value: &Value) -> &Map<String, Value> {
    value.as_object().expect("an object")
}
