//! The caches of this process, and what their changes are to the controller.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use sidecar::kube::cache::{Cache, Event, Source};
use sidecar::kube::interner::Interner;

use super::executor::Engine;
use crate::model::{
    Claim, Class, Content, Group, GroupClass, GroupContent, Node, Snapshot, Text, Volume,
};
use crate::plan::affinity::Affinity;
use crate::plan::in_flight::Key;
use crate::plan::reactor::Change;
use crate::plan::{self, Settings};

/// The caches.
#[derive(Debug)]
pub struct Informers {
    /// VolumeSnapshots.
    pub snapshots: Cache<Snapshot>,
    /// VolumeSnapshotContents.
    pub contents: Cache<Content>,
    /// VolumeSnapshotClasses.
    pub classes: Cache<Class>,
    /// PersistentVolumeClaims.
    pub claims: Cache<Claim>,
    /// PersistentVolumes.
    pub volumes: Cache<Volume>,
    /// Nodes, if it matters which there are.
    pub nodes: Cache<Node>,
    /// VolumeGroupSnapshots.
    pub groups: Cache<Group>,
    /// VolumeGroupSnapshotContents.
    pub group_contents: Cache<GroupContent>,
    /// VolumeGroupSnapshotClasses.
    pub group_classes: Cache<GroupClass>,
    /// Whether those three are watched and were listed.
    served: AtomicBool,
    settings: Settings,
}

impl Informers {
    /// Empty caches, whose changes `engine` hears.
    pub(super) fn new(engine: &Weak<Engine>, settings: Settings) -> Self {
        let strings = Interner::default();
        Self {
            snapshots: Cache::owned(engine, &strings, snapshot_changed),
            contents: Cache::owned(engine, &strings, content_changed),
            classes: Cache::owned(engine, &strings, class_changed),
            claims: Cache::owned(engine, &strings, claim_changed),
            volumes: Cache::owned(engine, &strings, volume_changed),
            nodes: Cache::owned(engine, &strings, |_, _| {}),
            groups: Cache::owned(engine, &strings, group_changed),
            group_contents: Cache::owned(engine, &strings, group_content_changed),
            group_classes: Cache::owned(engine, &strings, group_class_changed),
            served: AtomicBool::new(false),
            settings,
        }
    }

    /// Group snapshots are served from now on. What is to be looked at for that.
    pub fn serve_groups(&self) -> Vec<Key> {
        self.served.store(true, Ordering::Release);
        let mut keys = Vec::new();
        self.groups
            .for_each(|key, _| keys.push(Key::Group(key.as_str().into())));
        self.group_contents
            .for_each(|key, _| keys.push(Key::GroupContent(key.as_str().into())));
        self.snapshots.for_each(|key, snapshot| {
            if snapshot.is_member() || snapshot.group().is_some() {
                keys.push(Key::Snapshot(key.as_str().into()));
            }
        });
        keys
    }
}

impl plan::Informers for Informers {
    fn settings(&self) -> Settings {
        self.settings
    }

    fn snapshot(&self, key: &str) -> Option<Arc<Snapshot>> {
        self.snapshots.get(key)
    }

    fn content(&self, name: &str) -> Option<Arc<Content>> {
        self.contents.get(name)
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
        // Of two nobody knows which it is.
        found.pop().filter(|_| found.is_empty())
    }

    fn groups(&self) -> bool {
        self.served.load(Ordering::Acquire)
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
        let affinity = Affinity::new(affinity);
        let mut first: Option<Text> = None;
        self.nodes.for_each(|key, node| {
            let name = key.as_str();
            let earlier = first.as_deref().is_none_or(|first| name < first);
            if earlier && affinity.fits(name, node) {
                first = Some(name.into());
            }
        });
        first
    }
}

fn snapshot_changed(engine: &Engine, event: Event<'_, Snapshot>) {
    engine.observe(match event {
        Event::Upserted {
            old, new, source, ..
        } => Change::Snapshot {
            old: old.map(|old| &**old),
            new: Some(new),
            own: source == Source::Own,
        },
        Event::Deleted { old, .. } => Change::Snapshot {
            old: Some(old),
            new: None,
            own: false,
        },
        Event::Resync { key, .. } => Change::Resync(Key::Snapshot(key.as_str().into())),
    });
}

fn content_changed(engine: &Engine, event: Event<'_, Content>) {
    engine.observe(match event {
        Event::Upserted {
            old, new, source, ..
        } => Change::Content {
            old: old.map(|old| &**old),
            new: Some(new),
            own: source == Source::Own,
        },
        Event::Deleted { old, .. } => Change::Content {
            old: Some(old),
            new: None,
            own: false,
        },
        Event::Resync { key, .. } => Change::Resync(Key::Content(key.as_str().into())),
    });
}

fn group_changed(engine: &Engine, event: Event<'_, Group>) {
    engine.observe(match event {
        Event::Upserted {
            old, new, source, ..
        } => Change::Group {
            old: old.map(|old| &**old),
            new: Some(new),
            own: source == Source::Own,
        },
        Event::Deleted { old, .. } => Change::Group {
            old: Some(old),
            new: None,
            own: false,
        },
        Event::Resync { key, .. } => Change::Resync(Key::Group(key.as_str().into())),
    });
}

fn group_content_changed(engine: &Engine, event: Event<'_, GroupContent>) {
    engine.observe(match event {
        Event::Upserted {
            old, new, source, ..
        } => Change::GroupContent {
            old: old.map(|old| &**old),
            new: Some(new),
            own: source == Source::Own,
        },
        Event::Deleted { old, .. } => Change::GroupContent {
            old: Some(old),
            new: None,
            own: false,
        },
        Event::Resync { key, .. } => Change::Resync(Key::GroupContent(key.as_str().into())),
    });
}

fn group_class_changed(engine: &Engine, event: Event<'_, GroupClass>) {
    if let Event::Upserted { key, .. } = event {
        engine.observe(Change::GroupClass(key.as_str().into()));
    }
}

fn claim_changed(engine: &Engine, event: Event<'_, Claim>) {
    engine.observe(match event {
        Event::Upserted { key, old, new, .. } => Change::Claim {
            key: key.as_str().into(),
            old: old.map(|old| &**old),
            new: Some(new),
        },
        Event::Deleted { key, old } => Change::Claim {
            key: key.as_str().into(),
            old: Some(old),
            new: None,
        },
        // Of 50,000 only those that we hold.
        Event::Resync { key, record } if record.protected.is_some() => {
            Change::Resync(Key::Claim(key.as_str().into()))
        }
        Event::Resync { .. } => return,
    });
}

fn class_changed(engine: &Engine, event: Event<'_, Class>) {
    if let Event::Upserted { key, .. } = event {
        engine.observe(Change::Class(key.as_str().into()));
    }
}

fn volume_changed(engine: &Engine, event: Event<'_, Volume>) {
    if let Event::Upserted { key, .. } = event {
        engine.observe(Change::Volume(key.as_str().into()));
    }
}
