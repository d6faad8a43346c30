//! Which volumes VolumeAttachments name, and which volumes wait until that is known.
//!
//! An index: with thousands of attachments, a search through all of them for each deleted volume costs seconds.

use std::collections::{HashMap, HashSet};

use sidecar::part::only;

use crate::model::{Attachment, Text};

/// Index of the VolumeAttachments.
#[derive(Clone, Debug, Default)]
pub struct Attached {
    /// Nodes of the attachments, by the volume that they name; a node appears once for each attachment.
    nodes: HashMap<Text, Vec<Text>>,
    /// Volumes whose deletion waits until the attachments are known again.
    waiting: HashSet<Text>,
}

impl Attached {
    /// Node of an attachment that names the volume.
    #[must_use]
    pub fn node_of(&self, volume: &str) -> Option<&Text> {
        self.nodes.get(volume)?.first()
    }

    /// The part about one volume.
    #[must_use]
    pub fn of(&self, volume: &Text) -> Self {
        Self {
            nodes: only(self.nodes.get_key_value(volume)),
            waiting: HashSet::new(),
        }
    }

    /// Adds an attachment.
    pub fn add(&mut self, attachment: &Attachment) {
        let nodes = self.nodes.entry(attachment.volume.clone()).or_default();
        // Nearly every volume has a single attachment.
        nodes.reserve_exact(1);
        nodes.push(attachment.node.clone());
    }

    /// Removes an attachment.
    pub fn remove(&mut self, attachment: &Attachment) {
        let Some(nodes) = self.nodes.get_mut(&attachment.volume) else {
            return;
        };
        if let Some(index) = nodes.iter().position(|node| *node == attachment.node) {
            nodes.swap_remove(index);
        }
        if nodes.is_empty() {
            self.nodes.remove(&attachment.volume);
        }
    }

    /// Lets the volume wait until the attachments are known again.
    pub fn wait(&mut self, volume: &Text) {
        self.waiting.insert(volume.clone());
    }

    /// Takes the volumes that have waited.
    pub fn waited(&mut self) -> HashSet<Text> {
        std::mem::take(&mut self.waiting)
    }

    #[cfg(test)]
    pub(crate) fn is_awaited(&self) -> bool {
        !self.waiting.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_volume_is_attached_as_long_as_one_attachment_names_it() {
        let attachment = |node: &str| Attachment {
            volume: "pv1".into(),
            node: node.into(),
        };
        let mut attached = Attached::default();
        assert_eq!(attached.node_of("pv1"), None);
        // Two of the same node, one of them of another driver's attacher, for example.
        for node in ["n1", "n1", "n2"] {
            attached.add(&attachment(node));
        }
        attached.remove(&attachment("n1"));
        attached.remove(&attachment("n2"));
        attached.remove(&attachment("n3"));
        assert_eq!(attached.node_of("pv1").map(|node| &**node), Some("n1"));
        attached.remove(&attachment("n1"));
        assert_eq!(attached.node_of("pv1"), None);
        assert!(attached.nodes.is_empty());
    }
}
