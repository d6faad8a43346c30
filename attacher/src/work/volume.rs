//! Releases PersistentVolumes that are being deleted and that no attachment needs any more.

use std::sync::Arc;

use sidecar::queue::Work;

use super::attachment::Attacher;
use crate::model::Text;
use crate::plan::memory::Waiter;
use crate::plan::outcome::ApiError;
use crate::plan::volume;

impl Attacher {
    /// Works until the queue is shut down, then waits for what still runs.
    pub async fn serve_releases(self: &Arc<Self>) {
        let serve = self.cluster.releases.serve(|work| {
            let this = Arc::clone(self);
            async move { this.release(work).await }
        });
        serve.await;
    }

    async fn release(&self, work: Work<Text>) {
        let name = work.key().clone();
        match self.try_release(&name).await {
            Ok(()) => work.done(),
            Err(error) => {
                let wait = work.retry();
                tracing::error!(
                    volume = &*name,
                    retry_after = ?wait,
                    err = %error,
                    "Failed to remove finalizer from PersistentVolume"
                );
            }
        }
    }

    /// Removes the finalizer as often as it is there.
    async fn try_release(&self, name: &Text) -> Result<(), ApiError> {
        while let Some(patch) = self.due(name) {
            let waiter = Waiter::Volume(name.clone());
            if !self.cluster.memory().patches.begin(name, waiter) {
                return Ok(());
            }
            let result = self.patch_volume(name, &patch).await;
            self.cluster.volume_patched(name);
            result?;
        }
        Ok(())
    }

    fn due(&self, name: &Text) -> Option<serde_json::Value> {
        let volume = self.cluster.volumes.get(name)?;
        let used = self.cluster.memory().uses(name);
        volume::release(&volume, used, &self.driver.current())
    }
}
