//! Changes that other processes and people make to the journal while this process works.

use std::sync::Arc;
use std::time::Instant;

use super::{Asked, ClaimKey, InFlightState, PendingCreate, is_among};
use crate::model::Claim;

impl<P: Asked> InFlightState<P> {
    /// Adds another process's requests, whose outcome is unknown, to the known ones and to those that a running attempt
    /// leaves.
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

    /// Forgets requests that somebody removed from the journal, since nobody needs their outcome. If a call is running,
    /// its answer is awaited: only without an answer its outcome is unknown again.
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

    /// Completes `owed`, which an attempt with `asked` as its last request leaves: adds requests that the attempt did
    /// not know of, and drops those that somebody removed.
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
