//! The end of an attempt: its key's verdict, and follow-up work.

use sidecar::controller::reactor::{Verdict, Wake};

use super::{ATTACHMENTS, Attacher, Failed, Informed, Notice, Wakes};
use crate::model::Text;
use crate::plan::attempt::{Attempt, End};
use crate::plan::fairness;
use crate::plan::in_flight::{Ended, Key};

/// The verdict on the key of a finished attempt.
pub(super) fn verdict(attempt: Attempt, informers: Informed<'_>) -> Verdict<Failed> {
    let Some(End::Failed(failure)) = attempt.over else {
        return Verdict::Done;
    };
    let read = attempt.work.filter(|_| !failure.is_unread());
    let about = read.map(|work| {
        let named = work.current.volume.as_deref();
        let volume = named.and_then(|name| informers.volume(name));
        (work.current, volume)
    });
    let hung = fairness::hung(&failure);
    let failure = Failed { about, failure };
    Verdict::Retry { failure, hung }
}

impl Attacher {
    /// Ends an attempt on an attachment and queues the follow-up work.
    pub(super) fn end_attachment(
        &mut self,
        name: &Text,
        attempt: &mut Attempt,
        informers: Informed<'_>,
        due: &mut Wakes,
    ) {
        let over = &mut attempt.over;
        if *over == Some(End::OfAnother) {
            due.notices.push(Notice::OfAnother(name.clone()));
        }
        let unread = matches!(over, Some(End::Failed(failure)) if failure.is_unread());
        // The attempt did not get to its forced call; the next one inherits the flag.
        if attempt.start.forced && (unread || *over == Some(End::Waits)) {
            self.in_flight.force(name.clone());
        }
        if let (Some(work), Some(over)) = (&attempt.work, over)
            && (*over == End::Again || work.is_turned())
            && !unread
        {
            due.wakes.push(Wake {
                queue: ATTACHMENTS,
                place: fairness::place(&work.current),
                key: Key::Attachment(name.clone()),
                unless_delayed: false,
            });
            *over = End::Again;
        }
        let Ended { volume, lost } = self.in_flight.end(name);
        self.orphaned(lost.as_ref(), informers, due);
        self.wake_all(volume.map(Key::Volume), informers, due);
    }
}
