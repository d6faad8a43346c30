//! Handles the driver's reports and decides which claims to write and which events to send.

use std::sync::Arc;
use std::time::Instant;

use super::{HealthMonitor, Informed, Key, Notice, Wakes, wake_with};
use crate::model::{Conditions, Text, Volume};
use crate::plan::decision::{Decision, Seen, decide};
use crate::plan::event::{Tell, Told, tell};
use crate::plan::field::News;
use crate::plan::list::Report;
use crate::plan::normalise::Normalised;
use crate::plan::request::Event;

impl HealthMonitor {
    /// Updates the metric with the volume's new conditions.
    pub(super) fn is_now(&mut self, handle: &Text, conditions: &Conditions, due: &mut Wakes) {
        let before = match conditions.is_empty() {
            true => self.unhealthy.remove(handle),
            false => self.unhealthy.insert(handle.clone(), conditions.clone()),
        };
        let before = before.unwrap_or_default();
        if before != *conditions {
            due.notices.push(Notice::Health(before, conditions.clone()));
        }
    }

    /// Counts and logs the conditions that a claim cannot hold, and returns the rest.
    pub(super) fn health(&mut self, handle: &Text, report: Normalised, due: &mut Wakes) -> Report {
        if !report.unknown.is_empty() {
            due.notices.push(Notice::LeftOut(report.unknown.len()));
        }
        for number in report.unknown {
            if self.named.len() < 100 && self.named.insert(number) {
                due.notices.push(Notice::Unknown(number));
            }
        }
        if report.surplus == 0 {
            self.surplus.remove(handle);
        } else if self.surplus.insert(handle.clone()) {
            due.notices
                .push(Notice::Surplus(handle.clone(), report.surplus));
        }
        Report::Health(report.conditions)
    }

    /// Stores a list's report about a volume, and queues the volume if a write or an event is due.
    pub(super) fn reported(
        &mut self,
        handle: &Text,
        report: Report,
        informers: Informed<'_>,
        now: Instant,
        due: &mut Wakes,
    ) {
        if let Report::Health(conditions) = &report {
            self.is_now(handle, &conditions.clone(), due);
        }
        // An earlier query about the volume would return older data.
        self.asked.remove(handle);
        let before = self.reports.insert(handle.clone(), report.clone());
        // A running write may contradict what the caches show.
        if self.busy.contains(handle) || self.is_news(handle, informers, now) {
            // A failed write stays in back-off, unless the new report would change what is written.
            let is_same = before.is_some_and(|before| before.is_same(&report));
            wake_with(Key::Volume(handle.clone()), is_same, due);
        } else {
            self.reports.remove(handle);
        }
    }

    /// Whether the last report about a volume causes a write or an event.
    pub(super) fn is_news(&self, handle: &Text, informers: Informed<'_>, now: Instant) -> bool {
        match self.reports.get(handle) {
            Some(Report::Health(conditions)) => {
                let mut claims = self.volumes.of(handle).into_iter();
                claims.any(|name| self.decide_on(&name, conditions, informers).is_some())
            }
            Some(Report::Condition(message)) => {
                let events = self.events(handle, message.as_ref(), informers, now);
                !events.is_empty()
            }
            None => false,
        }
    }

    /// The volume of this name if its claim differs from the report, and whether the claim has conditions.
    pub(super) fn decide_on(
        &self,
        name: &str,
        report: &Conditions,
        informers: Informed<'_>,
    ) -> Option<(Arc<Volume>, bool)> {
        let volume = informers.volume(name)?;
        if self.others.get(&volume.claim) == Some(&volume.uid) {
            return None;
        }
        let claim = informers.claim(&volume.claim);
        let has_some = claim.as_ref().is_some_and(|claim| !claim.stored.is_empty());
        match decide(claim.as_deref(), &volume, Seen::Reported(report)) {
            Decision::Write | Decision::Clear => Some((volume, has_some)),
            Decision::Ask | Decision::Nothing => None,
        }
    }

    /// The events to send, one for each claim of the volume.
    pub(super) fn events(
        &self,
        handle: &Text,
        message: Option<&Text>,
        informers: Informed<'_>,
        now: Instant,
    ) -> Vec<Event> {
        let names = self.volumes.of(handle);
        let volumes = names.iter().filter_map(|name| informers.volume(name));
        // Claims that belong to another volume or are not bound get no event.
        let fitting = volumes.filter(|volume| {
            let claim = informers.claim(&volume.claim);
            claim.is_none_or(|claim| claim.uid == volume.uid && claim.bound)
        });
        let events = fitting.filter_map(|volume| {
            let (told, earlier) = (self.told.get(&volume.uid), self.earlier.as_ref());
            let earlier = earlier.is_some_and(|earlier| earlier.contains(&volume.uid));
            Some(Event {
                claim: volume.claim.clone(),
                uid: volume.uid.clone(),
                tell: tell(message, told, earlier, now)?,
            })
        });
        events.collect()
    }

    /// Records an event that is about to be sent, whether or not sending succeeds.
    pub(super) fn has_told(&mut self, event: &Event, at: Instant) {
        match &event.tell {
            Tell::Abnormal(message) => {
                let message = message.clone();
                self.told.insert(event.uid.clone(), Told { message, at });
            }
            Tell::Normal => {
                self.told.remove(&event.uid);
            }
        }
        if let Some(earlier) = &mut self.earlier {
            earlier.remove(&event.uid);
        }
    }

    /// Handles what the answer to a write of this volume's claims shows about the API server.
    pub(super) fn heard(&mut self, news: News, handle: &Text, due: &mut Wakes) {
        match news {
            News::Drops | News::DropsStill => {
                due.notices.push(Notice::Dropped(news == News::Drops))
            }
            News::Keeps => {
                due.notices.push(Notice::Kept);
                // The claims of this volume were part of the trial.
                let waiting = self.reports.keys().filter(|waiting| *waiting != handle);
                let waiting = waiting.cloned();
                waiting.for_each(|handle| wake_with(Key::Volume(handle), true, due));
            }
            News::None => {}
        }
    }
}
