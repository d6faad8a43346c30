//! What answers to requests mean for an attempt.

use super::attempt::{Attempt, CONFLICTS, Over, Subject, driver, driver_of_group};
use super::{Controller, Informed, News, outcome, wake};
use crate::plan::in_flight::Key;
use crate::plan::step::{Answer, ApiError, Object, Refusal, Step};
use crate::plan::view::{Learnt, Purpose};

impl Controller {
    pub(super) fn heard(
        &mut self,
        attempt: &mut Attempt,
        step: &Step,
        answer: Answer,
        informers: Informed<'_>,
        due: &mut News,
    ) {
        let Some(purpose) = attempt.asked.take() else {
            return;
        };
        if let Purpose::Protect(claim) | Purpose::Release(claim) = &purpose {
            let unknown = matches!(&answer, Answer::Refused(error) if error.is_unknown());
            let waiting = self.in_flight.claims.end(claim, unknown);
            due.wakes.extend(waiting.into_iter().map(wake));
        }
        match (answer, purpose) {
            (Answer::Read(json), Purpose::Read(object)) => {
                due.wakes
                    .extend(concerned(&object, attempt, informers).map(wake));
                self.learns(attempt, object, Learnt::Read(json));
            }
            (Answer::Refused(error), Purpose::Read(object)) => {
                self.unread(attempt, object, error, informers);
            }
            (Answer::Done | Answer::Read(_), purpose) => {
                attempt.forgets_what_it_wrote(step);
                self.succeeded(attempt, purpose, informers);
            }
            (Answer::Refused(error), purpose) => {
                if error.is_unknown() {
                    // It may have been applied. An attempt that goes on, because its VolumeSnapshot was
                    // deleted meanwhile, would let that go before the content that this has bound.
                    attempt.forgets_what_it_wrote(step);
                }
                refused(attempt, step, purpose, error);
            }
        }
        due.notices.append(&mut attempt.notices);
    }

    fn learns(&mut self, attempt: &mut Attempt, object: Object, learnt: Learnt) {
        if let Object::Claim(claim) = &object {
            self.in_flight.claims.settle(claim);
        }
        attempt.learnt.push((object, learnt));
    }

    fn unread(
        &mut self,
        attempt: &mut Attempt,
        object: Object,
        error: ApiError,
        informers: Informed<'_>,
    ) {
        let told = match &object {
            Object::Volume(_) | Object::Claims(..) => true,
            // A role need not allow what is not served.
            Object::Group(_) if !informers.groups() && error.is_refused() => true,
            Object::Snapshot(_)
            | Object::Content(_)
            | Object::Claim(_)
            | Object::Group(_)
            | Object::GroupContent(_) => error.is_not_found(),
        };
        if told {
            self.learns(attempt, object, Learnt::Unread(error))
        } else {
            attempt.fail("reading", error.message)
        }
    }

    fn succeeded(&mut self, attempt: &mut Attempt, purpose: Purpose, informers: Informed<'_>) {
        let Some(subject) = attempt.subject.clone() else {
            return;
        };
        if let Purpose::Status(progress) = &purpose {
            let driver = match &subject {
                Subject::Snapshot(of) => driver(of, informers),
                Subject::Group(of) => driver_of_group(of, informers),
                Subject::Content(_) | Subject::GroupContent(_) => None,
            };
            let (operations, uid) = (&mut self.operations, subject.uid());
            let samples = outcome::samples(operations, uid, *progress, driver.as_ref());
            attempt.notices.extend(samples);
        }
        attempt.notices.extend(outcome::success(&subject, &purpose));
        if let Purpose::Complain(complaint) = purpose {
            attempt.complain(*complaint);
        }
    }
}

impl Attempt {
    /// What was read before a write is not so any more.
    fn forgets_what_it_wrote(&mut self, step: &Step) {
        let written = written(step);
        self.learnt.retain(|(of, _)| Some(of) != written.as_ref());
    }
}

/// Whose attempt has to look at what another one's has read: no watch will tell of it any more.
fn concerned(object: &Object, by: &Attempt, informers: Informed<'_>) -> Option<Key> {
    let key = match object {
        Object::Snapshot(key) => Key::Snapshot(key.clone()),
        Object::Content(name) => Key::Snapshot(informers.content(name)?.snapshot_key()),
        Object::GroupContent(name) => Key::Group(informers.group_content(name)?.group_key()),
        Object::Claim(_) | Object::Volume(_) | Object::Group(_) | Object::Claims(..) => {
            return None;
        }
    };
    let known = match &key {
        Key::Snapshot(key) => informers.snapshot(key).is_some(),
        Key::Group(key) => informers.group(key).is_some(),
        Key::Content(_) | Key::Claim(_) | Key::GroupContent(_) => false,
    };
    (known && key != by.key).then_some(key)
}

/// Somebody else was first, or the request failed.
fn refused(attempt: &mut Attempt, step: &Step, purpose: Purpose, error: ApiError) {
    let stale = match (error.refusal, step) {
        (Refusal::NotFound, Step::Patch(of, _) | Step::PatchStatus(of, _))
            if attempt.key.object() == *of =>
        {
            // Its deletion is on its way as an event.
            attempt.over = Some(Over::Done);
            return;
        }
        // It has changed, is gone, or is there already, and no watch has told of that yet.
        (Refusal::Conflict | Refusal::NotFound | Refusal::AlreadyExists, step) => written(step),
        (Refusal::Unknown | Refusal::Forbidden | Refusal::Other, _) => None,
    };
    if let Some(object) = stale {
        attempt.conflicts += 1;
        if attempt.conflicts <= CONFLICTS {
            attempt.reread = Some(object)
        } else {
            attempt.fail("writing", error.message)
        }
        return;
    }
    if let Purpose::Complain(complaint) = purpose {
        // The event tells, even if the status does not.
        return attempt.complain(*complaint);
    }
    let complaint = match &attempt.subject {
        Some(Subject::Snapshot(of)) => outcome::refusal(of, &purpose, &error),
        Some(Subject::Group(of)) => outcome::refusal_of_group(of, &purpose, step, &error),
        Some(Subject::Content(_) | Subject::GroupContent(_)) | None => None,
    };
    match complaint {
        Some(complaint) => attempt.untold = Some(Box::new(complaint)),
        None => attempt.fail("writing", error.message),
    }
}

/// The object that a step writes.
pub(super) fn written(step: &Step) -> Option<Object> {
    match step {
        Step::Patch(of, _)
        | Step::PatchStatus(of, _)
        | Step::Create(of, _)
        | Step::Delete(of, _) => Some(of.clone()),
        Step::UpdateClaim(key, _) => Some(Object::Claim(key.clone())),
        Step::Read(_) => None,
    }
}
