//! The end of a run: faults end, everything comes to rest, and the remaining state is checked.

use sidecar_testkit::sim::rest;

use super::driver::{ModelDriver, base, is_same};
use super::process::RETENTION;
use super::run::{Faults, World};
use super::scene::{CLASS, SOURCE, Scene, node_in, zone};
use super::volume::handle;
use crate::model::{Claim, Reclaim, Snapshot, Text, VolumeDetail, VolumePhase};
use crate::plan::protection::is_ending_source;
use crate::plan::request::{ContentSource, PinnedRequest};

/// More rounds than any run needs.
const ROUNDS: usize = 60;

impl World {
    /// Ends the faults, and lets everything advance until nothing changes.
    pub(super) fn settle(&mut self) {
        self.thaw();
        while !self.late.is_empty() {
            self.apply_late();
        }
        self.remove_all();
        self.settling = true;
        self.server.refuses_leases = false;
        for _ in 0..self.sites() {
            self.turn();
            self.settle_driver();
        }
        self.check_doubles();
        while !self.server.attachments.is_empty() {
            self.detach();
        }
        self.server.secret = true;
        if self.case.scene == Scene::Topology {
            // At most one stays away.
            let away = self.driver.silent.pop_first();
            let away = away.filter(|_| self.dice.one_in(2));
            for node in self.case.scene.nodes() {
                self.put_node(node, away.as_ref() != Some(&zone(node)));
            }
            self.driver.silent = away.into_iter().collect();
        }
        if self.case.scene == Scene::Sources && self.dice.one_in(2) {
            self.server.delete_claim(&format!("ns/{SOURCE}").into());
            self.delete_snapshots();
        }
        if self.case.faults == Faults::All && self.dice.one_in(3) {
            self.suffer();
        }
        self.come_to_rest();
        if !self.has_complaint() && self.give_up_hopeless() {
            self.come_to_rest();
        }
        if !self.has_complaint() {
            self.check_moved_on();
        }
        // The driver of a topology without capacity does not settle earlier requests, nor does one whose node is gone.
        let has_unknown_outcome = self
            .processes()
            .any(|process| process.in_flight().pending_creates().next().is_some());
        if !self.has_complaint() && has_unknown_outcome {
            for _ in 0..self.sites() {
                self.turn();
                self.driver.full.clear();
                for zone in std::mem::take(&mut self.driver.silent) {
                    self.put_node(&node_in(&zone), true);
                }
            }
            self.come_to_rest();
        }
        if !self.has_complaint() && self.give_up_contradicted() {
            self.come_to_rest();
        }
    }

    /// A lasting fault, and users who give up: the objects that they delete go, except for the sources of calls with
    /// unknown outcome. Then the fault heals after all.
    fn suffer(&mut self) {
        match self.dice.below(4) {
            0 => self.server.put_class(&CLASS.into(), None),
            1 => self.server.secret = false,
            // Before the process has started.
            2 if self.journals() => {
                self.server.refuses_leases = true;
                for _ in 0..self.sites() {
                    self.turn();
                    self.end_process();
                }
            }
            _ => {
                let nodes = self.case.scene.nodes();
                self.driver.full = nodes.iter().map(|node| zone(node)).collect();
            }
        }
        let claims: Vec<Text> = self.server.claims.keys().cloned().collect();
        for name in &claims {
            self.server.delete_claim(name);
        }
        self.delete_snapshots();
        let mut quiet = 0;
        for _ in 0..ROUNDS {
            let before = self.server.version;
            self.look_at_everything();
            quiet = (quiet + 1) * usize::from(self.server.version == before);
            if quiet > 2 || self.has_complaint() {
                break;
            }
        }
        if let Err(violation) = self.check_gone() {
            self.complain(format!("while a fault lasts, {violation}"));
        }
        self.server.secret = true;
        self.server.refuses_leases = false;
        self.settle_driver();
    }

    /// Checks that deleted objects are gone.
    fn check_gone(&self) -> Result<(), String> {
        // Their sources also stay as long as no process can read the unsettled requests.
        let unsettled = self.server.refuses_leases || self.server.intents().next().is_some() || {
            self.processes()
        }
        .any(|process| process.in_flight().pending_creates().next().is_some());
        let mut claims = self.server.claims.values().map(|(_, claim)| claim);
        if let Some(stuck) = claims.find(|claim| !unsettled || !is_ending_source(claim)) {
            return Err(format!("{} does not go: {stuck:?}", stuck.name));
        }
        let mut volumes = self.server.volumes.values().map(|(_, volume)| volume);
        let due = |volume: &&VolumeDetail| {
            self.is_ours(volume)
                && volume.phase == VolumePhase::Released
                && volume.reclaim == Reclaim::Delete
        };
        match volumes.find(due) {
            Some(stuck) => Err(format!("{} does not go: {stuck:?}", stuck.name)),
            None => Ok(()),
        }
    }

    /// Ends calls without caller; at most one topology stays without capacity.
    pub(super) fn settle_driver(&mut self) {
        while let Some(id) = self.driver.running.iter().find(|call| !call.awaited) {
            let id = id.id;
            match self.obstacle(id) {
                None => self.driver.succeed(id).is_some(),
                Some(_) => self.driver.fail(id),
            };
        }
        let spared = match self.case.scene {
            // On several nodes, only the first node's driver keeps a topology without capacity.
            Scene::Nodes | Scene::Apart => self
                .driver
                .full
                .pop_first()
                .filter(|_| self.driver.site == 0),
            Scene::Plain | Scene::Topology | Scene::Sources | Scene::Moved => {
                self.driver.full.pop_first()
            }
        };
        self.driver.full = spared.into_iter().collect();
    }

    /// Rounds in which everything is requeued, until nothing changes and nothing is open, or all classes had their turn
    /// in vain.
    fn come_to_rest(&mut self) {
        let classes = self.case.scene.classes();
        let (mut quiet, mut class) = (0, 0);
        for _ in 0..ROUNDS {
            if quiet > 0 || !self.server.classes.contains_key(CLASS) {
                class = (class + 1) % classes;
                self.set_class(class);
            }
            let before = self.server.version;
            self.look_at_everything();
            quiet = if self.server.version == before {
                quiet + 1
            } else {
                0
            };
            if quiet > 2 * classes || self.has_complaint() {
                return;
            }
            // A request that contradicts a PersistentVolume is repeated again and again.
            let rests = quiet > 0 || self.contradicted().next().is_some();
            if rests && self.check_rest().is_ok() {
                return;
            }
        }
        // Unsettled requests take turns, and each turn is a write of the journal, until their topology has capacity.
        let has_unknown_outcome = self
            .processes()
            .any(|process| process.in_flight().pending_creates().next().is_some());
        let limited = |driver: &ModelDriver| !driver.full.is_empty() || !driver.silent.is_empty();
        if !has_unknown_outcome || !self.drivers().any(limited) {
            self.complain("it does not come to rest".into());
        }
    }

    fn look_at_everything(&mut self) {
        for _ in 0..self.sites() {
            self.turn();
            self.process.list(&self.server);
            self.recover();
            self.clock += RETENTION;
            self.retry();
            if self.case.scene.is_node_deployment() {
                self.process.resync();
            }
            self.drain();
        }
        self.control_all();
        if self.case.scene == Scene::Sources {
            self.sweep();
        }
    }

    /// Works until no queue has a key; keys in back-off stay there.
    fn drain(&mut self) {
        let is_idle = |world: &mut Self| {
            let journals = world.journals() && !world.server.refuses_leases;
            let process = &mut world.process;
            process.attempts.is_idle()
                && !process.fenced
                && (!journals || process.asking.is_none() && process.journal().next(true).is_none())
                && process.filling.is_empty()
        };
        if let Err(violation) = rest::drain(self, is_idle, Self::work) {
            self.complain(violation);
        }
    }

    pub(super) fn check_rest(&self) -> Result<(), String> {
        let claims = || self.server.claims.values().map(|(_, claim)| claim);
        let volumes = || self.server.volumes.values().map(|(_, volume)| volume);
        if let Some(stuck) = claims().find(|claim| claim.deleting) {
            return Err(format!("{} does not go: {stuck:?}", stuck.name));
        }
        if let Some(open) = claims().find(|claim| claim.phase.is_open()) {
            return Err(format!("{} does not get its volume: {open:?}", open.name));
        }
        let mut intents = self.server.intents();
        if let Some(uid) = intents.find(|uid| !self.is_left_to_people(uid) && !self.is_held(uid)) {
            return Err(format!("the intent of {uid} stays behind"));
        }
        let ours = |volume: &&VolumeDetail| self.is_ours(volume);
        let due = |volume: &&VolumeDetail| {
            let released = volume.phase == VolumePhase::Released;
            ours(volume) && released && volume.reclaim == Reclaim::Delete
                || volume.deleting && !is_bound(volume, claims())
        };
        if let Some(stuck) = volumes().find(due) {
            return Err(format!("{} does not go: {stuck:?}", stuck.name));
        }
        let unkempt = |volume: &&VolumeDetail| {
            let bound = volume.phase == VolumePhase::Bound && !volume.deleting;
            let wanted = match volume.reclaim {
                Reclaim::Delete => bound.then_some(true),
                Reclaim::Retain | Reclaim::Recycle => Some(false),
                Reclaim::Other => None,
            };
            let has = volume.is_protected();
            ours(volume) && wanted.is_some_and(|wanted| wanted != has)
        };
        if let Some(unkempt) = volumes().find(unkempt) {
            return Err(format!(
                "the finalizer of {} is wrong: {unkempt:?}",
                unkempt.name
            ));
        }
        self.check_snapshots()?;
        self.check_left_state()?;
        for (name, id) in self.drivers().flat_map(|driver| &driver.volumes) {
            let has = |volume: &VolumeDetail| handle(volume).is_some_and(|held| is_same(held, id));
            if !volumes().any(has)
                && !self.excused.contains(base(name))
                && !self
                    .contradicted()
                    .any(|volume| *volume.name == *base(name))
            {
                return Err(format!("the volume {name} is left over"));
            }
        }
        let lost = |volume: &&VolumeDetail| {
            handle(volume).is_none_or(|handle| !self.drivers().any(|driver| driver.has(handle)))
        };
        if let Some(lost) = volumes().find(lost) {
            return Err(format!("{} has no volume: {lost:?}", lost.name));
        }
        self.check_calls()
    }

    /// Checks that no snapshot is being restored any more.
    fn check_snapshots(&self) -> Result<(), String> {
        let snapshots = || self.server.snapshots.values();
        if let Some(kept) = snapshots().find(|snapshot| snapshot.is_protected()) {
            return Err(format!("{} keeps the finalizer", kept.name));
        }
        let deleting = |snapshot: &&Snapshot| snapshot.deleting;
        match snapshots().find(deleting) {
            Some(stuck) => Err(format!("{} does not go", stuck.name)),
            None => Ok(()),
        }
    }

    /// Whether no unsettled request of the claim of this UID has made or can make a volume, since its source is gone.
    /// Somebody has to remove it from the journal.
    fn is_left_to_people(&self, uid: &str) -> bool {
        let is_gone = |prepared: &PinnedRequest| {
            let made = self.drivers().any(|driver| driver.may_have(&prepared.name));
            let mut snapshots = self.server.snapshots.values();
            !made
                && match &prepared.source {
                    None => false,
                    Some(ContentSource::Volume(id)) => !self.drivers().any(|driver| driver.has(id)),
                    Some(ContentSource::Snapshot(id)) => {
                        !snapshots.any(|snapshot| *snapshot.uid == **id)
                    }
                }
        };
        let pending_creates = self
            .processes()
            .flat_map(|process| process.in_flight().pending_creates());
        let mut pending_creates = pending_creates
            .filter(|(key, _)| *key.uid == *uid)
            .peekable();
        pending_creates.peek().is_some()
            && pending_creates
                .all(|(_, pending)| pending.requests().all(|prepared| is_gone(prepared)))
    }

    /// Checks that claims get their volumes elsewhere while no call for a node that is gone gets an answer, unless a
    /// volume exists already.
    fn check_moved_on(&mut self) {
        if self.drivers().all(|driver| driver.silent.is_empty()) {
            return;
        }
        let made = |claim: &Claim| {
            let name = format!("pvc-{}", claim.uid);
            self.drivers().any(|driver| driver.may_have(&name))
        };
        let claims = self.server.claims.values().map(|(_, claim)| claim);
        let mut open = claims.filter(|claim| claim.phase.is_open() && claim.volume.is_empty());
        if let Some(stuck) = open.find(|claim| !made(claim)).cloned() {
            let name = &stuck.name;
            self.complain(format!(
                "{name} does not get its volume while a node is gone: {stuck:?}"
            ));
        }
    }

    /// Checks that settled state is dropped: a process runs for months.
    fn check_left_state(&self) -> Result<(), String> {
        let left = self.processes().map(|process| {
            let mut uids = process
                .in_flight()
                .pending_creates()
                .map(|(key, _)| &key.uid);
            let known = uids.all(|uid| self.is_left_to_people(uid) || self.is_held(uid));
            let mut left = process.attempts.reactor.left();
            left.retain(|map| !known || !["pending_creates", "reported"].contains(map));
            left
        });
        match left.flatten().next() {
            Some(map) => Err(format!("the in-flight state is not empty: {map}")),
            None => Ok(()),
        }
    }

    /// Checks that without faults one call of each kind is enough.
    fn check_calls(&self) -> Result<(), String> {
        if self.case.faults != Faults::None {
            return Ok(());
        }
        for (name, (creates, deletes)) in self.drivers().flat_map(|driver| &driver.calls) {
            if *creates > 1 || *deletes > 1 {
                return Err(format!(
                    "{creates} CreateVolume and {deletes} DeleteVolume calls for {name}"
                ));
            }
        }
        Ok(())
    }
}

fn is_bound<'a>(volume: &VolumeDetail, mut claims: impl Iterator<Item = &'a Claim>) -> bool {
    let owner = volume.claim.as_ref();
    claims.any(|claim| owner.is_some_and(|owner| owner.uid == claim.uid))
}
