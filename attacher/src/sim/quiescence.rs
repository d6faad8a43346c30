//! The end of a run: faults stop, the system comes to rest, and the final state is checked.

use sidecar_testkit::sim::rest;

use super::driver::key;
use super::run::{Faults, NODES, World, target};
use crate::model::{Attachment, Text};
use crate::plan::drift::{Expected, Listing};
use crate::plan::in_flight::InFlightState;
use crate::plan::orphan;
use crate::testing::{F, driver};
use csi_proto::csi::ListVolumesResponse;
use csi_proto::csi::list_volumes_response::{Entry, VolumeStatus};

/// A comparison with the driver's list in progress.
pub(super) struct Comparison {
    expected: Vec<Expected>,
    listing: Listing,
}

impl World {
    /// Begins a comparison with the driver's list, or ends the running one.
    pub(super) fn reconcile(&mut self) {
        match self.comparison.take() {
            None => self.comparison = Some(self.compare()),
            Some(comparison) => self.end_comparison(&comparison),
        }
    }

    fn compare(&mut self) -> Comparison {
        let process = &mut self.process;
        let (expected, due) = process.attempts.reactor.compare(&process.informers);
        process.attempts.take(due);
        let mut listing = Listing::for_volumes_of(&expected);
        let mut page = ListVolumesResponse::default();
        for (handle, _) in &self.driver.attached {
            let nodes = self
                .driver
                .attached
                .iter()
                .filter(|(volume, _)| volume == handle);
            page.entries.push(Entry {
                volume: Some(csi_proto::csi::Volume {
                    volume_id: handle.clone(),
                    ..Default::default()
                }),
                status: Some(VolumeStatus {
                    published_node_ids: nodes.map(|(_, node)| node.clone()).collect(),
                }),
            });
        }
        listing.add(page);
        Comparison { expected, listing }
    }

    fn end_comparison(&mut self, comparison: &Comparison) {
        let Comparison { expected, listing } = comparison;
        let process = &mut self.process;
        let attacher = &mut process.attempts.reactor;
        let due = attacher.compared(expected, Some(listing), &process.informers);
        process.attempts.take(due);
    }

    /// Stops the faults, then advances everything until nothing moves.
    pub(super) fn settle(&mut self) {
        self.settling = true;
        self.comparison = None;
        while !self.late.is_empty() {
            self.arrive_late();
        }
        while let Some(id) = self.driver.running.iter().find(|call| !call.awaited) {
            let id = id.id;
            self.end_call(id, true);
        }
        self.cure_nodes();
        if self.faults == Faults::Lasts {
            self.put_node(NODES[0], false);
        }
        let mut before = usize::MAX;
        for _ in 0..12 {
            self.list();
            self.retry_all();
            self.drain();
            if self.has_faults() {
                let comparison = self.compare();
                self.end_comparison(&comparison);
                self.drain();
            }
            self.drop_foreign_finalizers();
            let now = self.server.log.len();
            if now == before {
                break;
            }
            before = now;
        }
    }

    /// Something that an attachment lacked appears at any point of an attempt, and must end its
    /// back-off.
    pub(super) fn cure(&mut self) {
        let (volume, node) = ("pv9", NODES[1]);
        let lacks_volume = self.dice.one_in(2);
        if lacks_volume {
            self.put_node(node, true)
        } else {
            self.put_volume(volume);
            self.put_node(node, false);
        }
        let name = Text::from(format!("va-{volume}-{node}"));
        self.create(volume, node);
        self.list();
        for _ in 0..self.dice.below(12) {
            self.work();
        }
        if lacks_volume {
            self.put_volume(volume)
        } else {
            self.put_node(node, true)
        }
        self.list();
        self.drain();
        let attached = self
            .server
            .attachments
            .get(&name)
            .map(|(_, object)| object.attached);
        if attached == Some(false) {
            self.complain(format!("{name} waits for its back-off without need"));
        }
    }

    /// Deletes everything and gives it time to disappear.
    pub(super) fn leave(&mut self) {
        for name in self.server.attachments.keys().cloned().collect::<Vec<_>>() {
            self.server.delete_attachment(&name);
        }
        for name in self.server.volumes.keys().cloned().collect::<Vec<_>>() {
            self.server.delete_volume(&name);
            self.drop_protection(&name);
        }
        for _ in 0..6 {
            self.list();
            self.retry_all();
            self.drain();
            self.drop_foreign_finalizers();
        }
    }

    /// Checks that no deleted object remains and that the process remembers none.
    pub(super) fn check_left(&self) -> Result<(), String> {
        let process = &self.process;
        let in_flight = &process.attempts.reactor.in_flight;
        let mut left = rest::remembered(in_flight, &InFlightState::default(), &["touched"]);
        let attachments = self.server.attachments.keys();
        left.extend(attachments.map(|name| format!("attachment {name}")));
        let volumes = self.server.volumes.keys();
        left.extend(volumes.map(|name| format!("volume {name}")));
        if !process.attempts.later.is_empty() {
            left.push(format!("retries {:?}", process.attempts.later));
        }
        if left.is_empty() {
            Ok(())
        } else {
            Err(format!("left behind: {left:?}"))
        }
    }

    /// Works until all queues are empty; keys in back-off keep waiting.
    fn drain(&mut self) {
        let is_idle = |world: &mut Self| world.process.attempts.is_idle();
        if let Err(violation) = rest::drain(self, is_idle, Self::work) {
            self.complain(violation);
        }
    }

    /// The other owners of finalizers on deleted attachments remove them.
    fn drop_foreign_finalizers(&mut self) {
        let held: Vec<Attachment> = { self.server.attachments.values() }
            .filter(|(_, object)| object.deleting && !object.finalizers.is_empty())
            .map(|(_, object)| object.clone())
            .collect();
        for object in held {
            let kept: Vec<Text> = object
                .finalizers
                .iter()
                .filter(|held| ***held == *F)
                .cloned()
                .collect();
            let finalizers = kept.into();
            self.server.put_attachment(Attachment {
                finalizers,
                ..object
            });
        }
    }

    pub(super) fn check_rest(&self) -> Result<(), String> {
        let objects = || self.server.attachments.values().map(|(_, object)| object);
        if let Some(stuck) = objects().find(|object| object.deleting) {
            return Err(format!("{} does not go: {stuck:?}", stuck.name));
        }
        for (name, (_, volume)) in &self.server.volumes {
            let named = |object: &Attachment| object.volume.as_ref() == Some(name);
            if volume.deleting && !objects().any(named) {
                return Err(format!("volume {name} does not go: {volume:?}"));
            }
        }
        for object in objects() {
            let volume = object
                .volume
                .as_ref()
                .and_then(|name| self.server.volumes.get(name));
            let usable = volume.is_some_and(|(_, volume)| !volume.deleting);
            if usable && !object.attached && self.faults != Faults::Lasts {
                return Err(format!("{} does not attach: {object:?}", object.name));
            }
        }
        if matches!(self.faults, Faults::Aliases | Faults::Lasts) {
            return Ok(());
        }
        for held in &self.driver.attached {
            let wanted = |object: &Attachment| {
                // The orphan is unpublished once the object is gone or no longer requests the target.
                let owed = self
                    .process
                    .attempts
                    .reactor
                    .in_flight
                    .orphan(&target(object))
                    .is_some();
                let later = orphan::leaves(object, &driver()) || (owed && !object.deleting);
                let stripped = self.faults == Faults::Strips && later;
                key(&target(object)) == *held && (object.has_finalizer(F) || stripped)
            };
            if !objects().any(wanted) && !self.in_use.contains(held) {
                return Err(format!("{held:?} stays attached"));
            }
        }
        for object in objects().filter(|object| object.attached) {
            let usable = { object.volume.as_ref() }
                .and_then(|name| self.server.volumes.get(name))
                .is_some_and(|(_, volume)| !volume.deleting);
            if usable && !self.driver.attached.contains(&key(&target(object))) {
                return Err(format!("{} is not attached: {object:?}", object.name));
            }
        }
        self.check_calls()
    }

    /// Without faults, one call of each kind suffices.
    fn check_calls(&self) -> Result<(), String> {
        if self.faults != Faults::None {
            return Ok(());
        }
        for (target, (publish, unpublish)) in &self.driver.calls {
            let made = self.made.get(target).copied().unwrap_or_default();
            if *publish > made || *unpublish > made {
                return Err(format!(
                    "{publish} publish and {unpublish} unpublish calls for {made} attachments \
                     of {target:?}"
                ));
            }
        }
        Ok(())
    }
}
