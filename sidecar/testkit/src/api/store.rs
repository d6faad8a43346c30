//! The objects, their versions and the history that watches read.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use serde_json::Value;

use super::kind::Kind;

/// The key of an object. Ordered like lists: by namespace, then name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    pub(super) resource: Arc<str>,
    pub(super) namespace: String,
    pub(super) name: String,
}

impl Key {
    pub(super) fn new(kind: &Kind, namespace: &str, name: &str) -> Self {
        Self {
            resource: format!("{}/{}", kind.group, kind.resource).into(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        }
    }
}

/// One entry of the history.
#[derive(Clone, Debug)]
pub(super) struct Change {
    pub(super) version: u64,
    pub(super) key: Key,
    pub(super) before: Option<Arc<Value>>,
    /// The object after the change; for a removal the last state, with the version of the removal.
    pub(super) object: Arc<Value>,
    pub(super) removed: bool,
}

/// The objects and their history.
#[derive(Debug, Default)]
pub(super) struct Store {
    objects: BTreeMap<Key, Arc<Value>>,
    history: VecDeque<Change>,
    version: u64,
    compacted: u64,
    pub(super) held: BTreeSet<String>,
}

impl Store {
    pub(super) fn version(&self) -> u64 {
        self.version
    }

    /// Watches cannot start below this version any more.
    pub(super) fn compacted(&self) -> u64 {
        self.compacted
    }

    pub(super) fn compact(&mut self) {
        self.compacted = self.version;
    }

    pub(super) fn find(&self, key: &Key) -> Option<&Arc<Value>> {
        self.objects.get(key)
    }

    /// Stores `object` under the next version.
    pub(super) fn put(&mut self, key: Key, mut object: Value) -> Arc<Value> {
        self.version += 1;
        object["metadata"]["resourceVersion"] = self.version.to_string().into();
        let object = Arc::new(object);
        let before = self.objects.insert(key.clone(), object.clone());
        self.history.push_back(Change {
            version: self.version,
            key,
            before,
            object: object.clone(),
            removed: false,
        });
        object
    }

    /// Removes an object; `last` is its final state.
    pub(super) fn remove(&mut self, key: &Key, last: &Value) -> Option<Arc<Value>> {
        let before = self.objects.remove(key)?;
        self.version += 1;
        let mut last = last.clone();
        last["metadata"]["resourceVersion"] = self.version.to_string().into();
        let last = Arc::new(last);
        self.history.push_back(Change {
            version: self.version,
            key: key.clone(),
            before: Some(before),
            object: last.clone(),
            removed: true,
        });
        Some(last)
    }

    /// The objects of a type in key order, of one namespace unless that is empty.
    pub(super) fn list<'a>(
        &'a self,
        kind: &Kind,
        namespace: &'a str,
    ) -> impl Iterator<Item = (&'a Key, &'a Arc<Value>)> {
        let start = Key::new(kind, namespace, "");
        let resource = start.resource.clone();
        self.objects
            .range(start..)
            .take_while(move |(key, _)| key.resource == resource)
            .take_while(move |(key, _)| namespace.is_empty() || key.namespace == namespace)
    }

    /// The same objects at `version`.
    pub(super) fn list_at(
        &self,
        version: u64,
        kind: &Kind,
        namespace: &str,
    ) -> BTreeMap<Key, Arc<Value>> {
        let now = self.list(kind, namespace);
        let mut then: BTreeMap<_, _> = now
            .map(|(key, object)| (key.clone(), object.clone()))
            .collect();
        let resource = Key::new(kind, "", "").resource;
        let later: Vec<&Change> = self.since(version).collect();
        for change in later.into_iter().rev() {
            let key = &change.key;
            if key.resource != resource || !namespace.is_empty() && key.namespace != namespace {
                continue;
            }
            match &change.before {
                Some(before) => then.insert(key.clone(), before.clone()),
                None => then.remove(key),
            };
        }
        then
    }

    /// The changes after `version`, oldest first.
    pub(super) fn since(&self, version: u64) -> impl Iterator<Item = &Change> {
        let first = self
            .history
            .partition_point(|change| change.version <= version);
        self.history.range(first..)
    }
}
