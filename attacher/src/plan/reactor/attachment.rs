//! Attempts on VolumeAttachments: what happens around the steps that bring one to its goal.

mod nothing_to_publish;
mod volume;

use std::sync::Arc;

use jiff::Timestamp;
use sidecar::controller::reactor::{Verdict, Wake};
use sidecar::controller::request::Part;

use super::{ATTACHMENTS, Attacher, Failed, Informed, Notice, Wakes};
use crate::model::{Attachment, Text};
use crate::plan::attachment::{Attempt, Refresh, Step};
use crate::plan::in_flight::{Key, Start};
use crate::plan::outcome::{ApiError, Direction, Failure};
use crate::plan::request::{self, Called, Object, Purpose, Reply, Request};
use crate::plan::{Driver, fairness};

/// An attempt on a VolumeAttachment.
pub struct Run {
    name: Text,
    start: Start,
    /// The attempt and the newest that it knows of its object, once there is one.
    work: Option<(Attempt, Arc<Attachment>)>,
    /// A failure that is to be recorded on the object.
    unrecorded: Option<Failure>,
    over: Option<AttemptEnd>,
}

/// How the attempt ended.
enum AttemptEnd {
    /// There is nothing by this name to work on.
    Nothing,
    /// It is another driver's.
    OfAnother,
    /// In doubt about the last write or about the volume, and the object could not be read.
    Unread(Failure),
    /// Nothing is left to do.
    Done,
    /// The goal changed: at once again.
    Again,
    /// Somebody else's end brings it back.
    Waits,
    /// It is to be retried.
    Failed(Failure),
}

impl Run {
    pub(super) fn new(name: &Text, start: Start) -> Self {
        Self {
            name: name.clone(),
            start,
            work: None,
            unrecorded: None,
            over: None,
        }
    }

    fn end<T>(&mut self, over: AttemptEnd) -> Option<T> {
        self.over = Some(over);
        None
    }

    /// The newest reading of the object, the cache's or that of this attempt's last write.
    fn refresh(&mut self, informers: Informed<'_>) -> Option<Arc<Attachment>> {
        let (attempt, current) = self.work.as_mut()?;
        let cached = informers.attachment(&self.name);
        match (attempt.refresh(current, cached.as_deref()), cached) {
            (Refresh::Take, Some(cached)) => *current = cached,
            (Refresh::Keep, _) | (Refresh::Take, None) => {}
            (Refresh::Replaced, _) => return self.end(AttemptEnd::Again),
            (Refresh::Gone, _) => return self.end(AttemptEnd::Done),
        }
        Some(Arc::clone(current))
    }

    /// Records a failure on the object, as far as that is possible; the failure itself decides about
    /// the retry.
    fn record(&self, failure: &Failure, driver: &Driver, now: Timestamp) -> Option<Request> {
        let (attempt, current) = self.work.as_ref()?;
        let time = now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        let body = failure.status_patch(current, attempt.direction(), driver, &time)?;
        Some(request::patch(current, Purpose::Record, Part::Status, body))
    }
}

impl Attacher {
    pub(super) fn decide_attachment(
        &mut self,
        run: &mut Run,
        informers: Informed<'_>,
        now: Timestamp,
    ) -> Option<Request> {
        let driver = informers.driver();
        if let Some(failure) = run.unrecorded.take() {
            return run.record(&failure, &driver, now);
        }
        if run.over.is_some() {
            return None;
        }
        // The last write may or may not have been applied.
        if run.start.doubtful {
            return Some(Request::Get(Object::Attachment(run.name.clone())));
        }
        if run.work.is_none() {
            run.work = Some(self.start(run, informers, &driver)?);
        }
        if !driver.abilities.publish {
            return run.decide_trivial();
        }
        let current = run.refresh(informers)?;
        if let Some(volume) = self.unknown_volume(&current, informers) {
            self.in_flight.asked.begin(&run.name, &volume);
            return Some(Request::Get(Object::Volume(volume)));
        }
        let (attempt, _) = run.work.as_ref()?;
        let step = informers.with_view(&current, |view| attempt.decide(view));
        match step {
            Step::Done => run.end(AttemptEnd::Done),
            Step::Again => run.end(AttemptEnd::Again),
            Step::Fail(failure) => {
                self.in_flight.failed(&run.name, &failure);
                let request = run.record(&failure, &driver, now);
                run.over = Some(AttemptEnd::Failed(failure));
                request
            }
            Step::Ask(request) => {
                let key = Key::Attachment(run.name.clone());
                if self.in_flight.may_send(&request, key) {
                    Some(request)
                } else {
                    run.end(AttemptEnd::Waits)
                }
            }
        }
    }

    /// The attempt itself, if there is something to work on.
    fn start(
        &mut self,
        run: &mut Run,
        informers: Informed<'_>,
        driver: &Driver,
    ) -> Option<(Attempt, Arc<Attachment>)> {
        let Some(current) = informers.attachment(&run.name) else {
            return run.end(AttemptEnd::Nothing);
        };
        if *current.attacher != *driver.name {
            return run.end(AttemptEnd::OfAnother);
        }
        self.in_flight.works_on(&run.name, current.volume.as_ref());
        Some((Attempt::new(&current, run.start.forced), current))
    }

    pub(super) fn attachment_answered(
        &mut self,
        run: &mut Run,
        reply: Reply,
        informers: Informed<'_>,
        due: &mut Wakes,
    ) {
        match reply {
            Reply::Get(Object::Attachment(_), Ok(_)) => run.start.doubtful = false,
            Reply::Get(Object::Attachment(_), Err(error)) => {
                // The deletion is on its way as an event.
                run.over = Some(if error.is_not_found() {
                    AttemptEnd::Nothing
                } else {
                    AttemptEnd::Unread(Failure::Reread(error))
                });
            }
            Reply::Get(Object::Volume(name), result) => {
                self.volume_read(run, name, result.err(), informers);
            }
            Reply::Write(write, result) => self.written(run, write.purpose, result, due),
            Reply::Secret(secret, values) => {
                self.went(run, |attempt| attempt.loaded(secret, values));
            }
            Reply::Call(called, _) => {
                if let (Called::Unpublish(_, Ok(_)), Some((_, current))) = (&called, &run.work) {
                    self.in_flight.unpublished(current, &informers.driver());
                }
                self.went(run, |attempt| attempt.called(called));
            }
        }
    }

    fn written(
        &mut self,
        run: &mut Run,
        purpose: Purpose,
        result: Result<Option<Arc<Attachment>>, ApiError>,
        due: &mut Wakes,
    ) {
        if let (Some((_, current)), Ok(Some(written))) = (&mut run.work, &result)
            && (written.version == 0 || written.version >= current.version)
        {
            self.in_flight.works_on(&run.name, written.volume.as_ref());
            *current = Arc::clone(written);
        }
        let result = result.map(drop);
        match (purpose, result) {
            (Purpose::Goal(what), result) => {
                self.went(run, |attempt| attempt.written(what, result));
            }
            (Purpose::MarkTrivial, Err(error)) if !error.is_not_found() => {
                run.over = Some(AttemptEnd::Failed(Failure::MarkTrivial(error)));
            }
            (Purpose::MarkTrivial, _) => run.over = Some(AttemptEnd::Done),
            (Purpose::Record, Err(error)) => {
                due.notices
                    .push(Notice::Unrecorded(run.name.clone(), error));
            }
            (Purpose::Record | Purpose::ReleaseVolume, _) => {}
        }
    }

    /// The attempt takes in a reply.
    fn went(&mut self, run: &mut Run, take: impl FnOnce(&mut Attempt) -> Result<(), Failure>) {
        let Some((attempt, _)) = &mut run.work else {
            return;
        };
        if let Err(failure) = take(attempt) {
            self.in_flight.failed(&run.name, &failure);
            run.over = Some(AttemptEnd::Failed(failure.clone()));
            run.unrecorded = Some(failure);
        }
    }

    pub(super) fn end_attachment(
        &mut self,
        run: Run,
        informers: Informed<'_>,
        due: &mut Wakes,
    ) -> Verdict<Failed> {
        let verdict = match (run.over, run.work) {
            (Some(AttemptEnd::Unread(failure)), _) => {
                self.in_flight.failed(&run.name, &failure);
                if run.start.forced {
                    self.in_flight.force(run.name.clone());
                }
                Verdict::Retry {
                    failure: Failed::Unread(failure),
                    hung: false,
                }
            }
            (Some(AttemptEnd::OfAnother), _) => {
                due.notices.push(Notice::OfAnother(run.name.clone()));
                Verdict::Done
            }
            (Some(over), Some((attempt, current))) => {
                self.end_work(over, &attempt, current, informers, due)
            }
            (_, None) | (None, Some(_)) => Verdict::Done,
        };
        let ended = self.in_flight.end(&run.name);
        self.ended(ended, informers, due);
        verdict
    }

    fn end_work(
        &mut self,
        over: AttemptEnd,
        attempt: &Attempt,
        current: Arc<Attachment>,
        informers: Informed<'_>,
        due: &mut Wakes,
    ) -> Verdict<Failed> {
        if matches!(over, AttemptEnd::Waits) && attempt.forced() {
            self.in_flight.force(current.name.clone());
        }
        let turned = Direction::of(&current) != attempt.direction();
        if turned || matches!(over, AttemptEnd::Again) {
            due.wakes.push(Wake {
                queue: ATTACHMENTS,
                place: fairness::place(&current),
                key: Key::Attachment(current.name.clone()),
                unless_delayed: false,
            });
            return Verdict::Done;
        }
        match over {
            AttemptEnd::Failed(failure) => {
                let name = current.volume.as_deref();
                let volume = name.and_then(|name| informers.volume(name));
                Verdict::Retry {
                    hung: fairness::hung(&failure),
                    failure: Failed::Attachment(current, volume, failure),
                }
            }
            AttemptEnd::Nothing
            | AttemptEnd::OfAnother
            | AttemptEnd::Unread(_)
            | AttemptEnd::Done
            | AttemptEnd::Again
            | AttemptEnd::Waits => Verdict::Done,
        }
    }
}
