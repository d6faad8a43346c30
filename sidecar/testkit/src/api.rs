//! A model of the API server: objects with versions, patches, watches, access rules and faults.
//!
//! It gives the same responses in process ([`FakeApi::client`]) and over a socket
//! ([`FakeApi::serve`]). Nothing runs in the background: a watch is a stream that reads the history,
//! so paused time works.

pub mod access;
mod answer;
mod certificate;
pub mod fault;
mod group;
pub mod kind;
mod list;
pub(crate) mod listen;
mod patch;
pub mod record;
pub mod refusal;
mod route;
mod service;
mod store;
mod strategic;
mod validate;
mod watch;
mod write;

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::Value;

use access::{Access, Allow};
pub use certificate::ClientCertificate;
use fault::{Fault, FaultHandle, Faults};
use kind::Kind;
pub use listen::{Served, signing};
use record::Request;
use route::Target;
pub use service::{Body, Broken, Service};
use store::{Key, Store};
use watch::{Controls, Ending};

/// The model server; clones share one state.
#[derive(Clone)]
pub struct FakeApi {
    inner: Arc<Mutex<Inner>>,
    /// Grows with every change, control and request.
    changes: Arc<tokio::sync::watch::Sender<u64>>,
}

impl fmt::Debug for FakeApi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FakeApi").finish_non_exhaustive()
    }
}

#[derive(Debug)]
struct Inner {
    kinds: Vec<Arc<Kind>>,
    store: Store,
    access: Access,
    faults: Faults,
    controls: Controls,
    requests: Vec<Request>,
    /// Number of cleared records, so that numbers are never reused.
    forgotten: usize,
    down: bool,
    /// Maximum number of concurrent requests of a connection, with HTTP/2.
    streams: Option<u32>,
}

impl Default for FakeApi {
    fn default() -> Self {
        Self::new()
    }
}

/// Splits off the namespace before a slash: `va1`, `default/claim`.
fn split(name: &str) -> (&str, &str) {
    name.split_once('/').unwrap_or(("", name))
}

impl FakeApi {
    /// An empty server that allows everything.
    #[must_use]
    pub fn new() -> Self {
        let inner = Inner {
            kinds: kind::known(),
            store: Store::default(),
            access: Access::default(),
            faults: Faults::default(),
            controls: Controls::default(),
            requests: Vec::new(),
            forgotten: 0,
            down: false,
            streams: None,
        };
        let api = Self {
            inner: Arc::new(Mutex::new(inner)),
            changes: Arc::new(tokio::sync::watch::Sender::new(0)),
        };
        // Version 0 means "any" in requests; no object may have it.
        api.insert(serde_json::json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}}));
        api
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn changed(&self) {
        self.changes.send_modify(|count| *count += 1);
    }

    /// Adds a type that the model does not have.
    pub fn serve_kind(&self, kind: Kind) {
        self.lock().kinds.push(Arc::new(kind));
    }

    /// Removes a field (a JSON pointer) from the definition of a type, as in an older definition.
    pub fn forget_field(&self, resource: &str, field: &str) {
        let mut inner = self.lock();
        let of = { inner.kinds.iter_mut() }.filter(|kind| kind.resource == resource);
        for kind in of {
            Arc::make_mut(kind).without.push(field.to_owned());
        }
    }

    /// Puts back a field that [`forget_field`](Self::forget_field) has removed, as when a feature gate is switched on.
    pub fn recall_field(&self, resource: &str, field: &str) {
        let mut inner = self.lock();
        let of = { inner.kinds.iter_mut() }.filter(|kind| kind.resource == resource);
        for kind in of {
            Arc::make_mut(kind).without.retain(|known| known != field);
        }
    }

    /// Removes a type, as on an older server or one without the CRD; requests for it get 404.
    pub fn forget_kind(&self, resource: &str) {
        self.lock().kinds.retain(|kind| kind.resource != resource);
    }

    /// Removes all types of an API group.
    pub fn forget_group(&self, group: &str) {
        self.lock().kinds.retain(|kind| kind.group != group);
    }

    /// Limits the concurrent requests of new connections, with HTTP/2.
    pub fn limit_streams(&self, limit: u32) {
        self.lock().streams = Some(limit);
    }

    /// A client that calls this server without a network.
    #[must_use]
    pub fn client(&self) -> kube::Client {
        kube::Client::new(self.service(), "default")
    }

    /// The server as a tower service, below which other layers can be put.
    #[must_use]
    pub fn service(&self) -> Service {
        Service::new(self)
    }

    fn target(&self, resource: &str, name: &str) -> Target {
        let (namespace, name) = split(name);
        let inner = self.lock();
        let found = inner.kinds.iter().find(|kind| kind.resource == resource);
        let Some(kind) = found else {
            panic!("the server has no resource {resource}");
        };
        Target {
            kind: kind.clone(),
            namespace: namespace.to_owned(),
            name: Some(name.to_owned()),
            subresource: None,
        }
    }

    /// Stores an object as it is, status included, over any former one; fields that the server sets
    /// (uid, creation time, version) are set if missing.
    pub fn insert(&self, object: impl Into<Value>) -> Value {
        let mut object = object.into();
        let stored = {
            let inner = &mut *self.lock();
            let (version, name) = (&object["apiVersion"], &object["kind"]);
            let text = version.as_str().unwrap_or_default();
            let (group, of) = text.rsplit_once('/').unwrap_or(("", text));
            let mut kinds = inner.kinds.iter();
            let kind = kinds.find_map(|kind| {
                let is = kind.group == group && *name == kind.kind;
                kind.under(of).filter(|_| is)
            });
            let Some(kind) = kind else {
                panic!("the server has no {name} of {version}");
            };
            write::complete(&kind, &mut object);
            let metadata = &object["metadata"];
            let text = |field: &str| metadata[field].as_str().unwrap_or_default().to_owned();
            let key = Key::new(&kind, &text("namespace"), &text("name"));
            inner.store.put(key, object)
        };
        self.changed();
        (*stored).clone()
    }

    /// An object, if it exists. A namespaced object's name is `namespace/name`.
    #[must_use]
    pub fn object(&self, resource: &str, name: &str) -> Option<Value> {
        let target = self.target(resource, name);
        let key = Key::new(&target.kind, &target.namespace, split(name).1);
        self.lock()
            .store
            .find(&key)
            .map(|object| (**object).clone())
    }

    /// All objects of a type, by namespace and name.
    #[must_use]
    pub fn objects(&self, resource: &str) -> Vec<Value> {
        let kind = self.target(resource, "").kind;
        let inner = self.lock();
        let objects = inner.store.list(&kind, "");
        objects.map(|(_, object)| (**object).clone()).collect()
    }

    /// Changes an object as another client would, status included.
    ///
    /// # Panics
    ///
    /// If the object does not exist.
    pub fn edit(&self, resource: &str, name: &str, change: impl FnOnce(&mut Value)) -> Value {
        let Some(mut object) = self.object(resource, name) else {
            panic!("no {resource} {name} to edit");
        };
        change(&mut object);
        self.insert(object)
    }

    /// Deletes an object as a user would: finalizers hold it. Does nothing if it does not exist.
    pub fn delete(&self, resource: &str, name: &str) {
        let target = self.target(resource, name);
        // The caller wants the object gone.
        let _ = self.lock().store.delete(&target, &Value::Null);
        self.changed();
    }

    /// Removes an object at once, finalizers or not.
    pub fn remove(&self, resource: &str, name: &str) {
        let target = self.target(resource, name);
        let key = Key::new(&target.kind, &target.namespace, split(name).1);
        {
            let store = &mut self.lock().store;
            if let Some(last) = store.find(&key).cloned() {
                store.remove(&key, &last);
            }
        }
        self.changed();
    }

    /// The version of the latest change.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.lock().store.version()
    }

    /// Allows only these rules; all other requests are forbidden, in reviews and in fact.
    pub fn allow_only(&self, rules: impl IntoIterator<Item = Allow>) {
        self.lock().access.rules = Some(rules.into_iter().collect());
    }

    /// Accepts only these bearer tokens; other clients get 401.
    pub fn accept_tokens<'a>(&self, tokens: impl IntoIterator<Item = &'a str>) {
        let known = tokens.into_iter().map(|token| format!("Bearer {token}"));
        self.lock().access.known = Some(known.collect());
    }

    /// Adds a fault to the server.
    pub fn fault(&self, fault: Fault) -> FaultHandle {
        self.lock().faults.add(fault)
    }

    /// Removes all faults.
    pub fn clear_faults(&self) {
        self.lock().faults.clear();
    }

    /// While down, every connection breaks, open watches included.
    pub fn set_down(&self, down: bool) {
        {
            let inner = &mut *self.lock();
            inner.down = down;
            if down {
                inner.controls.end(Ending::Broken);
            }
        }
        self.changed();
    }

    fn control(&self, control: impl FnOnce(&mut Inner)) {
        control(&mut self.lock());
        self.changed();
    }

    /// Closes all open watches gracefully.
    pub fn close_watches(&self) {
        self.control(|inner| inner.controls.end(Ending::Clean));
    }

    /// Breaks all open watches in the middle of the stream.
    pub fn break_watches(&self) {
        self.control(|inner| inner.controls.end(Ending::Broken));
    }

    /// Ends all open watches with 410, and clears the history.
    pub fn expire_watches(&self) {
        self.control(|inner| {
            inner.store.compact();
            inner.controls.end(Ending::Expired);
        });
    }

    /// Clears the history: a watch or page from before gets 410. Open watches go on.
    pub fn compact(&self) {
        self.control(|inner| inner.store.compact());
    }

    /// Sends a bookmark on every open watch that allows them.
    pub fn send_bookmarks(&self) {
        self.control(|inner| inner.controls.bookmark());
    }

    /// Holds changes of this type back from watches: caches go stale.
    pub fn hold_watches(&self, resource: &str) {
        self.control(|inner| {
            inner.store.held.insert(resource.to_owned());
        });
    }

    /// Delivers the changes that watches of this type missed.
    pub fn release_watches(&self, resource: &str) {
        self.control(|inner| {
            inner.store.held.remove(resource);
        });
    }

    /// Number of open watches.
    #[must_use]
    pub fn open_watches(&self) -> usize {
        self.lock().controls.open()
    }

    /// Accepts `sendInitialEvents` (streaming lists), which is refused by default.
    pub fn allow_streaming_lists(&self) {
        self.lock().controls.streaming_lists = true;
    }

    /// Waits until `condition` holds, checked after every change and every request.
    ///
    /// There is no built-in time limit: a test wraps it in `tokio::time::timeout`.
    pub async fn until(&self, mut condition: impl FnMut(&Self) -> bool) {
        let mut changes = self.changes.subscribe();
        while !condition(self) {
            // The sender lives in `self`, so waiting cannot fail.
            let _ = changes.changed().await;
        }
    }
}
