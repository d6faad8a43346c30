//! Attempts on PersistentVolumes.

use std::sync::Arc;
use std::time::Instant;

use sidecar::controller::reactor::Verdict;
use sidecar::controller::request::SecretError;
use sidecar::controller::script;

use super::{Failed, Informed, Notice, Provisioner, Step, Wakes, retry};
use crate::model::{Text, Volume};
use crate::plan::delete::{Attempt, End, Failure, uid};
use crate::plan::request::Reply;

impl Provisioner {
    /// An attempt on the volume of this name; `None` if there is none, or this process has removed it.
    pub(super) fn begin_volume(
        &self,
        name: &Text,
        informers: Informed<'_>,
        now: Instant,
    ) -> Option<Attempt> {
        let volume = informers.volume(name)?;
        // The cache may still have an object that this process has removed.
        let behind = uid(&volume).is_some_and(|uid| self.in_flight.has_removed(name, uid));
        (!behind).then(|| Attempt::new(name, volume, now))
    }

    pub(super) fn decide_volume(
        &self,
        attempt: &mut Option<Attempt>,
        informers: Informed<'_>,
    ) -> Option<Step> {
        let attempt = attempt.as_mut().filter(|attempt| attempt.over.is_none())?;
        match script::next(self.volume_script(attempt, informers)) {
            Ok(request) => Some(Step::Ask(request)),
            Err(end) => {
                attempt.over = Some(end);
                None
            }
        }
    }

    pub(super) fn end_volume(
        &mut self,
        attempt: &Attempt,
        informers: Informed<'_>,
        now: Instant,
        due: &mut Wakes,
    ) -> Verdict<Failed> {
        let (name, current) = (&attempt.name, &attempt.current);
        if let Some(End::Failed(failure)) = &attempt.over {
            if failure.is_counted() {
                due.notices.push(Notice::NotDeleted(Arc::clone(current)));
            }
            if failure.is_event() {
                let current = Arc::clone(current);
                let stays = Notice::VolumeStays(name.clone(), current, failure.clone());
                due.notices.push(stays);
            }
            if *failure == Failure::AttachmentsMissed {
                self.attached.wait(name);
                if !informers.misses_attachments() {
                    self.attachments_known(informers, due);
                }
            }
            return retry(Failed::Volume(failure.clone()));
        }
        if attempt.over == Some(End::OfAnotherNode) {
            due.notices.push(Notice::OfAnotherNode(name.clone()));
        }
        if attempt.has_deleted() {
            self.note_removed(name, current, informers);
            let took = now.saturating_duration_since(attempt.started);
            let deleted = Notice::Deleted(name.clone(), Arc::clone(current), took);
            due.notices.push(deleted);
        }
        if attempt.is_to_follow() {
            retry(Failed::Follows)
        } else {
            Verdict::Done
        }
    }

    fn note_removed(&mut self, name: &Text, current: &Volume, informers: Informed<'_>) {
        let Some(uid) = uid(current) else { return };
        self.in_flight.removed(name, uid);
        // The watch may have been faster.
        if informers.volume(name).is_none() {
            self.in_flight.volume_gone(name);
        }
    }
}

pub(super) fn answered(attempt: &mut Attempt, reply: Reply, due: &mut Wakes) {
    if let Reply::Secret(_, Err(SecretError::Unread(error))) = &reply {
        let notice = Notice::SecretUnread(attempt.name.clone(), error.clone());
        due.notices.push(notice);
    }
    attempt.answered(reply);
}
