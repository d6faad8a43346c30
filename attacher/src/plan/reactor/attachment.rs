//! Attempts on VolumeAttachments: what happens around the steps that bring one to its goal.

mod nothing_to_publish;
mod volume;

use std::sync::Arc;

use jiff::Timestamp;
use sidecar::controller::reactor::{Verdict, Wake};

use super::{ATTACHMENTS, Answered, Attacher, Failed, Informed, Notice, Step, Wakes};
use crate::model::{Attachment, Text};
use crate::plan::attachment::{self, Answer, Attempt, Refresh};
use crate::plan::flight::Target;
use crate::plan::in_flight::{Key, Start};
use crate::plan::outcome::{ApiError, Direction, Failure};
use crate::plan::{Driver, fairness};

/// An attempt on a VolumeAttachment.
pub struct Run {
    name: Text,
    start: Start,
    /// The attempt and the newest that it knows of its object, once there is one.
    work: Option<(Attempt, Arc<Attachment>)>,
    asked: Asked,
    /// A failure that is to be recorded on the object.
    unrecorded: Option<Failure>,
    over: Option<AttemptEnd>,
}

/// What the attempt waits for.
enum Asked {
    Nothing,
    /// For the object, since the last write may or may not have been applied.
    Object,
    /// For the volume, since the caches do not say whether there is one.
    Volume(Text),
    /// For what comes of this.
    Step(attachment::Step),
    /// For the status of a driver that has nothing to publish.
    Trivial,
    /// For the failure to be on record.
    Record,
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
            asked: Asked::Nothing,
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
    fn record(&mut self, failure: &Failure, driver: &Driver, now: Timestamp) -> Option<Step> {
        let (attempt, current) = self.work.as_ref()?;
        let time = now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        let patch = failure.status_patch(current, attempt.direction(), driver, &time)?;
        self.asked = Asked::Record;
        Some(Step::PatchStatus(Arc::clone(current), patch))
    }
}

impl Attacher {
    pub(super) fn decide_attachment(
        &mut self,
        run: &mut Run,
        informers: Informed<'_>,
        now: Timestamp,
    ) -> Option<Step> {
        let driver = informers.driver();
        if let Some(failure) = run.unrecorded.take() {
            return run.record(&failure, &driver, now);
        }
        if run.over.is_some() {
            return None;
        }
        if run.start.doubtful {
            run.asked = Asked::Object;
            return Some(Step::Read(run.name.clone()));
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
            run.asked = Asked::Volume(volume.clone());
            return Some(Step::ReadVolume(volume));
        }
        let (attempt, _) = run.work.as_ref()?;
        let step = informers.with_view(&current, |view| attempt.decide(view));
        self.ask(run, step, current, &driver, now)
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

    /// From what the attempt wants to the request or call, unless another one is in the way.
    fn ask(
        &mut self,
        run: &mut Run,
        step: attachment::Step,
        current: Arc<Attachment>,
        driver: &Driver,
        now: Timestamp,
    ) -> Option<Step> {
        let key = || Key::Attachment(current.name.clone());
        let effect = match &step {
            attachment::Step::Done => return run.end(AttemptEnd::Done),
            attachment::Step::Again => return run.end(AttemptEnd::Again),
            attachment::Step::Fail(failure) => {
                self.in_flight.failed(&run.name, failure);
                run.over = Some(AttemptEnd::Failed(failure.clone()));
                return run.record(failure, driver, now);
            }
            attachment::Step::Protect(volume, patch) => {
                if !self.in_flight.patches.begin(volume, key()) {
                    return run.end(AttemptEnd::Waits);
                }
                Step::PatchVolume(volume.clone(), patch.clone())
            }
            attachment::Step::LoadSecret(reference) => Step::LoadSecret(reference.clone()),
            attachment::Step::Prepare(patch) | attachment::Step::Release(patch) => {
                Step::PatchAttachment(current, patch.clone())
            }
            attachment::Step::MarkAttached(patch) | attachment::Step::MarkDetached(patch) => {
                Step::PatchStatus(current, patch.clone())
            }
            attachment::Step::Publish(request, migrated) => {
                let target = target(&request.volume_id, &request.node_id);
                if !self.in_flight.calls.begin(&target, key()) {
                    return run.end(AttemptEnd::Waits);
                }
                Step::Publish(request.clone(), *migrated)
            }
            attachment::Step::Unpublish(request, migrated) => {
                let target = target(&request.volume_id, &request.node_id);
                if !self.in_flight.calls.begin(&target, key()) {
                    return run.end(AttemptEnd::Waits);
                }
                Step::Unpublish(request.clone(), *migrated)
            }
        };
        run.asked = Asked::Step(step);
        Some(effect)
    }

    pub(super) fn attachment_answered(
        &mut self,
        run: &mut Run,
        answered: Answered,
        informers: Informed<'_>,
        due: &mut Wakes,
    ) {
        let Answered {
            answer, attachment, ..
        } = answered;
        let found = attachment.is_some();
        if let (Some((_, current)), Some(answered)) = (&mut run.work, attachment)
            && (answered.version == 0 || answered.version >= current.version)
        {
            self.in_flight.works_on(&run.name, answered.volume.as_ref());
            *current = answered;
        }
        match std::mem::replace(&mut run.asked, Asked::Nothing) {
            Asked::Nothing => {}
            Asked::Object => match refused(answer) {
                Some(error) if !error.is_not_found() => {
                    run.over = Some(AttemptEnd::Unread(Failure::Reread(error)));
                }
                // The deletion is on its way as an event.
                Some(_) | None if !found => run.over = Some(AttemptEnd::Nothing),
                Some(_) | None => run.start.doubtful = false,
            },
            Asked::Volume(name) => self.volume_read(run, name, answer, informers),
            Asked::Trivial => {
                run.over = Some(match refused(answer) {
                    Some(error) if !error.is_not_found() => {
                        AttemptEnd::Failed(Failure::MarkTrivial(error))
                    }
                    Some(_) | None => AttemptEnd::Done,
                });
            }
            Asked::Record => {
                if let Some(error) = refused(answer) {
                    due.notices
                        .push(Notice::Unrecorded(run.name.clone(), error));
                }
            }
            Asked::Step(step) => {
                self.step_answered(run, &step, answer, &informers.driver());
                let waiting = self.over_with(&step);
                self.wake_all(waiting, informers, due);
            }
        }
    }

    fn step_answered(
        &mut self,
        run: &mut Run,
        step: &attachment::Step,
        answer: Answer,
        driver: &Driver,
    ) {
        let Some((attempt, current)) = &mut run.work else {
            return;
        };
        match attempt.fold(step, answer) {
            Ok(()) => self.in_flight.took(step, current, driver),
            Err(failure) => {
                self.in_flight.failed(&run.name, &failure);
                run.over = Some(AttemptEnd::Failed(failure.clone()));
                run.unrecorded = Some(failure);
            }
        }
    }

    /// A step ended of which only one at a time is taken: who waited for that.
    fn over_with(&mut self, step: &attachment::Step) -> Vec<Key> {
        match step {
            attachment::Step::Protect(volume, _) => self.in_flight.patches.end(volume),
            attachment::Step::Publish(request, _) => {
                let target = target(&request.volume_id, &request.node_id);
                self.in_flight.calls.end(&target)
            }
            attachment::Step::Unpublish(request, _) => {
                let target = target(&request.volume_id, &request.node_id);
                self.in_flight.calls.end(&target)
            }
            attachment::Step::Done
            | attachment::Step::Again
            | attachment::Step::LoadSecret(_)
            | attachment::Step::Prepare(_)
            | attachment::Step::MarkAttached(_)
            | attachment::Step::Release(_)
            | attachment::Step::MarkDetached(_)
            | attachment::Step::Fail(_) => Vec::new(),
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

fn target(volume: &str, node: &str) -> Target {
    Target {
        volume: volume.into(),
        node: node.into(),
    }
}

fn refused(answer: Answer) -> Option<ApiError> {
    match answer {
        Answer::Refused(error) => Some(error),
        Answer::Written
        | Answer::Secret(_)
        | Answer::SecretNotText
        | Answer::Published(_)
        | Answer::Unpublished
        | Answer::Failed(_)
        | Answer::Unreachable(_) => None,
    }
}
