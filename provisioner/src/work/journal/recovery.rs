//! What is found in the journal that this process did not write: calls of earlier processes, and people's
//! edits.
//!
//! Separate, because it is about claims, and the rest about requests to the API server.

use std::sync::Arc;

use tokio::time::Instant;

use super::Keeper;
use crate::model::Claim;
use crate::plan::journal::{Forgotten, Recovery};
use crate::plan::memory::ClaimKey;
use crate::work::provisioner::Provisioner;

impl Provisioner {
    /// Takes in what others did to the journal.
    pub(super) fn learn(&self, journal: &Keeper) {
        let (forgotten, broken) = {
            let mut state = journal.state();
            (state.forgotten(), state.broken())
        };
        for what in broken {
            tracing::error!(
                what,
                "An entry of the provisioning journal is kept and not acted on: find out whether its volume exists and is nobody's, then remove the annotation"
            );
        }
        for Forgotten { uid, requests } in forgotten {
            tracing::warn!(
                claim_uid = &*uid,
                "Somebody removed this claim from the provisioning journal, its call is forgotten"
            );
            self.cluster.memory().forget(&uid, &requests);
        }
        if self.recovered.initialized() {
            self.resume(journal);
        }
    }

    /// Goes on with what earlier processes have left. To be called when claims and volumes are known.
    pub async fn recover(&self) {
        if let Some(journal) = &self.journal {
            journal.opened().await;
            self.resume(journal);
        }
        // It is called once.
        let _ = self.recovered.set(());
    }

    fn resume(&self, journal: &Keeper) {
        let adopted = journal.state().adopted();
        let mut resumed = 0_usize;
        for intent in adopted {
            let exists = self.cluster.volumes.get(intent.name()).is_some();
            let (asked, mut owed) = (intent.asked.clone(), intent.owed.clone());
            let asked = match intent.recovery(exists, self.settings.node.is_none()) {
                Recovery::Settled => {
                    journal.state().settle(intent.uid());
                    continue;
                }
                Recovery::Compared => {
                    owed.extend(asked);
                    None
                }
                Recovery::Resumed => asked,
            };
            let claim = intent.claim();
            let key = ClaimKey::of(&claim);
            let cached = self.cluster.claims.get(&key.name);
            let cached = cached.filter(|cached| cached.uid == key.uid);
            let claim: Arc<Claim> = cached.unwrap_or_else(|| Arc::new(claim));
            let now = Instant::now().into_std();
            { self.cluster.memory() }.inherit(&claim, asked, owed, now);
            self.cluster.wake(&key);
            resumed += 1;
        }
        journal.wanted.notify_one();
        if resumed > 0 {
            tracing::info!(resumed, "Going on with calls of an earlier process");
        }
    }
}
