//! Finalizers on data sources: those of claims are removed one by one, those of snapshots in sweeps. A source that is
//! still needed must keep its finalizer.

use std::sync::Arc;

use csi_proto::csi::volume_content_source::Type;
use sidecar::controller::request::Body;
use sidecar_testkit::sim::watch::Versioned;

use super::driver::Kind;
use super::mutant::Mutant;
use super::run::World;
use super::step::name_of;
use crate::model::{Claim, Source, Text};
use crate::plan::edit;
use crate::plan::in_flight::ClaimKey;
use crate::plan::outcome::ApiError;
use crate::plan::protection;
use crate::plan::request::{Object, Write};

impl World {
    /// The server removes the finalizer of a cloned claim.
    pub(super) fn free(&mut self, write: &Write) -> Result<Versioned<Claim>, ApiError> {
        let (Object::Claim(key), Body::Edit(edit)) = (&write.object, &write.body) else {
            unreachable!("no claim is freed")
        };
        let name = name_of(key);
        let source = self.server.claims.get(key).map(|(_, claim)| claim);
        if let Some(source) = source.filter(|claim| write.uid.as_ref() == Some(&claim.uid))
            && let Some((_, volume)) = self.server.volumes.get(&source.volume)
            && let Source::Csi(volume) = &volume.source
        {
            let handle = volume.handle.clone();
            let is_it = |source: &Type| matches!(source, Type::Volume(volume) if *volume.volume_id == *handle);
            let clones = |claim: &Claim| {
                protection::clone_source(claim).is_some_and(|(_, source)| *source == *name)
            };
            if let Some(by) = self.needed_by(is_it, clones) {
                self.complain(format!("{key} freed while {by} is made from it"));
            }
        }
        self.server.edit_claim(key, write.uid.as_ref(), edit)
    }

    /// While the process fills its caches, only the journal has the requests.
    fn knows_too_little(&self) -> bool {
        !self.process.filling.is_empty()
    }

    /// The claim that is being made from the source, or was when the process last heard of it.
    fn needed_by(
        &self,
        is_it: impl Fn(&Type) -> bool,
        names: impl Fn(&Claim) -> bool,
    ) -> Option<Text> {
        let open = self.server.claims.values().map(|(_, claim)| claim);
        let mut open = open.filter(|claim| claim.phase.is_open() && names(claim));
        let needs = |claim: &Claim| {
            let name = format!("pvc-{}", claim.uid);
            if self.server.volumes.contains_key(&*name) {
                return false;
            }
            let key = ClaimKey::of(claim);
            let fills = |kind: &Kind| matches!(kind, Kind::Create(made) if *made == name);
            let mut calls = self.drivers().flat_map(|driver| &driver.running);
            let mut processes = self.processes();
            processes.any(|process| process.in_flight().is_pinned(&key))
                || self.knows_too_little() && self.server.intents().any(|held| *held == *claim.uid)
                || calls.any(|call| {
                    call.awaited && fills(&call.kind) && call.source.as_ref().is_some_and(&is_it)
                })
        };
        open.find(|claim| needs(claim))
            .map(|claim| claim.name.clone())
    }

    /// Checks that the snapshot may lose its finalizer.
    pub(super) fn check_freed(&mut self, name: &Text) {
        let Some(snapshot) = self.server.snapshots.get(name) else {
            return;
        };
        let uid = snapshot.uid.clone();
        let is_it =
            |source: &Type| matches!(source, Type::Snapshot(source) if *source.snapshot_id == *uid);
        let names = |claim: &Claim| {
            let restored = protection::restored([claim], |_| false);
            restored.iter().any(|(_, restored)| restored == name)
        };
        if let Some(by) = self.needed_by(is_it, names) {
            self.complain(format!("{name} freed while {by} is made from it"));
        }
    }

    /// Removes the finalizers of all snapshots that no open claim names. Decides and writes at once.
    pub(super) fn sweep(&mut self) {
        let listed = self.process.filling.is_empty() && self.process.is_open();
        let early = self.mutant == Mutant::SweepsEarly;
        if self.mutant.keeps_snapshots() || !listed && !early {
            return;
        }
        let snapshots: Vec<_> = self.server.snapshots.values().cloned().collect();
        let snapshots: Vec<_> = snapshots.into_iter().map(Arc::new).collect();
        let process = &mut self.process;
        let frees = self.mutant == Mutant::FreesSnapshots;
        let in_flight = process.attempts.reactor.in_flight_mut();
        let hidden = frees.then(|| in_flight.hide_busy());
        process.informers.hidden.claims = frees;
        let orphans = { &process.attempts.reactor }.orphans(&snapshots, &process.informers);
        process.informers.hidden.claims = false;
        if let Some(hidden) = hidden {
            process.attempts.reactor.in_flight_mut().show_busy(hidden);
        }
        for snapshot in orphans {
            self.check_freed(&snapshot.name);
            self.apply_request(edit::release_snapshot(&snapshot.namespace, &snapshot.name));
        }
    }
}
