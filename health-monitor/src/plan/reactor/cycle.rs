//! Attempts on the cycle: a list from the first page to the last, or the choice of the next volume to query.

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

/// Interval at which failing lists are tried again.
const TRY_AGAIN: Duration = Duration::from_secs(10 * 60);

/// Time limit of a list, unless the interval is even longer: while a list runs, no conditions are cleared.
const LONGEST: Duration = Duration::from_secs(30 * 60);

/// Number of incomplete lists in a row after which the driver is queried about single volumes instead.
const TOO_MANY: u32 = 3;

/// An attempt on the cycle.
#[derive(Debug)]
pub struct Run {
    start: Instant,
    /// Time of the last decision.
    now: Instant,
    /// The driver's generation at the start.
    generation: u64,
    mode: Mode,
    /// The list, unless single volumes are queried.
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
                    // The entry's volume does not exist or is not bound.
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
        // Reports take effect at the end of the list, because a volume may appear twice. A slow list applies them
        // early.
        let interval = self.interval(run.mode);
        if !run.mode.is_older() && run.now.duration_since(run.start) >= interval {
            for (handle, report) in std::mem::take(&mut listing.reports) {
                self.reported(&handle, report, informers, run.now, due);
            }
        }
    }

    /// Remembers the claims for which earlier processes sent events.
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
        // The driver came back meanwhile, and another cycle is queued.
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
            // No calls until the driver comes back with other capabilities.
            (None, None) => return Verdict::Done,
        };
        Verdict::After {
            delay,
            failure: None,
        }
    }

    /// A list ended. Returns the time until the next step if that is not the next list.
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
        // A list of conditions counts only if it is complete.
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
        // Otherwise a list that fails at once would be repeated without a pause when the interval is tiny.
        rest.max(Duration::from_millis(10))
    }

    /// Handles volumes missing from a list. `seen`: the volumes of a complete list; `None` if it is incomplete.
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
        // A volume missing from a complete list counts as healthy, unless its claim has conditions.
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

    /// Queues a query about a volume, unless one is already queued or a failure's back-off is running.
    fn ask(&mut self, handle: Text, due: &mut Wakes) {
        if !self.failing.contains_key(&handle) && self.asked.insert(handle.clone()) {
            wake(Key::Volume(handle), due);
        }
    }

    /// Queues the volume whose turn it is; returns the time until the next turn.
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
