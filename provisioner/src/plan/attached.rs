//! Which volumes VolumeAttachments name, and which volumes wait until that is known.
//!
//! An index: with thousands of attachments a look through all of them for each deleted volume costs
//! seconds.

use std::collections::{HashMap, HashSet};

use crate::model::{Attachment, Text};

/// The index.
#[derive(Debug, Default)]
pub struct Attached {
    /// Nodes of the attachments by the volume they name; a node is there once for each attachment.
    nodes: HashMap<Text, Vec<Text>>,
    /// Volumes that are to be deleted once attachments are known again.
    waiting: HashSet<Text>,
}

impl Attached {
    /// Node of an attachment that names the volume.
    #[must_use]
    pub fn node_of(&self, volume: &str) -> Option<&Text> {
        self.nodes.get(volume)?.first()
    }

    /// There is this attachment.
    pub fn add(&mut self, attachment: &Attachment) {
        let nodes = self.nodes.entry(attachment.volume.clone()).or_default();
        // Nearly every volume is attached once.
        nodes.reserve_exact(1);
        nodes.push(attachment.node.clone());
    }

    /// There is this attachment no longer.
    pub fn remove(&mut self, attachment: &Attachment) {
        let Some(nodes) = self.nodes.get_mut(&attachment.volume) else {
            return;
        };
        if let Some(place) = nodes.iter().position(|node| *node == attachment.node) {
            nodes.swap_remove(place);
        }
        if nodes.is_empty() {
            self.nodes.remove(&attachment.volume);
        }
    }

    /// The volume cannot be deleted before attachments are known again.
    pub fn wait(&mut self, volume: &Text) {
        self.waiting.insert(volume.clone());
    }

    /// The volumes that have waited.
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
        // Two of the same node: of another driver's attacher, say.
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
