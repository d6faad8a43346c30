//! Finalizers on data sources: those of claims go one by one, those of snapshots in sweeps. A
//! source that is still needed must keep its own.

use std::sync::Arc;

use csi_proto::csi::volume_content_source::Type;

use super::driver::Kind;
use super::mutant::Mutant;
use super::run::{Fate, Faults, World};
use super::server::Versioned;
use super::watch::key as key_of;
use crate::model::{Claim, Source, Text};
use crate::plan::edit::Edit;
use crate::plan::memory::ClaimKey;
use crate::plan::protection::{self, Release};

/// A source whose finalizer is about to be removed.
pub(super) struct Freeing {
    pub(super) name: Text,
    pub(super) edit: Edit,
    /// The version in which it was read; the update is not yet applied.
    pub(super) read: Option<u64>,
}

impl World {
    /// A queued source gets a worker.
    pub(super) fn begin_source(&mut self, name: &Text) {
        let process = &mut self.process;
        process.ready_sources.remove(name);
        let Some(source) = process.claims.get(name).cloned() else {
            return;
        };
        let known = self.known_claims();
        let release = protection::release(&source, known.iter().map(|claim| &**claim));
        let process = &mut self.process;
        let release = process.mutant.frees(release);
        let released = release == Release::Due;
        match release {
            Release::None => {}
            Release::Needed { .. } => {
                process.later_sources.insert(name.clone());
            }
            Release::Due => process.freeing.push(Freeing {
                name: name.clone(),
                edit: Edit::release_claim(&source),
                read: None,
            }),
        }
        if released {
            process.claims.slots.begin_write(&key_of(name));
        }
    }

    /// All claims that the process knows of, those included that are gone and worked on.
    pub(super) fn known_claims(&self) -> Vec<Arc<Claim>> {
        let process = &self.process;
        let cached = process.claims.slots.iter();
        let cached = cached.map(|(_, claim)| Arc::clone(claim));
        let busy = process.memory.busy_claims();
        cached
            .chain(busy.map(|claim| Arc::new(claim.clone())))
            .collect()
    }

    pub(super) fn advance_source(&mut self, index: usize) {
        let Freeing { name, edit, read } = self.process.freeing.remove(index);
        let now = { self.server.claims.get(&name) }.map(|(version, _)| *version);
        if read.is_none() && now.is_some() && self.case.faults != Faults::None {
            self.process.freeing.push(Freeing {
                name,
                edit,
                read: now,
            });
            return;
        }
        let conflict = read.is_some() && read != now;
        let (done, written) = match self.fate() {
            _ if conflict => (false, None),
            Fate::Applied => self.free(&edit),
            Fate::Unheard => {
                self.free(&edit);
                (false, None)
            }
            Fate::Lost | Fate::Refused => (false, None),
        };
        self.process.absorb_written_claim(&name, written);
        if !done && !self.process.mutant.forgets_retries() {
            self.process.later_sources.insert(name);
        }
    }

    /// The server removes the finalizer of a cloned claim. Whether it need not be tried again.
    pub(super) fn free(&mut self, edit: &Edit) -> (bool, Option<Versioned<Claim>>) {
        let name = format!("{}/{}", edit.namespace, edit.name);
        let source = self.server.claims.get(&*name).map(|(_, claim)| claim);
        if let Some(source) = source.filter(|claim| claim.uid == edit.uid)
            && let Some((_, volume)) = self.server.volumes.get(&source.volume)
            && let Source::Csi(volume) = &volume.source
        {
            let handle = volume.handle.clone();
            let is_it = |source: &Type| matches!(source, Type::Volume(volume) if *volume.volume_id == *handle);
            let clones = |claim: &Claim| {
                protection::clone_source(claim).is_some_and(|(_, name)| name == edit.name)
            };
            if let Some(by) = self.needed_by(is_it, clones) {
                self.complain(format!("{name} freed while {by} is made from it"));
            }
        }
        match self.server.edit_claim(edit) {
            Ok(written) => (true, Some(written)),
            Err(error) => (error.is_not_found(), None),
        }
    }

    /// Then the journal alone says what was asked for.
    fn knows_too_little(&self) -> bool {
        !self.process.filling.is_empty()
    }

    /// The claim that is being filled from the source, or was when last heard of.
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
            processes.any(|process| process.memory.is_pinned(&key))
                || self.knows_too_little() && self.server.intents().any(|held| *held == *claim.uid)
                || calls.any(|call| {
                    call.awaited && fills(&call.kind) && call.source.as_ref().is_some_and(&is_it)
                })
        };
        open.find(|claim| needs(claim))
            .map(|claim| claim.name.clone())
    }

    /// The snapshot is about to lose its finalizer.
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

    /// All snapshots that no open claim names lose their finalizer. Decided and written at once.
    pub(super) fn sweep(&mut self) {
        let listed = self.process.filling.is_empty() && self.process.is_open();
        let early = self.mutant == Mutant::SweepsEarly;
        if self.mutant.keeps_snapshots() || !listed && !early {
            return;
        }
        let known = self.known_claims();
        let known = known.iter().map(|claim| &**claim);
        let restored = protection::restored(known, |claim| self.process.has_volume(claim));
        let restored = self.mutant.spares(restored);
        let snapshots: Vec<_> = self.server.snapshots.values().cloned().collect();
        for snapshot in protection::orphans(&snapshots, &restored) {
            self.check_freed(&snapshot.name);
            let edit = Edit::release_snapshot(&snapshot.namespace, &snapshot.name);
            self.server.edit(&edit).ok();
        }
    }
}
