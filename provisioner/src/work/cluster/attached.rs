//! Which volumes VolumeAttachments name: an index over their cache, and which volumes wait for it.
//!
//! Separate, because with thousands of attachments a look through all of them for each deleted
//! volume costs seconds.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use sidecar::kube::cache::Event;
use sidecar::kube::key::Key;

use super::Cluster;
use crate::model::{Attachment, Text};

/// The index.
#[derive(Debug, Default)]
pub(super) struct Attached(Mutex<Books>);

#[derive(Debug, Default)]
struct Books {
    /// Attachments by the volume they name, with their nodes.
    nodes: HashMap<Text, BTreeMap<Key, Text>>,
    /// Volumes that are to be deleted once the cache is current.
    waiting: HashSet<Text>,
}

impl Attached {
    fn lock(&self) -> MutexGuard<'_, Books> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Node of an attachment that names the volume.
    pub(super) fn node_of(&self, volume: &Text) -> Option<Text> {
        self.lock().nodes.get(volume)?.values().next().cloned()
    }

    /// The volume cannot be deleted before the cache is current again.
    pub(super) fn wait(&self, volume: &Text) {
        self.lock().waiting.insert(volume.clone());
    }

    /// The volumes that have waited for the cache.
    pub(super) fn waited(&self) -> HashSet<Text> {
        std::mem::take(&mut self.lock().waiting)
    }

    /// There is this attachment.
    pub(super) fn add(&self, key: &Key, attachment: &Attachment) {
        let mut books = self.lock();
        let nodes = books.nodes.entry(attachment.volume.clone());
        let nodes = nodes.or_default();
        nodes.insert(key.clone(), attachment.node.clone());
    }

    /// The attachment no longer names the volume.
    pub(super) fn remove(&self, key: &Key, volume: &Text) {
        let mut books = self.lock();
        if let Some(nodes) = books.nodes.get_mut(volume) {
            nodes.remove(key);
            if nodes.is_empty() {
                books.nodes.remove(volume);
            }
        }
    }
}

impl Cluster {
    /// Node of a VolumeAttachment that names the volume.
    pub fn attached_to(&self, volume: &Text) -> Option<Text> {
        self.attached.node_of(volume)
    }

    /// Whether there may be VolumeAttachments that the cache does not show, because their watch is
    /// known to have ended.
    pub fn misses_attachments(&self) -> bool {
        self.driver.current().abilities.publish && !self.attachments.is_current()
    }

    /// The volume is looked at once VolumeAttachments are known again.
    pub fn wait_for_attachments(&self, volume: &Text) {
        self.attached.wait(volume);
        if !self.misses_attachments() {
            self.attachments_are_known();
        }
    }

    /// VolumeAttachments are known again: what has waited for that is looked at.
    pub fn attachments_are_known(&self) {
        for name in self.attached.waited() {
            self.look_at_volume(&name);
        }
    }

    pub(super) fn attachment_changed(&self, event: Event<'_, Attachment>) {
        match event {
            Event::Upserted { key, old, new, .. } => {
                if let Some(old) = old
                    && old.volume != new.volume
                {
                    self.detached(key, &old.volume);
                }
                self.attached.add(key, new);
            }
            Event::Deleted { key, old } => self.detached(key, &old.volume),
            Event::Resync { .. } => {}
        }
    }

    /// An attachment no longer holds the volume: it may be deleted now.
    fn detached(&self, key: &Key, volume: &Text) {
        self.attached.remove(key, volume);
        self.look_at_volume(volume);
    }
}
