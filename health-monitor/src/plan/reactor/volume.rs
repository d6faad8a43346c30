//! A question about one volume, and what comes of a report for its claims.

use std::time::Instant;

use csi_proto::csi::ControllerGetVolumeHealthRequest;
use csi_proto::volume_condition::list_volumes_response::Entry;
use csi_proto::volume_condition::{ControllerGetVolumeRequest, Volume};
use sidecar::controller::CallError;
use sidecar::controller::reactor::{Now, Verdict};
use sidecar::refusal::Refusal;
use tonic::Code;

use super::{Failed, Failing, HealthMonitor, Informed, Key, Notice, Wakes, wake, wake_with};
use crate::model::{Text, Uid};
use crate::plan::field::News;
use crate::plan::list::{Report, condition};
use crate::plan::mode::Mode;
use crate::plan::normalise::normalise;
use crate::plan::request::{
    Call, Called, Event, Found, Object, Purpose, Reply, Request, Write, patch,
};

/// An attempt.
#[derive(Debug)]
pub struct Run {
    handle: Text,
    /// How often the driver had come back.
    generation: u64,
    /// What it is asked. Calls that wait for a driver may reach one that is asked something else.
    mode: Option<Mode>,
    /// It is to be asked.
    ask: bool,
    /// That has been done, or is left to do.
    asks: bool,
    failed: Option<Failed>,
    /// PersistentVolumes whose claims were not looked at, once it is known which.
    left: Option<Vec<Text>>,
    /// What users are told, of which claims.
    events: Vec<Event>,
    /// The UID of the claim that is being written, and whether it has conditions already, which says nothing of what
    /// becomes of new ones.
    writes: Option<(Uid, bool)>,
    /// Whether the last answer has the conditions that were written, until that is taken in.
    kept: Option<bool>,
    news: Vec<News>,
}

impl HealthMonitor {
    pub(super) fn begin_volume(&mut self, handle: &Text) -> Run {
        let wanted = self.asks_each() || self.lists.without.contains_key(handle);
        let wanted = wanted && self.asks().can_get() && self.volumes.handle(handle).is_some();
        if !wanted {
            self.asked.remove(handle);
            self.failing.remove(handle);
        }
        let ask = self.asked.contains(handle) || self.failing.contains_key(handle);
        if ask {
            self.asked.insert(handle.clone());
        }
        self.busy.insert(handle.clone());
        Run {
            handle: handle.clone(),
            generation: self.generation,
            mode: self.mode,
            ask,
            asks: ask,
            failed: None,
            left: None,
            events: Vec::new(),
            writes: None,
            kept: None,
            news: Vec::new(),
        }
    }

    pub(super) fn decide_volume(
        &mut self,
        run: &mut Run,
        informers: Informed<'_>,
        now: Now,
    ) -> Option<Request> {
        if let Some(kept) = run.kept.take() {
            run.news.push(self.field.answered(kept, now.instant));
        }
        let unanswered = matches!(run.failed, Some(Failed::Unanswered(_)));
        if unanswered || run.mode != self.mode {
            return None;
        }
        if std::mem::take(&mut run.ask) {
            let volume_id = run.handle.to_string();
            return Some(Request::Call(match run.mode.is_some_and(Mode::is_older) {
                true => Call::GetCondition(ControllerGetVolumeRequest { volume_id }.into()),
                false => {
                    let request = ControllerGetVolumeHealthRequest {
                        volume_id,
                        ..ControllerGetVolumeHealthRequest::default()
                    };
                    Call::GetHealth(request.into())
                }
            }));
        }
        if run.left.is_none() {
            run.left = Some(self.volumes.of(&run.handle));
            if let Some(Report::Condition(message)) = self.reports.get(&run.handle) {
                run.events = self.events(&run.handle, message.as_ref(), informers, now.instant);
            }
        }
        if let Some(event) = run.events.pop() {
            self.has_told(&event, now.instant);
            return Some(Request::Event(event));
        }
        let Some(Report::Health(report)) = self.reports.get(&run.handle).cloned() else {
            return None;
        };
        while let Some(name) = run.left.as_mut().and_then(Vec::pop) {
            let Some((volume, has_some)) = self.decide_on(&name, &report, informers) else {
                continue;
            };
            if has_some || self.field.admits(&run.handle, now.instant) {
                run.writes = Some((volume.uid.clone(), has_some));
                return Some(patch(&volume, &report, now.timestamp));
            }
        }
        None
    }

    pub(super) fn volume_answered(&mut self, run: &mut Run, reply: Reply, due: &mut Wakes) {
        match reply {
            Reply::Call(called, _) => self.called(run, called, due),
            Reply::Write(write, result) => self.written(run, write, result, due),
            Reply::Get(..) | Reply::Secret(..) | Reply::Event(_) => {}
        }
    }

    fn called(&mut self, run: &mut Run, called: Called, due: &mut Wakes) {
        // It may be the answer of a driver that is asked something else, or a list has said something newer.
        if run.mode != self.mode || !self.asked.contains(&run.handle) {
            return;
        }
        let report = match called {
            Called::GetHealth(_, Ok(answer)) => {
                let health = answer.volume_health.unwrap_or_default();
                self.health(&run.handle, normalise(&health.health_statuses), due)
            }
            Called::GetCondition(_, Ok(answer)) => {
                // The volume is the one that was asked about, whatever the driver calls it.
                let volume = Some(Volume::default());
                let status = answer.status;
                let said = condition(Entry { volume, status });
                said.map_or(Report::Condition(None), |(_, report)| report)
            }
            Called::GetHealth(_, Err(error)) | Called::GetCondition(_, Err(error)) => {
                // Of a driver that was there before this one.
                if run.generation != self.generation {
                    return;
                }
                let (away, error) = match error {
                    CallError::Unreachable(error) => (true, error),
                    CallError::Failed(error) => (error.code == Code::Unavailable, error),
                };
                if error.code == Code::Unimplemented {
                    self.failing.remove(&run.handle);
                    return self.is_refused(due);
                }
                let times = self
                    .failing
                    .get(&run.handle)
                    .map_or(1, |failing| failing.times.saturating_add(1));
                self.failing
                    .insert(run.handle.clone(), Failing { times, away });
                run.failed = Some(Failed::Unanswered(error));
                return;
            }
            Called::ListHealth(..) | Called::ListConditions(..) => return,
        };
        self.failing.remove(&run.handle);
        if let Report::Health(conditions) = &report {
            self.is_now(&run.handle, &conditions.clone(), due);
        }
        self.reports.insert(run.handle.clone(), report);
    }

    /// The driver cannot be asked about single volumes. If it lists, it is one that does nothing else.
    fn is_refused(&mut self, due: &mut Wakes) {
        if !std::mem::replace(&mut self.refuses, true) {
            due.notices.push(Notice::Refuses);
            self.counts_no_more(due);
        }
    }

    fn written(
        &mut self,
        run: &mut Run,
        write: Write,
        result: Result<Found, super::ApiError>,
        due: &mut Wakes,
    ) {
        let Object::Claim(claim) = write.object else {
            return;
        };
        let (uid, had_some) = run.writes.take().unzip();
        match result {
            Ok(found) => {
                if let (Purpose::Report, Found::Claim { unhealthy }) = (write.purpose, found)
                    && !(unhealthy && had_some == Some(true))
                {
                    run.kept = Some(unhealthy);
                }
            }
            // Its volume is not bound to it for long.
            Err(error) if error.is_not_found() => {}
            // The rule by which a UID selects an object: no other one is ever it.
            Err(error)
                if error.refusal == Refusal::Other
                    && error.message.contains("field is immutable") =>
            {
                if let Some(uid) = uid {
                    self.others.insert(claim.clone(), uid);
                }
                due.notices.push(Notice::Another(claim));
            }
            // The volume's other claims are written all the same.
            Err(error) => run.failed = Some(Failed::Unwritten(claim, error)),
        }
    }

    pub(super) fn end_volume(
        &mut self,
        run: Run,
        informers: Informed<'_>,
        now: Instant,
        due: &mut Wakes,
    ) -> Verdict<Failed> {
        self.busy.remove(&run.handle);
        { run.news.iter() }.for_each(|news| self.heard(*news, &run.handle, due));
        let is_current = run.mode == self.mode;
        if run.asks && is_current {
            self.asked.remove(&run.handle);
        }
        if let Some(next) = self.field.ended(&run.handle) {
            wake_with(Key::Volume(next), true, due);
        }
        if self.volumes.handle(&run.handle).is_none() {
            self.forget(&run.handle, due);
            return Verdict::Done;
        }
        if !self.is_news(&run.handle, informers, now) {
            self.reports.remove(&run.handle);
        } else if !is_current {
            wake(Key::Volume(run.handle.clone()), due);
        }
        // What came of the question may not have counted.
        if run.asks && run.generation != self.generation && self.asks_each() {
            self.pace.fresh(&run.handle);
            wake(Key::Cycle, due);
        }
        match run.failed {
            Some(failure @ Failed::Unanswered(_)) => {
                let times = self
                    .failing
                    .get(&run.handle)
                    .map_or(1, |failing| failing.times);
                Verdict::After {
                    delay: self.wait(times),
                    failure: Some(failure),
                }
            }
            Some(failure @ Failed::Unwritten(..)) => Verdict::Retry {
                failure,
                hung: false,
            },
            None => Verdict::Done,
        }
    }
}
