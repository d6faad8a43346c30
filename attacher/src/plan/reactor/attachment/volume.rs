//! The volume of an attachment, if the caches do not show it.

use super::{AttemptEnd, Run};
use crate::model::{Attachment, Text};
use crate::plan::outcome::{ApiError, Failure};
use crate::plan::reactor::{Attacher, Informed};

impl Attacher {
    /// The volume that the attachment names, of which the caches say nothing: it may be another driver's,
    /// and is used all the same. If they do not show it once it was asked for, there is none.
    pub(super) fn unknown_volume(
        &self,
        current: &Attachment,
        informers: Informed<'_>,
    ) -> Option<Text> {
        let name = current
            .volume
            .as_ref()
            .filter(|_| current.inline.is_none())?;
        let due = self.in_flight.asked.is_due(&current.name, name);
        let unknown = due && informers.volume(name).is_none();
        unknown.then(|| name.clone())
    }

    /// What came of asking for the volume.
    pub(super) fn volume_read(
        &mut self,
        run: &mut Run,
        name: Text,
        error: Option<ApiError>,
        informers: Informed<'_>,
    ) {
        // Its watch may have been faster.
        let came =
            informers.volume(&name).is_some() || self.in_flight.asked.is_due(&run.name, &name);
        if let Some(error) = error
            && !error.is_not_found()
            && !came
        {
            let failure = Failure::ReadVolume(name, error);
            self.in_flight.failed(&run.name, &failure);
            run.over = Some(AttemptEnd::Unread(failure));
        }
    }
}
