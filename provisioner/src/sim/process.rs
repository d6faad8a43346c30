//! One provisioner process: caches fed by late events, queues, and attempts that advance step by
//! step. The caches and the books are the real ones, without their locks.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use sidecar::kube::cache::Source;
use sidecar::kube::cache::slots::Change;

use super::mutant::Mutant;
use super::server::{Event, Server, Versioned};
use super::watch::Watch;
use super::{claim, volume};
use crate::model::{Attachment, Claim, Class, Text, Volume, VolumeDetail};
use crate::plan::claim::Attempt;
use crate::plan::memory::{ClaimKey, Memory};
use crate::plan::outcome::Cure;
use crate::plan::request::Prepared;
use crate::plan::settings::Settings;
use crate::plan::topology::Places;
use crate::plan::{Driver, delete, event};

/// An attempt on a claim under way.
pub(super) struct Running {
    pub(super) key: ClaimKey,
    pub(super) attempt: Attempt,
    pub(super) current: Arc<Claim>,
    /// The claim was gone when the attempt began.
    pub(super) gone: bool,
    pub(super) state: claim::State,
}

/// An attempt on a volume under way.
pub(super) struct Deleting {
    pub(super) name: Text,
    pub(super) attempt: delete::Attempt,
    pub(super) current: Arc<Volume>,
    pub(super) state: volume::State,
}

pub(super) struct Process {
    pub(super) driver: Driver,
    pub(super) settings: Settings,
    pub(super) mutant: Mutant,
    pub(super) places: Places,
    pub(super) claims: Watch<Claim>,
    pub(super) volumes: Watch<Volume>,
    pub(super) attachments: Watch<Attachment>,
    pub(super) classes: Watch<Class>,
    pub(super) ready: BTreeSet<ClaimKey>,
    pub(super) later: BTreeSet<ClaimKey>,
    pub(super) ready_volumes: BTreeSet<Text>,
    pub(super) later_volumes: BTreeSet<Text>,
    pub(super) running: Vec<Running>,
    pub(super) deleting: Vec<Deleting>,
    pub(super) memory: Memory<Prepared>,
}

/// How long an infeasible request waits.
pub(super) const RETENTION: Duration = Duration::from_secs(300);

impl Process {
    /// A process that has just listed everything.
    pub(super) fn start(
        server: &Server,
        driver: Driver,
        settings: Settings,
        mutant: Mutant,
    ) -> Self {
        let mut process = Self {
            driver,
            settings,
            mutant,
            places: Places::default(),
            claims: Watch::new(),
            volumes: Watch::new(),
            attachments: Watch::new(),
            classes: Watch::new(),
            ready: BTreeSet::new(),
            later: BTreeSet::new(),
            ready_volumes: BTreeSet::new(),
            later_volumes: BTreeSet::new(),
            running: Vec::new(),
            deleting: Vec::new(),
            memory: Memory::new(RETENTION),
        };
        process.list(server);
        process
    }

    /// Lists everything anew, as at the start and after a watch broke.
    pub(super) fn list(&mut self, server: &Server) {
        let now = server.now();
        for change in self
            .classes
            .list(&server.classes, now, |class| Some(class.clone()))
        {
            self.class_changed(&change);
        }
        for change in self
            .attachments
            .list(&server.attachments, now, |held| Some(held.clone()))
        {
            self.attachment_changed(&change);
        }
        for change in self
            .volumes
            .list(&server.volumes, now, |volume| Some(volume.clone().keep()))
        {
            self.volume_changed(change);
        }
        for change in self.claims.list(&server.claims, now, keep) {
            self.claim_changed(change);
        }
    }

    /// Takes in one event of the server's log.
    pub(super) fn observe(&mut self, (version, event): &Versioned<Event>) {
        let version = *version;
        match event.clone() {
            Event::Claim(name, object) => {
                let kept = object.as_ref().and_then(keep);
                if let Some(change) = self.claims.observe(&name, kept, version) {
                    self.claim_changed(change);
                }
            }
            Event::Volume(name, object) => {
                let kept = object.map(VolumeDetail::keep);
                if let Some(change) = self.volumes.observe(&name, kept, version) {
                    self.volume_changed(change);
                }
            }
            Event::Attachment(name, object) => {
                if let Some(change) = self.attachments.observe(&name, object, version) {
                    self.attachment_changed(&change);
                }
            }
            Event::Class(name, object) => {
                if let Some(change) = self.classes.observe(&name, object, version) {
                    self.class_changed(&change);
                }
            }
        }
    }

    pub(super) fn claim_changed(&mut self, change: Change<Claim>) {
        let (old, new) = match &change {
            Change::Upserted { old, new, .. } => (old.as_deref(), Some(&**new)),
            Change::Deleted { old, .. } => (Some(&**old), None),
        };
        if let Some(old) = old
            && new.is_none_or(|new| new.uid != old.uid)
        {
            let key = ClaimKey::of(old);
            if self.memory.gone(&key) {
                self.ready.insert(key);
            } else {
                self.later.remove(&key);
            }
        }
        if let Change::Upserted {
            old, new, source, ..
        } = &change
            && *source == Source::Watch
            && event::is_work_for_claim(old.as_deref(), new, &self.driver)
        {
            self.ready.insert(ClaimKey::of(new));
        }
    }

    pub(super) fn volume_changed(&mut self, change: Change<Volume>) {
        match change {
            Change::Upserted {
                key,
                old,
                new,
                source,
            } => {
                let own = source == Source::Own;
                if !own && event::is_work_for_volume(old.as_deref(), &new, &self.driver) {
                    self.ready_volumes.insert(key.as_str().into());
                }
            }
            Change::Deleted { key, .. } => self.memory.volume_gone(key.as_str()),
        }
    }

    fn attachment_changed(&mut self, change: &Change<Attachment>) {
        if let Change::Deleted { old, .. } = change
            && self.later_volumes.contains(&old.volume)
        {
            self.ready_volumes.insert(old.volume.clone());
        }
    }

    fn class_changed(&mut self, change: &Change<Class>) {
        if let Change::Upserted { new, .. } = change {
            self.ready
                .extend(self.memory.cured(&Cure::Class(new.name.clone())));
        }
    }
}

/// What of a claim is kept in the cache.
pub(super) fn keep(claim: &Claim) -> Option<Claim> {
    claim.is_actionable().then(|| claim.clone())
}
