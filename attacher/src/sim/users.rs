//! Other clients: people, kubelet and Kubernetes' controllers create, change and delete objects.

use super::driver::key;
use super::run::{Faults, NODES, VOLUMES, World, target};
use crate::model::{Attachment, CsiSource, Source, Text, Volume};
use crate::plan::request::Object;
use crate::testing::{F, csi, csinode, list, pv, spec, va};

impl World {
    pub(super) fn furnish(&mut self) {
        for node in NODES {
            self.put_node(node, true);
        }
        for volume in VOLUMES {
            self.put_volume(volume);
        }
    }

    pub(super) fn put_node(&mut self, name: &str, present: bool) {
        let object = csinode(&format!("id-{name}"));
        self.server
            .put_node(&name.into(), present.then_some(object));
    }

    pub(super) fn put_volume(&mut self, name: &str) {
        let name = Text::from(name);
        if self.server.volumes.contains_key(&name) {
            return;
        }
        // The attacher treats a volume of another driver like any other.
        let foreign = self.dice.peek().is_multiple_of(8);
        let driver = ["test.csi.driver", "another.csi.driver"][usize::from(foreign)];
        let source = CsiSource {
            driver: driver.into(),
            handle: format!("h-{name}").into(),
            ..csi()
        };
        let volume = Object::Volume(name.clone());
        self.late.retain(|late| late.object != volume);
        let others: [&[&str]; 2] = [&[], &["kubernetes.io/pv-protection"]];
        let other = others[self.dice.below(2)];
        self.server.put_volume(
            &name,
            Volume {
                finalizers: (!other.is_empty()).then(|| list(other)),
                spec: spec(Source::Csi(source)),
                ..pv()
            },
        );
    }

    /// Somebody creates or deletes something.
    pub(super) fn user(&mut self) {
        let volume = VOLUMES[self.dice.below(6) / 4];
        let node = NODES[self.dice.below(6) / 4];
        match self.dice.below(16) {
            0..=6 => self.create(volume, node),
            7..=12 => {
                let names: Vec<Text> = self.server.attachments.keys().cloned().collect();
                if !names.is_empty() {
                    let name = &names[self.dice.below(names.len())];
                    self.server.delete_attachment(name);
                }
            }
            13 | 14 => {
                if self.dice.one_in(4) {
                    // Kubernetes' own protection finalizer disappears with the deletion here.
                    self.server.delete_volume(&volume.into());
                    self.drop_protection(&volume.into());
                } else {
                    self.put_volume(volume);
                }
            }
            _ => {
                let present = !self.dice.one_in(3);
                self.put_node(node, present);
            }
        }
    }

    pub(super) fn drop_protection(&mut self, name: &Text) {
        if let Some((_, object)) = self.server.volumes.get(name) {
            let held = object.finalizers.iter().flat_map(|list| list.iter());
            let kept: Vec<Text> = held.filter(|held| ***held == *F).cloned().collect();
            let object = Volume {
                finalizers: (!kept.is_empty()).then(|| kept.into()),
                ..object.clone()
            };
            self.server.put_volume(name, object);
        }
    }

    pub(super) fn create(&mut self, volume: &str, node: &str) {
        let aliased = self.faults == Faults::Aliases && !self.settling;
        let prefix = if aliased {
            ["va", "alt"][self.dice.below(2)]
        } else {
            "va"
        };
        let name = Text::from(format!("{prefix}-{volume}-{node}"));
        if self.server.attachments.contains_key(&name) {
            return;
        }
        self.uids += 1;
        let other: [&[&str]; 2] = [&[], &["other/fin"]];
        let object = Attachment {
            name,
            uid: format!("{}", self.uids).into(),
            node: node.into(),
            volume: Some(volume.into()),
            finalizers: list(other[usize::from(self.dice.one_in(12))]),
            ..va()
        };
        *self.made.entry(key(&target(&object))).or_default() += 1;
        self.server.put_attachment(object);
    }

    /// Somebody removes our finalizer from an attachment.
    pub(super) fn strip(&mut self) {
        let held = self.server.attachments.values();
        let held = held.filter(|(_, object)| object.has_finalizer(F));
        let held: Vec<Attachment> = held.map(|(_, object)| object.clone()).collect();
        if held.is_empty() {
            return;
        }
        let object = held[self.dice.below(held.len())].clone();
        self.stripped.insert(key(&target(&object)));
        let kept = object.finalizers.iter().filter(|held| ***held != *F);
        self.server.put_attachment(Attachment {
            finalizers: kept.cloned().collect(),
            ..object
        });
    }

    /// Registers the driver on every node again.
    pub(super) fn cure_nodes(&mut self) {
        for node in NODES {
            self.put_node(node, true);
        }
    }
}
