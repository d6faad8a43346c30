//! What the end of the process leaves in doubt: calls that are still running.
//!
//! Separate from the attempts, because they have been cut off by then.

use std::sync::Arc;

use tokio::task::JoinSet;

use super::provisioner::Provisioner;
use crate::plan::doubt;
use crate::plan::edit::Edit;
use crate::plan::settings::Protection;

/// Records that are written at the same time: all calls of a busy process are to be on record
/// within seconds, each with a GET and a PUT.
const AT_ONCE: usize = 32;

impl Provisioner {
    /// Records on claims what may still be running in the driver, for the process that comes next.
    /// To be called when nothing is worked on any more.
    pub async fn record_doubts(self: &Arc<Self>) {
        if self.settings.protection == Protection::Off {
            return;
        }
        let mut writing = JoinSet::new();
        for edit in self.unrecorded() {
            if writing.len() == AT_ONCE {
                writing.join_next().await;
            }
            let this = Arc::clone(self);
            writing.spawn(async move { this.record_doubt(&edit).await });
        }
        while writing.join_next().await.is_some() {}
    }

    fn unrecorded(&self) -> Vec<Edit> {
        let driver = self.driver.current();
        let memory = self.cluster.memory();
        let running = memory.running();
        let running = running.map(|(_, claim, prepared)| (claim, prepared));
        let doubts = memory.doubts();
        let doubts = doubts.map(|(_, doubt)| (&doubt.claim, &doubt.prepared));
        { running.chain(doubts) }
            .filter(|(claim, _)| !claim.deleting)
            .map(|(claim, prepared)| Edit::guard(claim, doubt::write(&driver.name, prepared)))
            .collect()
    }

    async fn record_doubt(&self, edit: &Edit) {
        let (namespace, name) = (&*edit.namespace, &*edit.name);
        match self.edit(edit).await {
            Ok(_) => tracing::info!(
                namespace,
                name,
                "Recorded on the claim that a call may still run"
            ),
            Err(error) => {
                tracing::warn!(namespace, name, err = %error, "A call may still run, which could not be recorded on the claim");
            }
        }
    }
}
