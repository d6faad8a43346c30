//! A small API server: whole objects as JSON, versions, preconditions, finalizers, and the log that
//! watches replay.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};
use sidecar::controller::request::Body;
use sidecar::kube::edit::Applied;

pub use sidecar::controller::request::Part;

type Text = Arc<str>;

/// The kinds of objects in a simulation.
pub trait Kind: Copy + Ord {
    /// The plural, for the server's messages.
    fn plural(self) -> &'static str;
}

/// A change of an object; without JSON its deletion.
#[derive(Clone, Debug)]
pub struct Event<K> {
    /// The version of the change.
    pub version: u64,
    /// The object's kind.
    pub kind: K,
    /// The object's key, `name` or `namespace/name`.
    pub key: Text,
    /// The object after the change.
    pub json: Option<Text>,
}

/// A small API server.
#[derive(Debug)]
pub struct Server<K> {
    /// The version of the last change.
    pub version: u64,
    uids: u64,
    objects: BTreeMap<K, BTreeMap<Text, Value>>,
    /// Every change, oldest first.
    pub log: Vec<Event<K>>,
}

impl<K> Default for Server<K> {
    fn default() -> Self {
        Self {
            version: 0,
            uids: 0,
            objects: BTreeMap::new(),
            log: Vec::new(),
        }
    }
}

/// A refused request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The reason.
    pub why: Why,
    /// The server's message.
    pub message: String,
}

/// Why the server refused a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// The object does not exist.
    NotFound,
    /// The object has changed since it was read.
    Conflict,
    /// An object of this name already exists.
    Exists,
    /// The object violates its rules.
    Invalid,
}

fn refused(why: Why, message: impl Into<String>) -> Refused {
    Refused {
        message: message.into(),
        why,
    }
}

fn conflict() -> Refused {
    refused(Why::Conflict, "the object has been modified")
}

impl<K: Kind> Server<K> {
    /// The object with this key.
    pub fn get(&self, kind: K, key: &str) -> Option<&Value> {
        self.objects.get(&kind)?.get(key)
    }

    /// All objects of a kind, by key.
    pub fn all(&self, kind: K) -> impl Iterator<Item = (&Text, &Value)> {
        self.objects.get(&kind).into_iter().flatten()
    }

    /// GETs an object.
    ///
    /// # Errors
    /// The object does not exist.
    pub fn read(&self, kind: K, key: &str) -> Result<Text, Refused> {
        let object = self.found(kind, key)?;
        Ok(object.to_string().into())
    }

    fn found(&self, kind: K, key: &str) -> Result<&Value, Refused> {
        let missing = || {
            refused(
                Why::NotFound,
                format!("{} {key:?} not found", kind.plural()),
            )
        };
        self.get(kind, key).ok_or_else(missing)
    }

    /// The names, one per line, of a namespace's objects that a label selector, `key=value` or `key`, selects.
    #[must_use]
    pub fn select(&self, kind: K, namespace: &str, selector: &str) -> Text {
        let fits = |labels: &Value| {
            let mut terms = selector.split(',');
            terms.all(|term| match term.split_once('=') {
                Some((key, value)) => labels[key] == value,
                None => labels[term].is_string(),
            })
        };
        let metadata = self.all(kind).map(|(_, object)| &object["metadata"]);
        let of = metadata.filter(|of| of["namespace"] == namespace && fits(&of["labels"]));
        let names: Vec<&str> = of.filter_map(|of| of["name"].as_str()).collect();
        names.join("\n").into()
    }

    /// Executes a controller's write. Patches are merge patches.
    ///
    /// # Errors
    /// The same as those of the real server.
    pub fn write(
        &mut self,
        kind: K,
        key: &str,
        uid: Option<&str>,
        body: &Body,
    ) -> Result<Text, Refused> {
        match body {
            Body::Patch(part, patch) => match uid {
                Some(uid) => self.patch(kind, key, *part, patch.clone().only_for(uid).body()),
                None => self.patch(kind, key, *part, patch.body()),
            },
            Body::Create(object) => self.create(kind, object.clone()),
            Body::Replace(json) => self.put(kind, key, json),
            Body::Edit(edit) => {
                let mut object = self.found(kind, key)?.clone();
                match edit.apply(uid, &mut object) {
                    Applied::Changed => self.put(kind, key, &object.to_string()),
                    Applied::Unchanged => self.read(kind, key),
                    Applied::Another => {
                        Err(refused(Why::NotFound, format!("{key} is another one")))
                    }
                }
            }
            Body::Delete(version) => self.delete(kind, key, uid.zip(version.as_deref())),
        }
    }

    /// Creates an object, which may have its own UID.
    ///
    /// # Errors
    /// The object already exists.
    pub fn create(&mut self, kind: K, mut object: Value) -> Result<Text, Refused> {
        let key = key_of(&object);
        if self.get(kind, &key).is_some() {
            return Err(refused(Why::Exists, format!("{key} already exists")));
        }
        if object["metadata"]["uid"].is_null() {
            self.uids += 1;
            object["metadata"]["uid"] = format!("uid-{}", self.uids).into();
        }
        Ok(self.save(kind, &key, object))
    }

    /// Applies a merge patch.
    ///
    /// # Errors
    /// The same as those of the real server.
    pub fn patch(
        &mut self,
        kind: K,
        key: &str,
        part: Part,
        patch: &Value,
    ) -> Result<Text, Refused> {
        let before = self.found(kind, key)?;
        let version = &patch["metadata"]["resourceVersion"];
        if !version.is_null() && *version != before["metadata"]["resourceVersion"] {
            return Err(conflict());
        }
        let uid = &patch["metadata"]["uid"];
        if !uid.is_null() && *uid != before["metadata"]["uid"] {
            return Err(refused(Why::Invalid, "the UID is another"));
        }
        let mut after = before.clone();
        match part {
            Part::Status => {
                let status = &mut after["status"];
                if let Some(patch) = patch.get("status") {
                    merge(status, patch);
                }
            }
            Part::Main => {
                let status = after["status"].take();
                merge(&mut after, patch);
                after["status"] = status;
            }
        }
        self.replace(kind, key, after)
    }

    /// Replaces an object.
    ///
    /// # Errors
    /// The same as those of the real server.
    ///
    /// # Panics
    /// If `object` is not JSON.
    pub fn put(&mut self, kind: K, key: &str, object: &str) -> Result<Text, Refused> {
        let before = self.found(kind, key)?;
        let after: Value = serde_json::from_str(object).expect("an object");
        if after["metadata"]["resourceVersion"] != before["metadata"]["resourceVersion"] {
            return Err(conflict());
        }
        self.replace(kind, key, after)
    }

    fn replace(&mut self, kind: K, key: &str, after: Value) -> Result<Text, Refused> {
        let before = self.found(kind, key)?;
        if after == *before {
            return self.read(kind, key);
        }
        let deleting = !before["metadata"]["deletionTimestamp"].is_null();
        let held = finalizers(before);
        if deleting && finalizers(&after).iter().any(|one| !held.contains(one)) {
            let message = "no new finalizers can be added if the object is being deleted";
            return Err(refused(Why::Invalid, message));
        }
        Ok(self.save(kind, key, after))
    }

    /// Deletes an object, any or only the one with this UID and version.
    ///
    /// # Errors
    /// The object does not exist, or is another one.
    pub fn delete(
        &mut self,
        kind: K,
        key: &str,
        exactly: Option<(&str, &str)>,
    ) -> Result<Text, Refused> {
        let object = self.found(kind, key)?;
        let metadata = &object["metadata"];
        let same = |(uid, version): (&str, &str)| {
            metadata["uid"] == uid && metadata["resourceVersion"] == version
        };
        if !exactly.is_none_or(same) {
            return Err(conflict());
        }
        if metadata["deletionTimestamp"].is_null() {
            let mut object = object.clone();
            object["metadata"]["deletionTimestamp"] = "2026-01-02T03:04:05Z".into();
            return Ok(self.save(kind, key, object));
        }
        self.read(kind, key)
    }

    /// Removes an object, whatever its finalizers.
    pub fn strip(&mut self, kind: K, key: &str) {
        if self.take(kind, key).is_some() {
            self.publish(kind, key, None);
        }
    }

    /// Changes an object as a test or a user wants.
    pub fn edit(&mut self, kind: K, key: &str, change: impl FnOnce(&mut Value)) {
        if let Some(mut object) = self.get(kind, key).cloned() {
            change(&mut object);
            self.save(kind, key, object);
        }
    }

    fn save(&mut self, kind: K, key: &str, mut object: Value) -> Text {
        let deleting = !object["metadata"]["deletionTimestamp"].is_null();
        if deleting && finalizers(&object).is_empty() {
            // The real server's response has the new content and the old version.
            self.take(kind, key);
            self.publish(kind, key, None);
            return object.to_string().into();
        }
        let version = (self.version + 1).to_string();
        object["metadata"]["resourceVersion"] = version.into();
        let json = Text::from(object.to_string());
        let of = self.objects.entry(kind).or_default();
        of.insert(key.into(), object);
        self.publish(kind, key, Some(json.clone()));
        json
    }

    fn take(&mut self, kind: K, key: &str) -> Option<Value> {
        self.objects.get_mut(&kind)?.remove(key)
    }

    fn publish(&mut self, kind: K, key: &str, json: Option<Text>) {
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
#[inline]
#[must_use]
pub fn key_of(object: &Value) -> Text {
    let metadata = &object["metadata"];
    let name = metadata["name"].as_str().unwrap_or_default();
    match metadata["namespace"].as_str() {
        Some(namespace) => format!("{namespace}/{name}").into(),
        None => name.into(),
    }
}

/// `metadata.finalizers`.
// Inlined: simulations are compiled with optimizations, this crate is not.
#[inline]
#[must_use]
pub fn finalizers(object: &Value) -> Vec<String> {
    let list = object["metadata"]["finalizers"].as_array();
    let list = list.into_iter().flatten().filter_map(Value::as_str);
    list.map(str::to_owned).collect()
}

/// RFC 7386, strictly applied.
#[inline]
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
