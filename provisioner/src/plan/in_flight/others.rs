//! What other processes and people do to the journal while this process works.

use std::sync::Arc;
use std::time::Instant;

use super::{Asked, ClaimKey, InFlightState, PendingCreate, is_among};
use crate::model::Claim;

impl<P: Asked> InFlightState<P> {
    /// What another process asked is in doubt from the start. It is beside what is known to be in doubt, and
    /// beside what a running attempt leaves.
    pub fn inherit(
        &mut self,
        claim: &Arc<Claim>,
        pinned: Option<Arc<P>>,
        owed: Vec<Arc<P>>,
        now: Instant,
    ) {
        let key = ClaimKey::of(claim);
        let inherited: Vec<Arc<P>> = pinned.iter().chain(&owed).cloned().collect();
        let adopted = self.adopted.entry(key.clone()).or_default();
        adopted.extend(inherited.iter().cloned());
        let doubt = match self.doubts.remove(&key) {
            Some(mut known) => {
                for asked in inherited {
                    if !known.requests().any(|held| held.asks_the_same(&asked)) {
                        known.owed.push(Arc::clone(&asked));
                    }
                    known.inherited.push(asked);
                }
                known
            }
            None => PendingCreate {
                claim: Arc::clone(claim),
                pinned,
                owed,
                since: now,
                inherited,
                recalled: false,
            },
        };
        self.remember(key, doubt);
    }

    /// Nobody is to find out what came of these: somebody took them out of the journal. What a call that is
    /// running says is waited for: only if it has no answer it is in doubt anew.
    pub fn forget(&mut self, uid: &str, requests: &[Arc<P>]) {
        let Some(key) = self.doubts.keys().find(|key| *key.uid == *uid).cloned() else {
            return;
        };
        if self.calls.contains_key(&key) {
            let revoked = self.revoked.entry(key).or_default();
            return revoked.extend_from_slice(requests);
        }
        if let Some(adopted) = self.adopted.get_mut(&key) {
            adopted.retain(|asked| !is_among(asked, requests));
        }
        if let Some(doubt) = self.doubts.get_mut(&key) {
            doubt.pinned.take_if(|asked| is_among(asked, requests));
            doubt.owed.retain(|owed| !is_among(owed, requests));
            if doubt.requests().next().is_none() {
                self.settle(&key);
            }
        }
    }

    /// An attempt that asked this last leaves `owed`: what it does not know of stays as well, whatever has become
    /// of what it knows, and what was taken out does not.
    pub(super) fn add_others(
        &mut self,
        key: &ClaimKey,
        asked: Option<&Arc<P>>,
        owed: &mut Vec<Arc<P>>,
    ) {
        for adopted in self.adopted.remove(key).unwrap_or_default() {
            let is_asked = asked.is_some_and(|asked| asked.asks_the_same(&adopted));
            if !is_asked && !is_among(&adopted, owed) {
                owed.push(adopted);
            }
        }
        if let Some(revoked) = self.revoked.remove(key) {
            self.forget(&key.uid, &revoked);
            owed.retain(|owed| !is_among(owed, &revoked));
        }
    }
}
