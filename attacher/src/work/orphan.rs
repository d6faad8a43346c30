//! Unpublishes what VolumeAttachments that are gone have left.
//!
//! Separate from the attempts: there is no object, so nothing is recorded but in the log, and a
//! crash forgets it.

use sidecar::queue::Work;

use super::api;
use super::attachment::Attacher;
use crate::plan::attachment::Answer;
use crate::plan::flight::Target;
use crate::plan::memory::Item;
use crate::plan::orphan::{self, Orphan, Verdict};
use crate::plan::outcome::Failure;
use crate::plan::{lane, request};

/// How work on an orphan ended.
pub(super) enum OrphanEnd {
    /// Nothing is left to unpublish, or another VolumeAttachment's detach does it.
    Settled,
    /// Somebody else's end brings it back.
    Waits,
    /// It is to be retried.
    Failed(Failure),
}

impl Attacher {
    pub(super) async fn unpublish_orphan(&self, target: &Target) -> OrphanEnd {
        let orphan = self.cluster.memory().orphan(target).cloned();
        let Some(orphan) = orphan else {
            return OrphanEnd::Settled;
        };
        match self.cluster.verdict(&orphan) {
            Verdict::Settled => return OrphanEnd::Settled,
            Verdict::Wait => return OrphanEnd::Waits,
            Verdict::Unpublish => {}
        }
        let secrets = match &orphan.secret {
            None => Answer::Secret(request::Secrets::new()),
            Some(reference) => api::secret(&self.api, reference).await,
        };
        match orphan::secrets(&orphan, secrets) {
            Ok(secrets) => self.unpublish_alone(&orphan, &secrets).await,
            Err(failure) => OrphanEnd::Failed(failure),
        }
    }

    /// Nobody else calls for volume and node at that time, nor has since it was looked who asks.
    async fn unpublish_alone(&self, orphan: &Orphan, secrets: &request::Secrets) -> OrphanEnd {
        let target = &orphan.target;
        let item = Item::Orphan(target.clone());
        if !self.cluster.memory().calls.begin(target, item) {
            return OrphanEnd::Waits;
        }
        let end = match self.cluster.verdict(orphan) {
            Verdict::Settled => OrphanEnd::Settled,
            Verdict::Wait => OrphanEnd::Waits,
            Verdict::Unpublish => {
                let request = request::unpublish(&target.volume, &target.node, secrets);
                match orphan::heard(self.unpublish(&request, orphan.migrated).await) {
                    Ok(()) => OrphanEnd::Settled,
                    Err(failure) => OrphanEnd::Failed(failure),
                }
            }
        };
        self.land(target, end)
    }

    /// Tells queue and books how it ended.
    pub(super) fn close_orphan(&self, work: Work<Item>, target: &Target, end: OrphanEnd) {
        let (volume_handle, node_id) = (&*target.volume, &*target.node);
        match end {
            OrphanEnd::Settled => {
                self.cluster.memory().settled(target);
                work.done();
            }
            OrphanEnd::Waits => work.done(),
            OrphanEnd::Failed(failure) => {
                if lane::hung(&failure) {
                    work.hangs();
                }
                self.cluster.memory().awaits(work.key().clone(), &failure);
                let wait = work.retry();
                tracing::error!(
                    volume_handle,
                    node_id,
                    retry_after = ?wait,
                    err = %failure,
                    "Cannot detach what a VolumeAttachment that is gone has left"
                );
            }
        }
    }
}
