//! kube-runtime's watcher and store, for kinds with few and small objects.
//!
//! For thousands of objects use [`cache`](super::cache) and [`feed`](super::feed);
//! `docs/adr/0014-few-objects-are-watched-by-kube-runtime.md` compares the costs.

use std::collections::HashSet;
use std::convert::Infallible;
use std::fmt::Debug;
use std::hash::Hash;
use std::pin::pin;
use std::sync::Arc;

use ::kube::Api;
use ::kube::core::{DeserializeGuard, Resource};
use ::kube::runtime::WatchStreamExt as _;
use ::kube::runtime::reflector::store::Writer;
use ::kube::runtime::reflector::{Lookup, ObjectRef, Store};
use ::kube::runtime::watcher::{self, watcher};
use futures_util::StreamExt as _;
use serde::de::DeserializeOwned;
use tracing::warn;

use crate::error::Chain;

/// A change of an object; the store has it already.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change<K> {
    /// The object is new or may have changed: a list reports every object again.
    Upserted(Arc<K>),
    /// The object is gone. Carries its last known state.
    Deleted(Arc<K>),
}

/// Keeps a [`Store`] in step with the API server.
///
/// An unreadable object is logged once and keeps its last readable state: it still exists, and what
/// depends on it must not be torn down.
pub struct Informer<K>
where
    K: Lookup<DynamicType = ()> + Clone + 'static,
{
    writer: Writer<K>,
    store: Store<K>,
    unreadable: HashSet<ObjectRef<K>>,
}

impl<K> Default for Informer<K>
where
    K: Lookup<DynamicType = ()> + Clone + 'static,
{
    fn default() -> Self {
        let writer = Writer::default();
        Self {
            store: writer.as_reader(),
            writer,
            unreadable: HashSet::new(),
        }
    }
}

impl<K> Informer<K>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
    ObjectRef<K>: Hash + Eq,
{
    /// The known objects; empty until the first list is complete.
    #[must_use]
    pub fn store(&self) -> Store<K> {
        self.store.clone()
    }

    /// Lists and watches the objects that `selected` selects, and reports every change, for ever.
    /// Failures are logged and retried, after 0.8 s at first and 30 s at last.
    pub async fn run(
        mut self,
        api: Api<DeserializeGuard<K>>,
        selected: watcher::Config,
        mut changed: impl FnMut(Change<K>),
    ) -> Infallible {
        let mut events = pin!(watcher(api, selected).default_backoff());
        loop {
            // The watcher never ends.
            match events.next().await {
                Some(Ok(event)) => self.apply(event).into_iter().for_each(&mut changed),
                Some(Err(error)) => {
                    let resource = K::plural(&());
                    warn!(%resource, error = %Chain(&error), "Cannot list or watch, trying again");
                }
                None => std::future::pending().await,
            }
        }
    }

    fn apply(&mut self, event: watcher::Event<DeserializeGuard<K>>) -> Vec<Change<K>> {
        match event {
            watcher::Event::Init => {
                self.writer.apply_watcher_event(&watcher::Event::Init);
                Vec::new()
            }
            watcher::Event::InitApply(object) => {
                if let Some(object) = self.read(object) {
                    let event = watcher::Event::InitApply(object);
                    self.writer.apply_watcher_event(&event);
                }
                Vec::new()
            }
            watcher::Event::InitDone => self.finish_list(),
            watcher::Event::Apply(object) => {
                let Some(object) = self.read(object) else {
                    return Vec::new();
                };
                let change = Change::Upserted(Arc::new(object.clone()));
                let event = watcher::Event::Apply(object);
                self.writer.apply_watcher_event(&event);
                vec![change]
            }
            watcher::Event::Delete(object) => {
                let known = named(&object).and_then(|name| {
                    self.unreadable.remove(&name);
                    self.store.get(&name)
                });
                let Some(known) = known else {
                    return Vec::new();
                };
                let event = watcher::Event::Delete(K::clone(&known));
                self.writer.apply_watcher_event(&event);
                vec![Change::Deleted(known)]
            }
        }
    }

    /// Reports known objects that are not in the list as deleted.
    fn finish_list(&mut self) -> Vec<Change<K>> {
        let before = self.store.state();
        self.writer.apply_watcher_event(&watcher::Event::InitDone);
        let now = self.store.state();
        let names: HashSet<ObjectRef<K>> = now.iter().map(|it| it.to_object_ref(())).collect();
        let mut changes: Vec<Change<K>> = before
            .into_iter()
            .filter(|it| !names.contains(&it.to_object_ref(())))
            .map(Change::Deleted)
            .collect();
        changes.extend(now.into_iter().map(Change::Upserted));
        changes
    }

    /// The object, or its last known state if it is unreadable.
    fn read(&mut self, object: DeserializeGuard<K>) -> Option<K> {
        // The store panics for an object without a name.
        let Some(name) = named(&object) else {
            warn!(resource = %K::plural(&()), "Skipping an object without a name");
            return None;
        };
        if let Ok(object) = object.0 {
            self.unreadable.remove(&name);
            return Some(object);
        }
        // The decoder's error is not logged: it may quote a part of the object.
        let known = self.store.get(&name);
        if self.unreadable.insert(name.clone()) {
            let resource = K::plural(&());
            warn!(%resource, object = %name, "Cannot read the object, keeping what was known of it");
        }
        known.map(Arc::unwrap_or_clone)
    }
}

fn named<K>(object: &DeserializeGuard<K>) -> Option<ObjectRef<K>>
where
    K: Resource<DynamicType = ()>,
{
    let meta = object.meta();
    let name = meta.name.as_deref().filter(|name| !name.is_empty())?;
    let name = ObjectRef::new(name);
    Some(match &meta.namespace {
        Some(namespace) => name.within(namespace),
        None => name,
    })
}

#[cfg(test)]
mod tests;
