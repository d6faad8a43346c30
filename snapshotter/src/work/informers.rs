//! The caches of this process, which report their changes to the controller.

use std::sync::{Arc, OnceLock, Weak};

use sidecar::kube::cache::{Cache, Event, Source};
use sidecar::kube::interner::Interner;

use super::driver::DriverView;
use super::executor::Engine;
use crate::model::{Class, Content, Text};
use crate::plan::reactor::Change;
use crate::plan::{self, Driver, Membership};

/// The caches, and the driver.
#[derive(Debug)]
pub struct Informers {
    /// Contents of all drivers.
    pub contents: Cache<Content>,
    /// Their classes, of all drivers.
    pub classes: Cache<Class>,
    /// For the engine of single snapshots: the group contents, once groups are served.
    groups: OnceLock<Cache<Content>>,
    driver: Arc<DriverView>,
}

impl Informers {
    /// Empty caches that report their changes to `engine`.
    pub(super) fn new(engine: &Weak<Engine>, driver: Arc<DriverView>) -> Self {
        let strings = Interner::default();
        Self {
            contents: Cache::owned(engine, &strings, content_changed),
            classes: Cache::owned(engine, &strings, class_changed),
            groups: OnceLock::new(),
            driver,
        }
    }

    /// Group snapshots are served from now on: looks up members in these contents.
    pub(crate) fn know_groups(&self, groups: &Cache<Content>) {
        // A second call has the same value.
        let _same = self.groups.set(groups.clone());
    }
}

impl plan::Informers for Informers {
    fn driver(&self) -> Arc<Driver> {
        self.driver.current()
    }

    fn content(&self, name: &Text) -> Option<Arc<Content>> {
        self.contents.get(name)
    }

    fn class(&self, name: &Text) -> Option<Arc<Class>> {
        self.classes.get(name)
    }

    fn member(&self, group: &Text, handle: &Text) -> Membership {
        let Some(groups) = self.groups.get() else {
            return Membership::Unknown;
        };
        let (driver, mut found) = (self.driver.current(), Membership::Absent);
        groups.for_each(|_, content| {
            let is_of = content.handle() == Some(group) && *content.driver == *driver.name;
            let members = content.status.iter().flat_map(|status| &*status.members);
            let mut member = members.filter(|member| is_of && member.handle == *handle);
            if let Some(member) = member.next() {
                found = Membership::Known(member.clone());
            }
        });
        found
    }
}

fn content_changed(engine: &Engine, event: Event<'_, Content>) {
    engine.observe(match event {
        Event::Upserted {
            key,
            old,
            new,
            source,
        } => Change::Content {
            name: key.as_str().into(),
            old: old.map(|old| &**old),
            new: Some(new),
            own: source == Source::Own,
        },
        Event::Deleted { key, old } => Change::Content {
            name: key.as_str().into(),
            old: Some(old),
            new: None,
            own: false,
        },
        Event::Resync { key, .. } => Change::Resync(key.as_str().into()),
    });
}

fn class_changed(engine: &Engine, event: Event<'_, Class>) {
    let (key, old, new) = match event {
        Event::Upserted { key, old, new, .. } => (key, old, Some(new)),
        Event::Deleted { key, old } => (key, Some(old), None),
        Event::Resync { .. } => return,
    };
    engine.observe(Change::Class {
        name: Text::from(key.as_str()),
        old: old.map(|old| &**old),
        new: new.map(|new| &**new),
    });
}
