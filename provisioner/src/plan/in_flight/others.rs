//! Changes that other processes and people make to the journal while this process works.

use std::sync::Arc;
use std::time::Instant;

use super::{Asked, ClaimKey, InFlightState, PendingCreate, is_among};
use crate::model::Claim;

impl<P: Asked> InFlightState<P> {
    /// Adds another process's requests, whose outcome is unknown, to the known ones and to those that a running attempt
    /// leaves.
    pub fn adopt(
        &mut self,
        claim: &Arc<Claim>,
        pinned: Option<Arc<P>>,
        unsettled: Vec<Arc<P>>,
        now: Instant,
    ) {
        let key = ClaimKey::of(claim);
        let sent_earlier: Vec<Arc<P>> = pinned.iter().chain(&unsettled).cloned().collect();
        let adopted = self.adopted.entry(key.clone()).or_default();
        adopted.extend(sent_earlier.iter().cloned());
        let pending = match self.pending_creates.remove(&key) {
            Some(mut known) => {
                for asked in sent_earlier {
                    if !known.requests().any(|held| held.asks_the_same(&asked)) {
                        known.unsettled.push(Arc::clone(&asked));
                    }
                    known.sent_earlier.push(asked);
                }
                known
            }
            None => PendingCreate {
                claim: Arc::clone(claim),
                pinned,
                unsettled,
                since: now,
                sent_earlier,
                was_unsettled: false,
            },
        };
        self.remember(key, pending);
    }

    /// Forgets requests that somebody removed from the journal, since nobody needs their outcome. If a call is running,
    /// its answer is awaited: only without an answer its outcome is unknown again.
    pub fn forget(&mut self, uid: &str, requests: &[Arc<P>]) {
        let Some(key) = self
            .pending_creates
            .keys()
            .find(|key| *key.uid == *uid)
            .cloned()
        else {
            return;
        };
        if self.calls.contains_key(&key) {
            let revoked = self.revoked.entry(key).or_default();
            return revoked.extend_from_slice(requests);
        }
        if let Some(adopted) = self.adopted.get_mut(&key) {
            adopted.retain(|asked| !is_among(asked, requests));
        }
        if let Some(pending) = self.pending_creates.get_mut(&key) {
            pending.pinned.take_if(|asked| is_among(asked, requests));
            pending
                .unsettled
                .retain(|unsettled| !is_among(unsettled, requests));
            if pending.requests().next().is_none() {
                self.settle(&key);
            }
        }
    }

    /// Completes `unsettled`, which an attempt with `asked` as its last request leaves: adds requests that the attempt
    /// did not know of, and drops those that somebody removed.
    pub(super) fn add_others(
        &mut self,
        key: &ClaimKey,
        asked: Option<&Arc<P>>,
        unsettled: &mut Vec<Arc<P>>,
    ) {
        for adopted in self.adopted.remove(key).unwrap_or_default() {
            let is_asked = asked.is_some_and(|asked| asked.asks_the_same(&adopted));
            if !is_asked && !is_among(&adopted, unsettled) {
                unsettled.push(adopted);
            }
        }
        if let Some(revoked) = self.revoked.remove(key) {
            self.forget(&key.uid, &revoked);
            unsettled.retain(|unsettled| !is_among(unsettled, &revoked));
        }
    }
}
