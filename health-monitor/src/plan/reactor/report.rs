//! What the driver reports, and who is to hear of it.

use std::sync::Arc;
use std::time::Instant;

use super::{HealthMonitor, Informed, Key, Notice, Wakes, wake};
use crate::model::{Conditions, Text, Uid, Volume};
use crate::plan::decision::{Decision, Seen, decide};
use crate::plan::event::{Tell, Told, tell};
use crate::plan::field::News;
use crate::plan::list::Report;
use crate::plan::normalise::Normalised;

impl HealthMonitor {
    /// The driver said of a volume how it is: the metric.
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

    /// What of a driver's report is kept.
    pub(super) fn health(&mut self, handle: &Text, report: Normalised, due: &mut Wakes) -> Report {
        for number in report.unknown {
            if self.named.len() < 100 && self.named.insert(number) {
                due.notices.push(Notice::Unknown(number));
            }
        }
        if report.surplus > 0 {
            due.notices
                .push(Notice::Surplus(handle.clone(), report.surplus));
        }
        Report::Health(report.conditions)
    }

    /// The driver reported this. If it is news to a claim or to users, it is worked on.
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
        self.reports.insert(handle.clone(), report);
        // What is being written now may differ from what the caches show.
        if self.busy.contains(handle) || self.is_news(handle, informers, now) {
            wake(Key::Volume(handle.clone()), due);
        } else {
            self.reports.remove(handle);
        }
    }

    /// Whether claims or users are to hear of the last report about a volume.
    pub(super) fn is_news(&self, handle: &Text, informers: Informed<'_>, now: Instant) -> bool {
        match self.reports.get(handle) {
            Some(Report::Health(conditions)) => {
                let mut claims = self.volumes.of(handle).into_iter();
                claims.any(|name| self.decide_on(&name, conditions, informers).is_some())
            }
            Some(Report::Condition(message)) => self
                .tells(handle, message.as_ref(), informers, now)
                .is_some(),
            None => false,
        }
    }

    /// The volume of this name, if its claim differs from the report, and whether the claim has conditions.
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

    /// What users are told.
    pub(super) fn tells(
        &self,
        handle: &Text,
        message: Option<&Text>,
        informers: Informed<'_>,
        now: Instant,
    ) -> Option<Tell> {
        let earlier = self.earlier.as_ref().is_some_and(|earlier| {
            let names = self.volumes.of(handle);
            let mut volumes = names.iter().filter_map(|name| informers.volume(name));
            !earlier.is_empty() && volumes.any(|volume| earlier.contains(&volume.uid))
        });
        tell(message, self.told.get(handle), earlier, now)
    }

    /// Users were told, or are about to be, whatever comes of it.
    pub(super) fn has_told(&mut self, handle: &Text, tell: &Tell, uids: &[Uid], at: Instant) {
        match tell {
            Tell::Abnormal(message) => {
                let message = message.clone();
                self.told.insert(handle.clone(), Told { message, at });
            }
            Tell::Normal => {
                self.told.remove(handle);
            }
        }
        if let Some(earlier) = &mut self.earlier {
            for uid in uids {
                earlier.remove(uid);
            }
        }
    }

    /// What an answer of the API server said of the field.
    pub(super) fn heard(&mut self, news: News, due: &mut Wakes) {
        match news {
            News::Drops | News::DropsStill => {
                due.notices.push(Notice::Dropped(news == News::Drops))
            }
            News::Keeps => {
                due.notices.push(Notice::Kept);
                let waiting = self.reports.keys().cloned();
                waiting.for_each(|handle| wake(Key::Volume(handle), due));
            }
            News::None => {}
        }
    }
}
