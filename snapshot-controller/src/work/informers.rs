//! The caches of this process, and the changes that they report to the controller.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use sidecar::kube::cache::{Cache, Event, Source};
use sidecar::kube::interner::Interner;
use sidecar::kube::objects::node_selector;
use sidecar::lifecycle::Lifecycle;
use sidecar::node_selector::selects;

use super::executor::Engine;
use super::record::packed::{MaybePacked, Pack};
use crate::model::{
    Claim, Class, Content, Group, GroupClass, GroupContent, Node, Snapshot, Text, Volume,
};
use crate::plan::grouped;
use crate::plan::in_flight::Key;
use crate::plan::reactor::{Change, Update};
use crate::plan::{self, Settings};

/// The caches.
#[derive(Debug)]
pub struct Informers {
    /// VolumeSnapshots.
    pub snapshots: Cache<MaybePacked<Snapshot>>,
    /// VolumeSnapshotContents.
    pub contents: Cache<MaybePacked<Content>>,
    /// VolumeSnapshotClasses.
    pub classes: Cache<Class>,
    /// PersistentVolumeClaims.
    pub claims: Cache<Claim>,
    /// PersistentVolumes.
    pub volumes: Cache<Volume>,
    /// Nodes, for distributed snapshotting only.
    pub nodes: Cache<Node>,
    /// VolumeGroupSnapshots.
    pub groups: Cache<Group>,
    /// VolumeGroupSnapshotContents.
    pub group_contents: Cache<GroupContent>,
    /// VolumeGroupSnapshotClasses.
    pub group_classes: Cache<GroupClass>,
    /// Whether the three group caches are filled.
    served: AtomicBool,
    /// Whether the three group kinds are being listed.
    awaited: AtomicBool,
    settings: Settings,
}

impl Informers {
    /// Empty caches, whose changes `engine` hears. `lifecycle` is told how far VolumeSnapshots have come.
    pub(super) fn new(engine: &Weak<Engine>, settings: Settings, lifecycle: Lifecycle) -> Self {
        let lifecycle = lifecycle.owned_by({
            // Not the caches themselves, which would keep themselves.
            let engine = engine.clone();
            move |name| {
                let engine = engine.upgrade()?;
                let informers = &engine.shell().informers;
                let content = informers.contents.get(name);
                let content = content.map(|held| held.record(name).driver.clone());
                content.or_else(|| Some(informers.classes.get(name)?.driver.clone()))
            }
        });
        let strings = Interner::default();
        Self {
            snapshots: Cache::owned(engine, &strings, snapshot_changed).measured(&lifecycle),
            contents: Cache::owned(engine, &strings, content_changed),
            classes: Cache::owned(engine, &strings, class_changed),
            claims: Cache::owned(engine, &strings, claim_changed),
            volumes: Cache::owned(engine, &strings, volume_changed),
            nodes: Cache::owned(engine, &strings, |_, _| {}),
            groups: Cache::owned(engine, &strings, group_changed),
            group_contents: Cache::owned(engine, &strings, group_content_changed),
            group_classes: Cache::owned(engine, &strings, group_class_changed),
            served: AtomicBool::new(false),
            awaited: AtomicBool::new(false),
            settings,
        }
    }

    /// Notes that the group kinds are being listed.
    pub fn await_groups(&self) {
        self.awaited.store(true, Ordering::Release);
    }

    /// Group kinds did not become available in time: treats groups as unsupported. Returns the keys to requeue.
    pub fn give_groups_up(&self) -> Vec<Key> {
        self.awaited.store(false, Ordering::Release);
        self.of_groups()
    }

    /// Serves group snapshots from now on. Returns the keys to requeue.
    pub fn serve_groups(&self) -> Vec<Key> {
        self.served.store(true, Ordering::Release);
        let mut keys = self.of_groups();
        self.groups
            .for_each(|key, _| keys.push(Key::Group(key.as_str().into())));
        self.group_contents
            .for_each(|key, _| keys.push(Key::GroupContent(key.as_str().into())));
        keys
    }

    fn of_groups(&self) -> Vec<Key> {
        let mut keys = Vec::new();
        self.snapshots.for_each(|key, held| {
            keys.extend(grouped::of_snapshot(&held.record(key.as_str())));
        });
        self.contents.for_each(|key, held| {
            keys.extend(grouped::of_content(&held.record(key.as_str())));
        });
        keys
    }
}

impl plan::Informers for Informers {
    fn settings(&self) -> Settings {
        self.settings
    }

    fn snapshot(&self, key: &str) -> Option<Arc<Snapshot>> {
        Some(self.snapshots.get(key)?.record(key))
    }

    fn content(&self, name: &str) -> Option<Arc<Content>> {
        Some(self.contents.get(name)?.record(name))
    }

    fn class(&self, name: &str) -> Option<Arc<Class>> {
        self.classes.get(name)
    }

    fn default_classes(&self, driver: &str) -> Vec<Text> {
        let mut names = Vec::new();
        self.classes.for_each(|key, class| {
            if class.default && *class.driver == *driver {
                names.push(Text::from(key.as_str()));
            }
        });
        names
    }

    fn claim(&self, key: &str) -> Option<Arc<Claim>> {
        self.claims.get(key)
    }

    fn volume(&self, name: &str) -> Option<Arc<Volume>> {
        self.volumes.get(name)
    }

    fn volume_of(&self, driver: &str, handle: &str) -> Option<Arc<Volume>> {
        let mut found = Vec::new();
        self.volumes.for_each(|_, volume| {
            if { volume.csi.as_ref() }.is_some_and(|csi| csi.is(driver, handle)) {
                found.push(Arc::clone(volume));
            }
        });
        // With several volumes of the handle it is unclear which one is meant.
        found.pop().filter(|_| found.is_empty())
    }

    fn groups(&self) -> bool {
        self.served.load(Ordering::Acquire)
    }

    fn groups_are_awaited(&self) -> bool {
        self.awaited.load(Ordering::Acquire)
    }

    fn group(&self, key: &str) -> Option<Arc<Group>> {
        self.groups.get(key)
    }

    fn group_content(&self, name: &str) -> Option<Arc<GroupContent>> {
        self.group_contents.get(name)
    }

    fn group_class(&self, name: &str) -> Option<Arc<GroupClass>> {
        self.group_classes.get(name)
    }

    fn default_group_classes(&self, driver: &str) -> Vec<Text> {
        let mut names = Vec::new();
        self.group_classes.for_each(|key, class| {
            if class.0.default && *class.0.driver == *driver {
                names.push(Text::from(key.as_str()));
            }
        });
        names
    }

    fn node_for(&self, affinity: &str) -> Option<Text> {
        // No node matches an affinity that cannot be parsed.
        let terms = node_selector::terms(affinity, &Interner::default()).unwrap_or_default();
        let mut first: Option<Text> = None;
        self.nodes.for_each(|key, node| {
            let name = key.as_str();
            let earlier = first.as_deref().is_none_or(|first| name < first);
            if earlier && selects(&terms, Some(name), &node.labels) {
                first = Some(name.into());
            }
        });
        first
    }
}

fn snapshot_changed(engine: &Engine, event: Event<'_, MaybePacked<Snapshot>>) {
    match Changed::of(event) {
        Err(key) => engine.observe(Change::Resync(Key::Snapshot(key))),
        Ok(Changed { old, new, own }) => engine.observe(Change::Snapshot(Update {
            old: old.as_deref(),
            new: new.as_deref(),
            own,
        })),
    }
}

fn content_changed(engine: &Engine, event: Event<'_, MaybePacked<Content>>) {
    match Changed::of(event) {
        Err(key) => engine.observe(Change::Resync(Key::Content(key))),
        Ok(Changed { old, new, own }) => engine.observe(Change::Content(Update {
            old: old.as_deref(),
            new: new.as_deref(),
            own,
        })),
    }
}

/// A change of an object whose cached record is packed.
struct Changed<R> {
    old: Option<Arc<R>>,
    new: Option<Arc<R>>,
    own: bool,
}

impl<R: Pack> Changed<R> {
    /// # Errors
    /// The event is a resync of the object with this name.
    fn of(event: Event<'_, MaybePacked<R>>) -> Result<Self, Text> {
        match event {
            Event::Upserted {
                key,
                old,
                new,
                source,
            } => Ok(Self {
                old: old.map(|old| old.record(key.as_str())),
                new: Some(new.record(key.as_str())),
                own: source == Source::Own,
            }),
            Event::Deleted { key, old } => Ok(Self {
                old: Some(old.record(key.as_str())),
                new: None,
                own: false,
            }),
            Event::Resync { key, .. } => Err(key.as_str().into()),
        }
    }
}

/// The object's key, and its change; of a resync, the record.
fn update<R>(event: Event<'_, R>) -> (Text, Result<Update<'_, R>, &R>) {
    let (key, update) = match event {
        Event::Upserted {
            key,
            old,
            new,
            source,
        } => {
            let (old, own) = (old.map(|old| &**old), source == Source::Own);
            let new = Some(&**new);
            (key, Ok(Update { old, new, own }))
        }
        Event::Deleted { key, old } => {
            let (old, new, own) = (Some(&**old), None, false);
            (key, Ok(Update { old, new, own }))
        }
        Event::Resync { key, record } => (key, Err(&**record)),
    };
    (key.as_str().into(), update)
}

fn group_changed(engine: &Engine, event: Event<'_, Group>) {
    let (key, update) = update(event);
    let resync = |_| Change::Resync(Key::Group(key));
    engine.observe(update.map_or_else(resync, Change::Group));
}

fn group_content_changed(engine: &Engine, event: Event<'_, GroupContent>) {
    let (key, update) = update(event);
    let resync = |_| Change::Resync(Key::GroupContent(key));
    engine.observe(update.map_or_else(resync, Change::GroupContent));
}

fn group_class_changed(engine: &Engine, event: Event<'_, GroupClass>) {
    if let Event::Upserted { key, .. } | Event::Deleted { key, .. } = event {
        engine.observe(Change::GroupClass(key.as_str().into()));
    }
}

fn claim_changed(engine: &Engine, event: Event<'_, Claim>) {
    match update(event) {
        (key, Ok(update)) => engine.observe(Change::Claim(key, update)),
        // Of 50,000 claims, only those with our finalizer.
        (key, Err(record)) if record.protected.is_some() => {
            engine.observe(Change::Resync(Key::Claim(key)));
        }
        (_, Err(_)) => {}
    }
}

fn class_changed(engine: &Engine, event: Event<'_, Class>) {
    if let Event::Upserted { key, .. } | Event::Deleted { key, .. } = event {
        engine.observe(Change::Class(key.as_str().into()));
    }
}

fn volume_changed(engine: &Engine, event: Event<'_, Volume>) {
    if let Event::Upserted { key, .. } = event {
        engine.observe(Change::Volume(key.as_str().into()));
    }
}
