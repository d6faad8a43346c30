//! The volume of an attachment, if the caches do not show it.

use super::Run;
use crate::model::{Attachment, Text};
use crate::plan::reactor::Informed;

impl Run {
    /// The volume that the attachment names, of which the caches say nothing: it may be another driver's,
    /// and is used all the same.
    pub(super) fn unknown_volume(
        &self,
        current: &Attachment,
        informers: Informed<'_>,
    ) -> Option<Text> {
        let name = current.volume.as_ref()?;
        let asks = !self.asked_for_volume && current.inline.is_none();
        let unknown = asks && informers.volume(name).is_none();
        unknown.then(|| name.clone())
    }
}
