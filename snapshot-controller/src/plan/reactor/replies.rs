//! Applies replies to an attempt.

use sidecar::controller::request::Body;

use super::attempt::{Attempt, CONFLICTS, Over, Subject, driver, driver_of_group};
use super::{Controller, Informed, Wakes, outcome, wake};
use crate::plan::in_flight::Key;
use crate::plan::request::{ApiError, Object, Refusal, Reply, Write};
use crate::plan::view::{Learnt, Purpose};

impl Controller {
    pub(super) fn apply_reply(
        &mut self,
        attempt: &mut Attempt,
        reply: Reply,
        informers: Informed<'_>,
        due: &mut Wakes,
    ) {
        match reply {
            Reply::Get(object, Ok(found)) => {
                due.wakes
                    .extend(concerned(&object, attempt, informers).map(wake));
                self.learns(attempt, object, Learnt::Read(found));
            }
            Reply::Get(object, Err(error)) => self.unread(attempt, object, error, informers),
            Reply::Write(write, result) => {
                let unknown = result.as_ref().is_err_and(ApiError::is_unknown);
                if let Object::Claim(claim) = &write.object {
                    let waiting = self.in_flight.claims.end(claim, unknown);
                    due.wakes.extend(waiting.into_iter().map(wake));
                }
                // A request of unknown outcome may have been applied. If the VolumeSnapshot is deleted meanwhile,
                // the attempt goes on, and with the earlier reads it would release the VolumeSnapshot before the
                // content that this request has bound.
                if result.is_ok() || unknown {
                    attempt.learnt.retain(|(of, _)| *of != write.object);
                }
                match result {
                    Ok(_) => self.succeeded(attempt, write.purpose, informers),
                    Err(error) => refused(attempt, write, error),
                }
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
        let is_finding = match &object {
            Object::Volume(_) | Object::Claims(..) => true,
            // A role need not grant access to kinds that are not served.
            Object::Group(_) if !informers.groups() && error.is_refused() => true,
            Object::Snapshot(_)
            | Object::Content(_)
            | Object::Claim(_)
            | Object::Group(_)
            | Object::GroupContent(_) => error.is_not_found(),
        };
        if is_finding {
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

/// The key to requeue after another attempt's read: the watch will not report that object version again.
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

/// Handles a write that failed, perhaps because somebody else wrote first.
fn refused(attempt: &mut Attempt, write: Write, error: ApiError) {
    let stale = match error.refusal {
        Refusal::NotFound
            if matches!(write.body, Body::Patch(..)) && attempt.key.object() == write.object =>
        {
            // The watch will report the deletion.
            attempt.over = Some(Over::Done);
            return;
        }
        // The object was changed, deleted or created, and the watch has not reported that yet.
        Refusal::Conflict | Refusal::NotFound | Refusal::AlreadyExists => true,
        Refusal::Unknown | Refusal::Forbidden | Refusal::Other => false,
    };
    if stale {
        attempt.conflicts += 1;
        if attempt.conflicts <= CONFLICTS {
            attempt.reread = Some(write.object)
        } else {
            attempt.fail("writing", error.message)
        }
        return;
    }
    if let Purpose::Complain(complaint) = write.purpose {
        // The event reports the failure, even if the status cannot.
        return attempt.complain(*complaint);
    }
    let complaint = match &attempt.subject {
        Some(Subject::Snapshot(of)) => outcome::refusal(of, &write, &error),
        Some(Subject::Group(of)) => outcome::refusal_of_group(of, &write, &error),
        Some(Subject::Content(_) | Subject::GroupContent(_)) | None => None,
    };
    match complaint {
        Some(complaint) => attempt.unreported = Some(Box::new(complaint)),
        None => attempt.fail("writing", error.message),
    }
}
