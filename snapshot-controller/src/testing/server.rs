//! A model API server: whole objects as JSON, versions, preconditions, finalizers, and the log that
//! watches replay.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::model::{Text, key};
use crate::plan::step::{ApiError, ErrorKind};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Kind {
    Snapshot,
    Content,
    Class,
    Claim,
    Volume,
    Node,
    Group,
    GroupContent,
    GroupClass,
}

/// A change of an object; `None` is its end.
#[derive(Clone, Debug)]
pub(crate) struct Event {
    pub(crate) version: u64,
    pub(crate) kind: Kind,
    pub(crate) key: Text,
    pub(crate) json: Option<Text>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Main,
    Status,
}

#[derive(Default)]
pub(crate) struct Server {
    pub(crate) version: u64,
    uids: u64,
    objects: BTreeMap<(Kind, Text), Value>,
    pub(crate) log: Vec<Event>,
}

pub(crate) fn error(kind: ErrorKind, message: impl Into<String>) -> ApiError {
    ApiError {
        message: message.into(),
        kind,
    }
}

fn conflict() -> ApiError {
    error(ErrorKind::Conflict, "the object has been modified")
}

impl Server {
    pub(crate) fn get(&self, kind: Kind, key: &str) -> Option<&Value> {
        self.objects.get(&(kind, Text::from(key)))
    }

    pub(crate) fn all(&self, kind: Kind) -> impl Iterator<Item = (&Text, &Value)> {
        let of = self.objects.iter();
        of.filter_map(move |((one, key), object)| (*one == kind).then_some((key, object)))
    }

    pub(crate) fn read(&self, kind: Kind, key: &str) -> Result<Text, ApiError> {
        let object = self.get(kind, key);
        let missing = || {
            error(
                ErrorKind::NotFound,
                format!("{} {key:?} not found", plural(kind)),
            )
        };
        object
            .map(|object| object.to_string().into())
            .ok_or_else(missing)
    }

    /// Creates what is not there; an object may bring its UID along.
    pub(crate) fn create(&mut self, kind: Kind, mut object: Value) -> Result<Text, ApiError> {
        let key = key_of(&object);
        if self.get(kind, &key).is_some() {
            return Err(error(ErrorKind::Exists, format!("{key} already exists")));
        }
        if object["metadata"]["uid"].is_null() {
            self.uids += 1;
            object["metadata"]["uid"] = format!("uid-{}", self.uids).into();
        }
        Ok(self.save(kind, &key, object))
    }

    pub(crate) fn patch(
        &mut self,
        kind: Kind,
        key: &str,
        part: Part,
        patch: &Value,
    ) -> Result<Text, ApiError> {
        self.read(kind, key)?;
        let before = self.get(kind, key).cloned().unwrap_or_default();
        let version = &patch["metadata"]["resourceVersion"];
        if !version.is_null() && *version != before["metadata"]["resourceVersion"] {
            return Err(conflict());
        }
        let uid = &patch["metadata"]["uid"];
        if !uid.is_null() && *uid != before["metadata"]["uid"] {
            return Err(error(ErrorKind::Refused, "the UID is another"));
        }
        let mut patched = before.clone();
        merge(&mut patched, patch);
        let mut after = before.clone();
        match part {
            Part::Status => after["status"] = patched["status"].take(),
            Part::Main => {
                after = patched;
                after["status"] = before["status"].clone();
            }
        }
        self.replace(kind, key, &before, after)
    }

    /// PUT.
    pub(crate) fn put(&mut self, kind: Kind, key: &str, object: &str) -> Result<Text, ApiError> {
        self.read(kind, key)?;
        let before = self.get(kind, key).cloned().unwrap_or_default();
        let after: Value = serde_json::from_str(object).unwrap();
        if after["metadata"]["resourceVersion"] != before["metadata"]["resourceVersion"] {
            return Err(conflict());
        }
        self.replace(kind, key, &before, after)
    }

    fn replace(
        &mut self,
        kind: Kind,
        key: &str,
        before: &Value,
        after: Value,
    ) -> Result<Text, ApiError> {
        if after == *before {
            return self.read(kind, key);
        }
        let deleting = !before["metadata"]["deletionTimestamp"].is_null();
        let held = finalizers(before);
        if deleting && finalizers(&after).iter().any(|one| !held.contains(one)) {
            let message = "no new finalizers can be added if the object is being deleted";
            return Err(error(ErrorKind::Refused, message));
        }
        Ok(self.save(kind, key, after))
    }

    /// DELETE, of any or of exactly this one.
    pub(crate) fn delete(
        &mut self,
        kind: Kind,
        key: &str,
        exactly: Option<(&str, &str)>,
    ) -> Result<Text, ApiError> {
        let json = self.read(kind, key)?;
        let mut object = self.get(kind, key).cloned().unwrap_or_default();
        let metadata = &object["metadata"];
        let same = |(uid, version): (&str, &str)| {
            metadata["uid"] == uid && metadata["resourceVersion"] == version
        };
        if !exactly.is_none_or(same) {
            return Err(conflict());
        }
        if metadata["deletionTimestamp"].is_null() {
            object["metadata"]["deletionTimestamp"] = "2026-01-02T03:04:05Z".into();
            return Ok(self.save(kind, key, object));
        }
        Ok(json)
    }

    /// Names of the claims of a namespace that have all these labels, one a line.
    pub(crate) fn claims(&self, namespace: &str, selector: &str) -> Text {
        let fits = |claim: &Value| {
            let labels = &claim["metadata"]["labels"];
            let mut terms = selector
                .split(',')
                .map(|term| term.split_once('=').unwrap());
            claim["metadata"]["namespace"] == namespace
                && terms.all(|(key, value)| labels[key] == value)
        };
        let all = self.all(Kind::Claim).filter(|(_, claim)| fits(claim));
        let names = all.map(|(_, claim)| claim["metadata"]["name"].as_str().unwrap().to_owned());
        names.collect::<Vec<_>>().join("\n").into()
    }

    /// Takes an object away, whatever its finalizers.
    pub(crate) fn strip(&mut self, kind: Kind, key: &str) {
        if self.objects.remove(&(kind, key.into())).is_some() {
            self.publish(kind, key, None);
        }
    }

    /// Makes an object what a test or a user wants it to be.
    pub(crate) fn edit(&mut self, kind: Kind, key: &str, change: impl FnOnce(&mut Value)) {
        if let Some(mut object) = self.get(kind, key).cloned() {
            change(&mut object);
            self.save(kind, key, object);
        }
    }

    fn save(&mut self, kind: Kind, key: &str, mut object: Value) -> Text {
        let deleting = !object["metadata"]["deletionTimestamp"].is_null();
        if deleting && finalizers(&object).is_empty() {
            // The real server answers with the new content and the old version.
            self.objects.remove(&(kind, key.into()));
            self.publish(kind, key, None);
            return object.to_string().into();
        }
        let version = (self.version + 1).to_string();
        object["metadata"]["resourceVersion"] = version.into();
        let json = Text::from(object.to_string());
        self.objects.insert((kind, key.into()), object);
        self.publish(kind, key, Some(json.clone()));
        json
    }

    fn publish(&mut self, kind: Kind, key: &str, json: Option<Text>) {
        self.version += 1;
        self.log.push(Event {
            version: self.version,
            kind,
            key: key.into(),
            json,
        });
    }
}

/// The key of an object.
pub(crate) fn key_of(object: &Value) -> Text {
    let metadata = &object["metadata"];
    let name = metadata["name"].as_str().unwrap_or_default();
    match metadata["namespace"].as_str() {
        Some(namespace) => key(namespace, name),
        None => name.into(),
    }
}

pub(crate) fn finalizers(object: &Value) -> Vec<String> {
    let list = object["metadata"]["finalizers"].as_array();
    let list = list.into_iter().flatten().filter_map(Value::as_str);
    list.map(str::to_owned).collect()
}

fn plural(kind: Kind) -> &'static str {
    match kind {
        Kind::Snapshot => "volumesnapshots.snapshot.storage.k8s.io",
        Kind::Content => "volumesnapshotcontents.snapshot.storage.k8s.io",
        Kind::Class => "volumesnapshotclasses.snapshot.storage.k8s.io",
        Kind::Claim => "persistentvolumeclaims",
        Kind::Volume => "persistentvolumes",
        Kind::Node => "nodes",
        Kind::Group => "volumegroupsnapshots.groupsnapshot.storage.k8s.io",
        Kind::GroupContent => "volumegroupsnapshotcontents.groupsnapshot.storage.k8s.io",
        Kind::GroupClass => "volumegroupsnapshotclasses.groupsnapshot.storage.k8s.io",
    }
}

/// RFC 7386, applied strictly.
fn merge(target: &mut Value, patch: &Value) {
    let Some(fields) = patch.as_object() else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    for (name, value) in fields {
        match value {
            Value::Null => {
                if let Some(target) = target.as_object_mut() {
                    target.remove(name);
                }
            }
            Value::Bool(_)
            | Value::Number(_)
            | Value::String(_)
            | Value::Array(_)
            | Value::Object(_) => merge(&mut target[name], value),
        }
    }
}
