//! Lists and watch events, as the controller gets them.

use sidecar::controller::reactor::Reactor;
use sidecar::kube::cache::Source;
use sidecar::kube::cache::store;
use sidecar_testkit::sim::watch::Versioned;

use super::mutant::Mutant;
use super::process::{Process, keep};
use super::server::{Event, NodeInfo, Server};
use crate::model::{Attachment, Claim, Class, CsiNode, DriverKeys, Node, Text, Volume};
use crate::plan::reactor::Change;
use crate::plan::topology::Entry;

impl Process {
    /// Lists all kinds anew.
    pub(super) fn list(&mut self, server: &Server) {
        for kind in [3, 4, 2, 1, 0] {
            self.list_kind(server, kind);
        }
    }

    /// Lists the objects of a kind, as at the start and after a watch broke.
    pub(super) fn list_kind(&mut self, server: &Server, kind: usize) {
        let now = server.now();
        let mutant = self.mutant;
        let informers = &mut self.informers;
        self.filling.retain(|missing| *missing != kind);
        match kind {
            0 => {
                let changes = informers.claims.list(&server.claims, now, keep);
                changes.iter().for_each(|change| self.claim_changed(change));
            }
            1 => {
                let keep = |volume: &_| Some(mutant.keeps(volume));
                let changes = informers.volumes.list(&server.volumes, now, keep);
                changes
                    .iter()
                    .for_each(|change| self.volume_changed(change));
            }
            2 => self.list_attachments(server),
            3 => {
                let keep = |class: &Class| Some(class.clone());
                let changes = informers.classes.list(&server.classes, now, keep);
                changes.iter().for_each(|change| self.class_changed(change));
            }
            _ if self.node.is_some() => {}
            _ => {
                let keep = |node: &NodeInfo| Some(node.clone());
                let changes = informers.nodes.list(&server.nodes, now, keep);
                changes.iter().for_each(|change| self.node_changed(change));
            }
        }
    }

    /// Lists attachments after their watch had ended.
    pub(super) fn list_attachments(&mut self, server: &Server) {
        let keep = |held: &Attachment| Some(held.clone());
        let informers = &mut self.informers;
        let changes = { &mut informers.attachments }.list(&server.attachments, server.now(), keep);
        for change in &changes {
            self.attachment_changed(change);
        }
        self.informers.attachments_missed = false;
        self.changed(Change::AttachmentsKnown);
    }

    /// Applies one event of the server's log.
    pub(super) fn observe(&mut self, (version, event): &Versioned<Event>) {
        let version = *version;
        let informers = &mut self.informers;
        match event.clone() {
            Event::Claim(name, object) => {
                let kept = object.as_ref().and_then(keep);
                if let Some(change) = informers.claims.observe(&name, kept, version) {
                    self.claim_changed(&change);
                }
            }
            Event::Volume(name, object) => {
                let kept = object.as_ref().map(|volume| self.mutant.keeps(volume));
                if let Some(change) = informers.volumes.observe(&name, kept, version) {
                    self.volume_changed(&change);
                }
            }
            Event::Attachment(name, object) => {
                if let Some(change) = informers.attachments.observe(&name, object, version) {
                    self.attachment_changed(&change);
                }
            }
            Event::Class(name, object) => {
                if let Some(change) = informers.classes.observe(&name, object, version) {
                    self.class_changed(&change);
                }
            }
            Event::Node(name, object) => {
                if let Some(change) = informers.nodes.observe(&name, object, version) {
                    self.node_changed(&change);
                }
            }
        }
    }

    pub(super) fn claim_changed(&mut self, change: &store::Change<Claim>) {
        self.changed(match change {
            store::Change::Upserted {
                old, new, source, ..
            } => Change::Claim {
                old: old.as_deref(),
                new,
                own: *source == Source::Own,
            },
            store::Change::Deleted { old, .. } => Change::ClaimGone(old),
        });
    }

    pub(super) fn volume_changed(&mut self, change: &store::Change<Volume>) {
        self.changed(match change {
            store::Change::Upserted {
                key,
                old,
                new,
                source,
            } => Change::Volume {
                name: key.as_str().into(),
                old: old.as_deref(),
                new,
                own: *source == Source::Own,
            },
            store::Change::Deleted { key, .. } => Change::VolumeGone(key.as_str()),
        });
    }

    fn attachment_changed(&mut self, change: &store::Change<Attachment>) {
        if self.mutant == Mutant::IgnoresAttachments {
            return;
        }
        self.changed(match change {
            store::Change::Upserted { old, new, .. } => Change::Attachment {
                old: old.as_deref(),
                new,
            },
            store::Change::Deleted { old, .. } => Change::AttachmentGone(old),
        });
    }

    fn class_changed(&mut self, change: &store::Change<Class>) {
        if let store::Change::Upserted { new, .. } = change {
            self.changed(Change::Class(new));
        }
    }

    /// Applies a change of a Node and its CSINode.
    fn node_changed(&mut self, change: &store::Change<NodeInfo>) {
        let (key, old, new) = match change {
            store::Change::Upserted { key, old, new, .. } => (key, old.as_deref(), Some(&**new)),
            store::Change::Deleted { key, old } => (key, Some(&**old), None),
        };
        let name = Text::from(key.as_str());
        let node = |info: Option<&NodeInfo>| {
            let labels = info?.labels.clone()?;
            Some(Node { labels })
        };
        self.changed(Change::Node {
            name: name.clone(),
            old: node(old).as_ref(),
            new: node(new).as_ref(),
        });
        let drivers = match new.map(|new| &new.driver) {
            Some(Entry::Keys(keys)) => vec![DriverKeys {
                name: self.informers.driver.name.as_str().into(),
                keys: keys.clone(),
            }],
            Some(Entry::NotInstalled) => Vec::new(),
            Some(Entry::NoCsiNode) | None => return self.changed(Change::CsiNode(name, None)),
        };
        let drivers = drivers.into();
        self.changed(Change::CsiNode(name, Some(&CsiNode { drivers })));
    }

    pub(super) fn changed(&mut self, change: Change<'_>) {
        let due = self.attempts.reactor.observe(change, &self.informers);
        let due = self.mutant.observes(due);
        self.attempts.take(due);
    }
}
