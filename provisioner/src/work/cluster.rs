//! What this process knows of the cluster, and what changes of it put into the queues.
//!
//! Separate from the workers: caches tell changes from their own tasks, and all that happens then
//! is a look at the books and an entry in a queue.

mod attached;

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use sidecar::kube::cache::{Cache, Event, Source};
use sidecar::kube::interner::Interner;
use sidecar::kube::key::Key;
use sidecar::metrics::RegisterError;
use sidecar::queue::{Config, Group, Metrics, Place, Queue, exponential};
use tokio::sync::Notify;

use super::capacity::Capacity;
use super::driver::DriverLink;
use super::record;
use crate::model::{Attachment, Claim, Class, CsiNode, Grant, Node, Text, Volume, VolumeDetail};
use crate::plan::memory::{ClaimKey, Memory};
use crate::plan::outcome::Cure;
use crate::plan::ownership::Contests;
use crate::plan::request::Prepared;
use crate::plan::topology::{Entry, Places};
use crate::plan::{event, protection, turn};
use attached::Attached;

/// Caches, queues and books.
pub struct Cluster {
    /// Claims that something may be due for, of whatever driver.
    pub claims: Cache<Claim>,
    /// PersistentVolumes, of whatever driver.
    pub volumes: Cache<Volume>,
    /// StorageClasses.
    pub classes: Cache<Class>,
    /// VolumeAttachments, if the driver has something to publish.
    pub attachments: Cache<Attachment>,
    /// Nodes, if places matter.
    pub nodes: Cache<Node>,
    /// CSINodes, if places matter.
    pub csi_nodes: Cache<CsiNode>,
    /// ReferenceGrants, with the gate for them.
    pub grants: Cache<Grant>,
    /// Claims of this driver to look at.
    pub claim_queue: Queue<ClaimKey>,
    /// PersistentVolumes of this driver to look at.
    pub volume_queue: Queue<Text>,
    /// Claims that were cloned and are being deleted, by `namespace/name`.
    pub source_queue: Queue<Text>,
    /// The producer of CSIStorageCapacity objects, with `--enable-capacity`.
    pub capacity: OnceLock<Arc<Capacity>>,
    /// Claims have begun to wait for something that is not watched.
    pub looked_for: Notify,
    /// Texts that records share.
    pub strings: Interner,
    driver: Arc<DriverLink>,
    memory: Mutex<Memory<Prepared>>,
    places: Mutex<Places>,
    contests: Mutex<Contests>,
    attached: Attached,
}

/// How often and how much at a time is worked.
#[derive(Clone, Copy, Debug)]
pub struct Pacing {
    /// `--worker-threads`
    pub threads: usize,
    /// `--cloning-protection-threads`
    pub clone_threads: usize,
    /// `--retry-interval-start`
    pub retry_start: Duration,
    /// `--retry-interval-max`
    pub retry_max: Duration,
}

impl Cluster {
    /// An empty cluster; `places` are those known from the start.
    ///
    /// # Errors
    /// When the metrics refuse the queues' names, which they do for no text.
    pub fn new(
        driver: Arc<DriverLink>,
        pacing: Pacing,
        metrics: &Metrics,
        places: Places,
    ) -> Result<Arc<Self>, RegisterError> {
        let delay = || exponential(pacing.retry_start, pacing.retry_max);
        let queue = |name, threads| Config {
            lanes: turn::lanes(name, threads),
            metrics: Some(metrics.clone()),
            ..Config::new(name, threads, delay())
        };
        let claim_queue = Queue::new(queue("claims", pacing.threads))?;
        let volume_queue = Queue::new(queue("volumes", pacing.threads))?;
        // Upstream calls this one `claims` as well, so that neither can be read.
        let source_queue = Queue::new(queue("cloned-claims", pacing.clone_threads))?;
        let strings = Interner::default();
        Ok(Arc::new_cyclic(|cluster| Self {
            claims: Cache::owned(cluster, &strings, Self::claim_changed),
            volumes: Cache::owned(cluster, &strings, Self::volume_changed),
            classes: Cache::owned(cluster, &strings, Self::class_changed),
            attachments: Cache::owned(cluster, &strings, Self::attachment_changed),
            nodes: Cache::owned(cluster, &strings, Self::node_changed),
            csi_nodes: Cache::owned(cluster, &strings, Self::csi_node_changed),
            grants: Cache::owned(cluster, &strings, Self::grant_changed),
            claim_queue,
            volume_queue,
            source_queue,
            capacity: OnceLock::new(),
            looked_for: Notify::new(),
            strings: strings.clone(),
            driver,
            memory: Mutex::new(Memory::new(pacing.retry_max)),
            places: Mutex::new(places),
            contests: Mutex::default(),
            attached: Attached::default(),
        }))
    }

    /// The books. Never held across an await, nor while a queue or cache is used.
    pub fn memory(&self) -> MutexGuard<'_, Memory<Prepared>> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The places of the cluster. Never held across an await.
    pub fn places(&self) -> MutexGuard<'_, Places> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Claims that this process would take for its node. Never held across an await.
    pub fn contests(&self) -> MutexGuard<'_, Contests> {
        self.contests.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks at the claim at once.
    pub fn wake(&self, key: &ClaimKey) {
        self.claim_queue.add(key, turn::of_claim(key));
    }

    /// The driver can be asked again, as if the process had just begun: what failed need not wait
    /// for its retry.
    pub fn driver_is_back(&self) {
        let driver = self.driver.current();
        let mut keys: Vec<ClaimKey> = {
            let memory = self.memory();
            memory.doubts().map(|(key, _)| key.clone()).collect()
        };
        self.claims.for_each(|_, claim| {
            if event::is_work_for_claim(None, claim, &driver) {
                keys.push(ClaimKey::of(claim));
            }
        });
        for key in &keys {
            self.wake(key);
        }
        let mut names: Vec<Text> = Vec::new();
        self.volumes.for_each(|key, volume| {
            if event::is_work_for_volume(None, volume, &driver) {
                names.push(key.as_str().into());
            }
        });
        for name in &names {
            self.look_at_volume(name);
        }
    }

    /// Looks at the volume at once if something may be due for it.
    pub fn look_at_volume(&self, name: &Text) {
        let driver = self.driver.current();
        if let Some(volume) = self.volumes.get(name)
            && event::is_work_for_volume(None, &volume, &driver)
        {
            self.volume_queue.add(name, turn::of_volume(&volume));
        }
    }

    /// The volume in full, out of an answer of the API server; `None` if that is about something
    /// else.
    ///
    /// # Errors
    /// It is no object at all.
    pub fn read_volume(
        &self,
        key: &Key,
        json: &str,
    ) -> Result<Option<VolumeDetail>, serde_json::Error> {
        let wire = serde_json::from_str(json)?;
        let detail = record::read_volume(wire, &self.strings);
        Ok(Some(detail).filter(|detail| *detail.name == *key.name()))
    }

    fn claim_changed(&self, event: Event<'_, Claim>) {
        let driver = self.driver.current();
        match event {
            Event::Upserted {
                old, new, source, ..
            } => {
                let old = old.map(|old| &**old);
                if let Some(old) = old {
                    if old.uid != new.uid {
                        self.claim_gone(old);
                    }
                    self.look_at_freed(old, Some(new));
                } else {
                    self.cured(&Cure::SourceClaim(new.key()));
                }
                if source == Source::Watch && event::is_work_for_claim(old, new, &driver) {
                    self.wake(&ClaimKey::of(new));
                }
                self.look_at_source(new);
            }
            Event::Deleted { old, .. } => {
                self.claim_gone(old);
                self.look_at_freed(old, None);
                // Gone, or it has its volume now and can be cloned.
                self.cured(&Cure::SourceClaim(old.key()));
            }
            Event::Resync { record, .. } => {
                if event::is_work_for_claim(None, record, &driver) {
                    let key = ClaimKey::of(record);
                    self.claim_queue.resync(&key, turn::of_claim(&key));
                }
                self.look_at_source(record);
            }
        }
    }

    fn claim_gone(&self, claim: &Claim) {
        let key = ClaimKey::of(claim);
        self.contests().end(&key);
        let busy = self.memory().gone(&key);
        if busy {
            self.wake(&key);
        }
    }

    fn look_at_source(&self, claim: &Claim) {
        if self.driver.current().abilities.clone && protection::is_ending_source(claim) {
            let group = Group::of(&claim.namespace);
            self.source_queue.add(&claim.key(), Place::new(0, group));
        }
    }

    fn look_at_freed(&self, before: &Claim, after: Option<&Claim>) {
        if let Some((namespace, name)) = protection::freed_source(before, after)
            && let Some(source) = self.claims.get(&format!("{namespace}/{name}"))
        {
            self.look_at_source(&source);
        }
    }

    fn volume_changed(&self, event: Event<'_, Volume>) {
        let driver = self.driver.current();
        match event {
            Event::Upserted {
                key,
                old,
                new,
                source,
            } => {
                let old = old.map(|old| &**old);
                if source == Source::Watch && event::is_work_for_volume(old, new, &driver) {
                    let name = Text::from(key.as_str());
                    self.volume_queue.add(&name, turn::of_volume(new));
                }
            }
            Event::Deleted { key, .. } => self.memory().volume_gone(key.as_str()),
            Event::Resync { key, record } => {
                if event::is_work_for_volume(None, record, &driver) {
                    let name = Text::from(key.as_str());
                    self.volume_queue.resync(&name, turn::of_volume(record));
                }
            }
        }
    }

    fn class_changed(&self, event: Event<'_, Class>) {
        let capacity = self.capacity.get();
        match event {
            Event::Upserted { new, .. } => {
                self.cured(&Cure::Class(new.name.clone()));
                if let Some(capacity) = capacity {
                    capacity.class_changed(new);
                }
            }
            Event::Deleted { old, .. } => {
                if let Some(capacity) = capacity {
                    capacity.class_gone(&old.name);
                }
            }
            Event::Resync { .. } => {}
        }
    }

    fn node_changed(&self, event: Event<'_, Node>) {
        let (key, old, labels) = match event {
            Event::Upserted { key, old, new, .. } => (key, old, Some(new.labels.clone())),
            Event::Deleted { key, old } => (key, Some(old), None),
            Event::Resync { .. } => return,
        };
        // Kubelet reports a node's condition all the time; its labels hardly ever change.
        if old.map(|old| &old.labels) == labels.as_ref() {
            return;
        }
        let name = Text::from(key.as_str());
        let appeared = labels.is_some();
        let moved = self.places().set_labels(&name, labels);
        self.segments_moved(moved);
        if appeared {
            self.cured(&Cure::Node(name));
            self.cured(&Cure::AnyNode);
        }
    }

    fn csi_node_changed(&self, event: Event<'_, CsiNode>) {
        let driver = self.driver.current();
        let entry = |node: &CsiNode| match node.keys_of(&driver.name) {
            Some(keys) => Entry::Keys(keys.clone()),
            None => Entry::NotInstalled,
        };
        let (key, entry) = match event {
            Event::Upserted { key, new, .. } => (key, entry(new)),
            Event::Deleted { key, .. } => (key, Entry::NoCsiNode),
            Event::Resync { .. } => return,
        };
        let name = Text::from(key.as_str());
        let cures = matches!(entry, Entry::Keys(_)) && *self.places().driver(&name) != entry;
        let moved = self.places().set_driver(&name, entry);
        self.segments_moved(moved);
        if cures {
            self.cured(&Cure::CsiNode(name));
            self.cured(&Cure::AnyNode);
        }
    }

    fn segments_moved(&self, moved: bool) {
        if moved && let Some(capacity) = self.capacity.get() {
            capacity.segments_changed();
        }
    }

    fn grant_changed(&self, event: Event<'_, Grant>) {
        if let Event::Upserted { new, .. } = event {
            self.cured(&Cure::Grant(new.namespace.clone()));
        }
    }

    /// The claim is tried again as soon as `cure` is there.
    pub fn wait_for(&self, cure: Cure, key: &ClaimKey) {
        let unwatched = matches!(cure, Cure::AttributesClass(_));
        self.memory().wait_for(cure, key);
        if unwatched {
            self.looked_for.notify_one();
        }
    }

    /// What was missing is there: the claims that wait for it are tried again.
    pub fn cured(&self, cure: &Cure) {
        let keys = self.memory().cured(cure);
        for key in keys {
            self.wake(&key);
        }
    }
}
