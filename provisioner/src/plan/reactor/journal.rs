//! The reactor's entries in the provisioning journal, and entries that this process did not write: calls of earlier
//! processes, and people's edits.

use std::sync::Arc;
use std::time::Instant;

use super::event::look_at_claims;
use super::{Informed, Notice, Provisioner, Wakes, wake_claim};
use crate::model::Claim;
use crate::plan::in_flight::ClaimKey;
use crate::plan::journal::{Forgotten, Intent, Recovery, Unwritable};

impl Provisioner {
    /// Whether the driver may be called for the claim: its request is in the journal, and no other process led a moment
    /// ago; `leads`: the election's lease shows that no other process leads.
    #[must_use]
    pub fn may_call(&self, claim_uid: &str, now: Instant, leads: bool) -> bool {
        let journal = self.journal.as_ref();
        journal.is_none_or(|journal| journal.may_call(claim_uid, now, leads))
    }

    /// Why the requests of earlier processes are not known yet; `None` if they are. Meanwhile the process sends no
    /// requests for claims, removes no selected node, and releases no source.
    pub(super) fn unrecovered(&self) -> Option<Unwritable> {
        let journal = self.journal.as_ref().filter(|_| !self.recovered)?;
        Some(journal.closed().unwrap_or(Unwritable::Closed))
    }

    /// Makes the claim's entry in the journal contain its unsettled requests, and no more.
    pub(super) fn settle(&mut self, key: &ClaimKey, due: &mut Wakes) {
        let Some(journal) = &mut self.journal else {
            return;
        };
        match self.in_flight.known(key).pending {
            Some(pending) => {
                let intent =
                    Intent::with_unsettled(&pending.claim, pending.pinned, pending.unsettled);
                journal.amend(&intent);
            }
            None if self.in_flight.is_busy(key) => return,
            None => journal.settle(&key.uid),
        }
        due.notices.push(Notice::Journal);
    }

    /// Continues the calls of earlier processes, and requeues the claims that had to wait for them. Call it once claims
    /// and volumes are listed and this process has taken the journal.
    pub fn recover(&mut self, informers: Informed<'_>, now: Instant) -> Wakes {
        let mut due = Wakes::default();
        self.recovered = true;
        self.resume(informers, now, &mut due);
        look_at_claims(informers, &mut due);
        due
    }

    /// Applies others' changes of the journal. Call it after each of the journal's answers.
    pub fn learn(&mut self, informers: Informed<'_>, now: Instant) -> Wakes {
        let mut due = Wakes::default();
        let Some(journal) = &mut self.journal else {
            return due;
        };
        let (forgotten, broken) = (journal.forgotten(), journal.broken());
        due.notices.extend(broken.into_iter().map(Notice::Broken));
        for Forgotten { uid, requests } in forgotten {
            due.notices.push(Notice::Forgotten(uid.to_string()));
            self.in_flight.forget(&uid, &requests);
        }
        if self.recovered {
            self.resume(informers, now, &mut due);
        }
        due
    }

    fn resume(&mut self, informers: Informed<'_>, now: Instant, due: &mut Wakes) {
        let Some(journal) = &mut self.journal else {
            return;
        };
        let mut resumed = 0_usize;
        for intent in journal.adopted() {
            let exists = informers.volume(intent.name()).is_some();
            let (asked, mut unsettled) = (intent.asked.clone(), intent.unsettled.clone());
            let claim = intent.claim();
            let key = ClaimKey::of(&claim);
            // This process's request for the claim may have made the PersistentVolume.
            let alone = self.settings.node.is_none() && !self.in_flight.is_busy(&key);
            let asked = match intent.recovery(exists, alone) {
                Recovery::Settled => {
                    journal.settle(intent.uid());
                    continue;
                }
                Recovery::Compared => {
                    unsettled.extend(asked);
                    None
                }
                Recovery::Resumed => asked,
            };
            let cached = informers.claim(&key.name);
            let cached = cached.filter(|cached| cached.uid == key.uid);
            let claim: Arc<Claim> = cached.unwrap_or_else(|| Arc::new(claim));
            self.in_flight.adopt(&claim, asked, unsettled, now);
            wake_claim(due, key);
            resumed += 1;
        }
        due.notices.push(Notice::Journal);
        if resumed > 0 {
            due.notices.push(Notice::Resumed(resumed));
        }
    }
}
