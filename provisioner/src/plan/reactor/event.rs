//! The effect of changes: which keys they requeue.

use std::sync::Arc;

use sidecar::controller::reactor::Wake;
use sidecar::queue::{Group, Place};

use super::{CLAIMS, Change, Informed, Key, Notice, Provisioner, SOURCES, VOLUMES, Wakes};
use super::{wake, wake_claim};
use crate::model::{Claim, CsiNode, Node, Text};
use crate::plan::in_flight::ClaimKey;
use crate::plan::outcome::RequeueTrigger;
use crate::plan::topology::Entry;
use crate::plan::{event, fairness, protection};

impl Provisioner {
    pub(super) fn changed(&mut self, change: Change<'_>, informers: Informed<'_>, due: &mut Wakes) {
        match change {
            Change::Claim { old, new, own } => self.claim_changed((old, new, own), informers, due),
            Change::ClaimGone(old) => {
                self.claim_gone(old, due);
                look_at_freed(old, None, informers, due);
                // Gone, or bound now and ready to be cloned.
                self.triggered(&RequeueTrigger::SourceClaim(old.key()), due);
            }
            Change::ClaimResync(claim) => {
                if event::is_work_for_claim(None, claim, &informers.driver()) {
                    let key = ClaimKey::of(claim);
                    let place = fairness::of_claim(&key);
                    resync(due, (CLAIMS, Key::Claim(key)), place);
                }
                look_at_source(claim, informers, due);
            }
            Change::Volume {
                name,
                old,
                new,
                own,
            } => {
                if !own && event::is_work_for_volume(old, new, &informers.driver()) {
                    wake(due, (VOLUMES, Key::Volume(name)), fairness::of_volume(new));
                }
            }
            Change::VolumeGone(name) => self.in_flight.volume_gone(name),
            Change::VolumeResync(name, volume) => {
                if event::is_work_for_volume(None, volume, &informers.driver()) {
                    resync(
                        due,
                        (VOLUMES, Key::Volume(name)),
                        fairness::of_volume(volume),
                    );
                }
            }
            Change::Class(class) => self.triggered(&RequeueTrigger::Class(class.name.clone()), due),
            Change::Attachment { old, new } => {
                if let Some(old) = old.filter(|old| *old != new) {
                    self.attached.remove(old);
                    if old.volume != new.volume {
                        look_at_volume(&old.volume, informers, due);
                    }
                }
                if old != Some(new) {
                    self.attached.add(new);
                }
            }
            Change::AttachmentGone(old) => {
                // The volume may be deleted now.
                self.attached.remove(old);
                look_at_volume(&old.volume, informers, due);
            }
            Change::AttachmentsKnown => self.attachments_known(informers, due),
            Change::Node { name, old, new } => self.node_changed(&name, old, new, due),
            Change::CsiNode(name, new) => self.csi_node_changed(&name, new, informers, due),
            Change::Grant(grant) => {
                self.triggered(&RequeueTrigger::Grant(grant.namespace.clone()), due)
            }
            Change::AttributesClass(name) => {
                self.triggered(&RequeueTrigger::AttributesClass(name), due)
            }
            Change::DriverBack => self.driver_back(informers, due),
        }
    }

    fn claim_changed(
        &mut self,
        (old, new, own): (Option<&Claim>, &Claim, bool),
        informers: Informed<'_>,
        due: &mut Wakes,
    ) {
        if let Some(old) = old {
            if old.uid != new.uid {
                self.claim_gone(old, due);
            }
            look_at_freed(old, Some(new), informers, due);
        } else {
            self.triggered(&RequeueTrigger::SourceClaim(new.key()), due);
        }
        if !own && event::is_work_for_claim(old, new, &informers.driver()) {
            wake_claim(due, ClaimKey::of(new));
        }
        look_at_source(new, informers, due);
    }

    fn claim_gone(&mut self, claim: &Claim, due: &mut Wakes) {
        let key = ClaimKey::of(claim);
        self.ownership_races.end(&key);
        if self.in_flight.gone(&key) {
            wake_claim(due, key);
        }
    }

    /// Requeues the claims that wait for this trigger.
    pub(super) fn triggered(&mut self, trigger: &RequeueTrigger, due: &mut Wakes) {
        for key in self.in_flight.triggered(trigger) {
            wake_claim(due, key);
        }
    }

    /// Requeues the volumes that wait for VolumeAttachments, which are known again.
    pub(super) fn attachments_known(&mut self, informers: Informed<'_>, due: &mut Wakes) {
        for name in self.attached.waited() {
            look_at_volume(&name, informers, due);
        }
    }

    fn node_changed(
        &mut self,
        name: &Text,
        old: Option<&Node>,
        new: Option<&Node>,
        due: &mut Wakes,
    ) {
        // Kubelet reports a node's condition all the time; its labels hardly ever change.
        if old.map(|old| &old.labels) == new.map(|new| &new.labels) {
            return;
        }
        let labels = new.map(|new| new.labels.clone());
        let moved = Arc::make_mut(&mut self.topology).set_labels(name, labels);
        segments_moved(moved, due);
        if new.is_some() {
            self.triggered(&RequeueTrigger::Node(name.clone()), due);
            self.triggered(&RequeueTrigger::AnyNode, due);
        }
    }

    fn csi_node_changed(
        &mut self,
        name: &Text,
        new: Option<&CsiNode>,
        informers: Informed<'_>,
        due: &mut Wakes,
    ) {
        let driver = informers.driver();
        let entry = match new.map(|new| new.keys_of(&driver.name)) {
            Some(Some(keys)) => Entry::Keys(keys.clone()),
            Some(None) => Entry::NotInstalled,
            None => Entry::NoCsiNode,
        };
        let cures = matches!(entry, Entry::Keys(_)) && *self.topology.driver(name) != entry;
        let moved = Arc::make_mut(&mut self.topology).set_driver(name, entry);
        segments_moved(moved, due);
        if cures {
            self.triggered(&RequeueTrigger::CsiNode(name.clone()), due);
            self.triggered(&RequeueTrigger::AnyNode, due);
        }
    }

    fn driver_back(&mut self, informers: Informed<'_>, due: &mut Wakes) {
        let driver = informers.driver();
        for (key, _) in self.in_flight.pending_creates() {
            wake_claim(due, key.clone());
        }
        look_at_claims(informers, due);
        informers.for_each_volume(&mut |name, volume| {
            if event::is_work_for_volume(None, volume, &driver) {
                let key = Key::Volume(name.into());
                wake(due, (VOLUMES, key), fairness::of_volume(volume));
            }
        });
    }
}

/// Requeues the volume without delay if anything may be due for it.
pub(super) fn look_at_volume(name: &Text, informers: Informed<'_>, due: &mut Wakes) {
    if let Some(volume) = informers.volume(name)
        && event::is_work_for_volume(None, &volume, &informers.driver())
    {
        let key = Key::Volume(name.clone());
        wake(due, (VOLUMES, key), fairness::of_volume(&volume));
    }
}

/// Requeues all claims without delay, and those that were cloned and are being deleted.
pub(super) fn look_at_claims(informers: Informed<'_>, due: &mut Wakes) {
    let driver = informers.driver();
    informers.for_each_claim(&mut |claim| {
        if event::is_work_for_claim(None, claim, &driver) {
            wake_claim(due, ClaimKey::of(claim));
        }
        look_at_source(claim, informers, due);
    });
}

fn look_at_source(claim: &Claim, informers: Informed<'_>, due: &mut Wakes) {
    if informers.driver().abilities.clone && protection::is_ending_source(claim) {
        let place = Place::new(0, Group::of(&claim.namespace));
        wake(due, (SOURCES, Key::Source(claim.key())), place);
    }
}

fn look_at_freed(before: &Claim, after: Option<&Claim>, informers: Informed<'_>, due: &mut Wakes) {
    if let Some((namespace, name)) = protection::freed_source(before, after)
        && let Some(source) = informers.claim(&format!("{namespace}/{name}"))
    {
        look_at_source(&source, informers, due);
    }
}

/// Requeues the key, but does not cut its back-off short.
fn resync(due: &mut Wakes, (queue, key): (usize, Key), place: Place) {
    due.wakes.push(Wake {
        queue,
        key,
        place,
        unless_delayed: true,
    });
}

fn segments_moved(moved: bool, due: &mut Wakes) {
    if moved {
        due.notices.push(Notice::SegmentsMoved);
    }
}
