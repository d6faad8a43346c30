//! Attempts on a volume: a query, and the updates of its claims after a report.

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

/// An attempt on a volume.
#[derive(Debug)]
pub struct Run {
    handle: Text,
    /// The driver's generation at the start.
    generation: u64,
    /// The mode at the start. A call that waits for the driver may reach one with another mode.
    mode: Option<Mode>,
    /// Whether the query is still to be sent.
    ask: bool,
    /// Whether this attempt has sent or will send a query.
    asks: bool,
    failed: Option<Failed>,
    /// PersistentVolumes whose claims have not been checked yet; `None` before these are determined.
    left: Option<Vec<Text>>,
    /// Events that are still to be sent.
    events: Vec<Event>,
    /// UID of the claim being written, and whether it already has conditions. If it has, the answer does not show
    /// whether the server stores new ones.
    writes: Option<(Uid, bool)>,
    /// Whether the last answer contains the written conditions, until this has been evaluated.
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
        // The answer may come from a driver with another mode, or a list may have reported newer data.
        if run.mode != self.mode || !self.asked.contains(&run.handle) {
            return;
        }
        let report = match called {
            Called::GetHealth(_, Ok(answer)) => {
                let health = answer.volume_health.unwrap_or_default();
                self.health(&run.handle, normalise(&health.health_statuses), due)
            }
            Called::GetCondition(_, Ok(answer)) => {
                // The answer is about the queried volume, whatever id the driver returns.
                let volume = Some(Volume::default());
                let status = answer.status;
                let said = condition(Entry { volume, status });
                said.map_or(Report::Condition(None), |(_, report)| report)
            }
            Called::GetHealth(_, Err(error)) | Called::GetCondition(_, Err(error)) => {
                // The failure came from an earlier instance of the driver.
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

    /// The driver does not implement queries about single volumes. From now on it is only asked for lists, if it has
    /// them.
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
            // The claim is gone, so its volume will soon be released.
            Err(error) if error.is_not_found() => {}
            // The API server rejects a patch with another UID this way; the claim will never have this UID again.
            Err(error)
                if error.refusal == Refusal::Other
                    && error.message.contains("field is immutable") =>
            {
                if let Some(uid) = uid {
                    self.others.insert(claim.clone(), uid);
                }
                due.notices.push(Notice::Another(claim));
            }
            // The volume's other claims are still written.
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
        // The result of the query may have been discarded.
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
