//! Which volumes VolumeAttachments name: an index over their cache.
//!
//! Separate, because with thousands of attachments a look through all of them for each deleted
//! volume costs seconds.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

use sidecar::kube::key::Key;

use crate::model::{Attachment, Text};

/// Attachments by the volume they name, with their nodes.
#[derive(Debug, Default)]
pub(super) struct Attached(Mutex<HashMap<Text, BTreeMap<Key, Text>>>);

impl Attached {
    fn lock(&self) -> MutexGuard<'_, HashMap<Text, BTreeMap<Key, Text>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Node of an attachment that names the volume.
    pub(super) fn node_of(&self, volume: &Text) -> Option<Text> {
        self.lock().get(volume)?.values().next().cloned()
    }

    /// There is this attachment.
    pub(super) fn add(&self, key: &Key, attachment: &Attachment) {
        let mut attached = self.lock();
        let nodes = attached.entry(attachment.volume.clone()).or_default();
        nodes.insert(key.clone(), attachment.node.clone());
    }

    /// The attachment no longer names the volume.
    pub(super) fn remove(&self, key: &Key, volume: &Text) {
        let mut attached = self.lock();
        if let Some(nodes) = attached.get_mut(volume) {
            nodes.remove(key);
            if nodes.is_empty() {
                attached.remove(volume);
            }
        }
    }
}
