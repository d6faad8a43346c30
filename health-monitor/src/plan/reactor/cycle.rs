//! A list from the first page to the last, or whose turn it is to be asked about.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use csi_proto::csi::ControllerListVolumeHealthRequest;
use csi_proto::volume_condition::ListVolumesRequest;
use sidecar::controller::CallError;
use sidecar::controller::reactor::Verdict;

use super::{Failed, HealthMonitor, Informed, Key, Notice, Wakes, wake};
use crate::model::{Conditions, Text};
use crate::plan::decision::{Decision, Seen, decide};
use crate::plan::list::{Gap, Listing, Report, condition};
use crate::plan::mode::Mode;
use crate::plan::normalise::normalise;
use crate::plan::pace::Pace;
use crate::plan::request::{Call, Called, Found, Object, Reply, Request};

/// How often lists are tried again that did not work.
const TRY_AGAIN: Duration = Duration::from_secs(10 * 60);

/// A list that takes longer is given up, if the interval is not longer still: while it lasts, nothing is cleared.
const LONGEST: Duration = Duration::from_secs(30 * 60);

/// Incomplete lists in a row, after which volumes are asked about instead.
const TOO_MANY: u32 = 3;

/// An attempt.
#[derive(Debug)]
pub struct Run {
    start: Instant,
    /// When it was last decided on.
    now: Instant,
    /// Of the driver.
    generation: u64,
    mode: Mode,
    /// The list, if the driver lists.
    listing: Option<Listing>,
    notices: Vec<Notice>,
}

impl HealthMonitor {
    pub(super) fn begin_cycle(&mut self, informers: Informed<'_>, now: Instant) -> Run {
        let mut due = Wakes::default();
        self.enter(informers.driver().mode, &mut due);
        let mode = self.asks();
        let lists = mode.lists() && self.lists.next.is_none_or(|next| next <= now);
        Run {
            start: now,
            now,
            generation: self.generation,
            mode,
            listing: lists.then(Listing::default),
            notices: due.notices,
        }
    }

    pub(super) fn decide_cycle(&mut self, run: &mut Run, now: Instant) -> Option<Request> {
        run.now = now;
        if run.generation != self.generation {
            return None;
        }
        if run.mode.is_older() && self.earlier.is_none() {
            return Some(Request::Get(Object::Events));
        }
        let listing = run.listing.as_mut()?;
        let took = now.duration_since(run.start);
        if took > LONGEST.max(self.interval(run.mode)) {
            listing.end.get_or_insert(Err(Gap::Endless(took)));
        }
        let token = listing.next()?;
        Some(Request::Call(match run.mode.is_older() {
            true => {
                let request = ListVolumesRequest {
                    max_entries: 0,
                    starting_token: token,
                };
                Call::ListConditions(request.into())
            }
            false => {
                let request = ControllerListVolumeHealthRequest {
                    starting_token: token,
                    ..ControllerListVolumeHealthRequest::default()
                };
                Call::ListHealth(request.into())
            }
        }))
    }

    pub(super) fn cycle_answered(
        &mut self,
        run: &mut Run,
        reply: Reply,
        informers: Informed<'_>,
        due: &mut Wakes,
    ) {
        let called = match reply {
            Reply::Get(_, found) => return self.history(found, due),
            Reply::Call(called, _) => called,
            Reply::Write(..) | Reply::Secret(..) | Reply::Event(_) => return,
        };
        let current = run.generation == self.generation;
        let Some(listing) = run.listing.as_mut().filter(|_| current) else {
            return;
        };
        match called {
            Called::ListHealth(_, Ok(page)) => {
                let mut reports = Vec::new();
                for entry in page.entries {
                    // Of volumes that there are not, or that are not bound.
                    let Some(handle) = self.volumes.handle(&entry.volume_id).cloned() else {
                        continue;
                    };
                    let report = self.health(&handle, normalise(&entry.health_statuses), due);
                    reports.push((handle, report));
                }
                listing.page(reports.into_iter(), page.next_token);
            }
            Called::ListConditions(_, Ok(page)) => {
                let entries = page.entries.into_iter().filter_map(condition);
                let reports = entries.filter_map(|(handle, report)| {
                    let handle = self.volumes.handle(&handle)?;
                    Some((handle.clone(), report))
                });
                listing.page(reports, page.next_token);
            }
            Called::ListHealth(_, Err(error)) | Called::ListConditions(_, Err(error)) => {
                let (CallError::Unreachable(error) | CallError::Failed(error)) = error;
                listing.failed(error);
            }
            Called::GetHealth(..) | Called::GetCondition(..) => {}
        }
        // What a list says counts at its end, for a volume may be in it twice. One that takes long is not waited for.
        let interval = self.interval(run.mode);
        if !run.mode.is_older() && run.now.duration_since(run.start) >= interval {
            for (handle, report) in std::mem::take(&mut listing.reports) {
                self.reported(&handle, report, informers, run.now, due);
            }
        }
    }

    /// Claims with events of earlier processes.
    fn history(&mut self, found: Result<Found, super::ApiError>, due: &mut Wakes) {
        self.earlier = Some(match found {
            Ok(Found::Events(claims)) => claims.into_iter().collect(),
            Ok(Found::Claim { .. }) => HashSet::new(),
            Err(error) => {
                due.notices.push(Notice::NoHistory(error));
                HashSet::new()
            }
        });
    }

    pub(super) fn end_cycle(
        &mut self,
        run: Run,
        informers: Informed<'_>,
        now: Instant,
        due: &mut Wakes,
    ) -> Verdict<Failed> {
        due.notices.extend(run.notices);
        // The driver is another one, and another cycle is due.
        if run.generation != self.generation {
            return Verdict::Done;
        }
        let next = self.lists.next.filter(|_| self.asks().lists());
        let delay = match (run.listing, next) {
            (Some(listing), _) => {
                let took = now.duration_since(run.start);
                due.notices.push(Notice::Cycle(took));
                self.listed(run.mode, listing, informers, now, due)
                    .unwrap_or_else(|| self.until_next(run.mode, took))
            }
            (None, _) if self.asks_each() => self.turn(now, due),
            (None, Some(next)) => next.saturating_duration_since(now),
            // Nothing is asked until the driver comes back as something else.
            (None, None) => return Verdict::Done,
        };
        Verdict::After {
            delay,
            failure: None,
        }
    }

    /// A list has ended. How long until the next question, if that is not the next list.
    fn listed(
        &mut self,
        mode: Mode,
        listing: Listing,
        informers: Informed<'_>,
        now: Instant,
        due: &mut Wakes,
    ) -> Option<Duration> {
        let unimplemented = listing.is_unimplemented();
        let Listing {
            reports, seen, end, ..
        } = listing;
        let gap = end.and_then(Result::err);
        // Older drivers' lists count as a whole or not at all.
        if gap.is_none() || !mode.is_older() {
            self.absent(mode, gap.is_none().then_some(&seen), informers, due, now);
            for (handle, report) in reports {
                if self.volumes.handle(&handle).is_some() {
                    self.reported(&handle, report, informers, now, due);
                }
            }
        }
        let Some(gap) = gap else {
            self.lists.incomplete = 0;
            if self.lists.next.take().is_some() {
                self.pace = Pace::default();
                due.notices.push(Notice::Lists);
            }
            return None;
        };
        due.notices.push(Notice::Incomplete(gap));
        self.lists.incomplete += 1;
        let instead = unimplemented || self.lists.incomplete >= TOO_MANY;
        if instead && (mode.can_get() || self.lists.next.is_some()) {
            if self.lists.next.replace(now + TRY_AGAIN).is_none() {
                due.notices.push(Notice::Instead);
            }
            return Some(Duration::ZERO);
        }
        None
    }

    fn interval(&self, mode: Mode) -> Duration {
        match mode.is_older() {
            true => self.settings.list_interval,
            false => self.settings.interval,
        }
    }

    fn until_next(&self, mode: Mode, took: Duration) -> Duration {
        let rest = self.interval(mode).saturating_sub(took);
        // A list that failed at once, with an interval of next to nothing, would be asked for without end.
        rest.max(Duration::from_millis(10))
    }

    /// What a list does not have. `seen`: what a complete one has; `None`: it is not complete.
    fn absent(
        &mut self,
        mode: Mode,
        seen: Option<&HashSet<Text>>,
        informers: Informed<'_>,
        due: &mut Wakes,
        now: Instant,
    ) {
        let before = std::mem::take(&mut self.lists.without);
        let Some(seen) = seen.filter(|_| !mode.is_older()) else {
            return;
        };
        let healthy = Report::Health(Conditions::default());
        for (key, claim) in informers.unhealthy() {
            let volume = informers.volume(&claim.volume);
            let Some(volume) = volume.filter(|volume| volume.claim == key) else {
                continue;
            };
            let handle = volume.handle.clone();
            if seen.contains(&handle) {
                continue;
            }
            let lists = before
                .get(&handle)
                .map_or(1, |lists| lists.saturating_add(1));
            let can_get = mode.can_get();
            self.lists.without.insert(handle.clone(), lists);
            match decide(Some(&claim), &volume, Seen::Absent { lists, can_get }) {
                Decision::Ask => self.ask(handle, due),
                Decision::Clear => self.reported(&handle, healthy.clone(), informers, now, due),
                Decision::Write | Decision::Nothing => {}
            }
        }
        // What is in no list is well, as far as is known, unless its claim says something else.
        let well: Vec<Text> = { self.unhealthy.keys() }
            .filter(|handle| !seen.contains(*handle) && !self.lists.without.contains_key(*handle))
            .cloned()
            .collect();
        for handle in well {
            if !self.busy.contains(&handle) {
                self.reports.remove(&handle);
                self.is_now(&handle, &Conditions::default(), due);
            }
        }
    }

    /// The driver is asked about a volume, unless it is already or a failure is waited out.
    fn ask(&mut self, handle: Text, due: &mut Wakes) {
        if !self.failing.contains_key(&handle) && self.asked.insert(handle.clone()) {
            wake(Key::Volume(handle), due);
        }
    }

    /// Wakes the volume whose turn it is; returns the time until the next turn.
    fn turn(&mut self, now: Instant, due: &mut Wakes) -> Duration {
        let (volumes, asked, failing) = (&self.volumes, &self.asked, &self.failing);
        let may = |handle: &Text| {
            volumes.handle(handle).is_some()
                && !asked.contains(handle)
                && !failing.contains_key(handle)
        };
        let turn = self
            .pace
            .turn(now, &self.settings, asked.len(), volumes, may);
        due.notices.extend(turn.ended.map(Notice::Cycle));
        due.notices.extend(turn.slow.map(Notice::Slow));
        if let Some(handle) = turn.ask {
            self.ask(handle, due);
        }
        let until_list = self
            .lists
            .next
            .map(|next| next.saturating_duration_since(now));
        until_list.map_or(turn.wait, |until| turn.wait.min(until))
    }
}
