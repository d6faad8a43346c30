//! What controllers stand on as long as the head is held.

use std::sync::Arc;

use sidecar::controller::{Link, Process, Tenure};
use sidecar::flags::Exit;

/// The connections to API server and driver. Under the next head there are others, so that nothing goes
/// out any more that was sent on these.
#[derive(Clone)]
pub(super) struct Ground {
    pub(super) tenure: Tenure,
    pub(super) link: Arc<Link>,
}

impl Ground {
    /// Another one, with the same driver as `last`; waits until that is there.
    ///
    /// # Errors
    /// It is another driver by now, or the credentials cannot be read any more.
    pub(super) async fn anew(process: &Process, last: &Link) -> Result<Self, Exit> {
        let tenure = process.tenure().await?;
        let link = Box::pin(last.anew(tenure.fence.clone())).await?;
        Ok(Self { tenure, link })
    }
}
