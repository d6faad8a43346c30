//! The ends of attempts for claims, and their notices.

use std::sync::Arc;
use std::time::Instant;

use sidecar::controller::reactor::Verdict;

use super::super::{
    Failed, Informed, Notice, Provisioner, UnsettledRequest, Wakes, after, retry, wake_claim,
};
use super::{Open, Run};
use crate::model::Text;
use crate::plan::claim::{End, Failure, ProvisioningState};
use crate::plan::outcome::RequeueTrigger;

impl Provisioner {
    pub(in crate::plan::reactor) fn end_claim(
        &mut self,
        run: Run,
        informers: Informed<'_>,
        now: Instant,
        due: &mut Wakes,
    ) -> Verdict<Failed> {
        let mut open = match run {
            Run::Nothing(key) => {
                self.ownership_races.end(&key);
                due.notices.push(Notice::Idle(key));
                return Verdict::Done;
            }
            Run::Slow(key, wait) => {
                due.notices.push(Notice::Later(key, wait));
                return after(wait);
            }
            Run::Unrecovered(_, claim, failure) => {
                let Some(failure) = failure else {
                    // The claim is requeued once those requests are known.
                    return after(self.pace.max);
                };
                due.notices.push(Notice::NotProvisioned(Arc::clone(&claim)));
                let text = failure.event(claim.class_name());
                due.notices.push(Notice::ClaimFailed(claim, text));
                return retry(Failed::Claim(*failure, false));
            }
            Run::Open(open) => open,
        };
        if let Some(race) = open.race.take() {
            let verdict = self.end_race(&open, race, now, due);
            // The claim may be gone or bound meanwhile, when the in-flight state had no entry of it yet.
            if self.look_up(&open.key, informers).is_none() {
                self.ownership_races.end(&open.key);
            }
            return verdict;
        }
        // The claim's owner is known now.
        self.ownership_races.end(&open.key);
        // An attempt ends only with its last step.
        match open.over.take().unwrap_or(Ok(End::NotOurs)) {
            Ok(end) => {
                self.end_well(&open, end, informers, now, due);
                Verdict::Done
            }
            Err(failure) => self.end_failed(&open, failure, informers, now, due),
        }
    }

    fn end_well(
        &mut self,
        open: &Open,
        end: End,
        informers: Informed<'_>,
        now: Instant,
        due: &mut Wakes,
    ) {
        let Open { key, claim, .. } = open;
        let (outcome, unsettled) = open.attempt.outcome(Ok(end));
        self.in_flight.end(claim, outcome, unsettled, now);
        self.settle(key, due);
        match end {
            End::Provisioned => {
                let topology =
                    self.settings.gates.topology && informers.driver().abilities.topology;
                let volume = open.attempt.volume().filter(|_| topology);
                let accessible = volume.map(|volume| volume.accessible_topology.clone());
                let took = now.saturating_duration_since(open.started);
                let accessible = accessible.unwrap_or_default();
                due.notices
                    .push(Notice::Provisioned(Arc::clone(claim), took, accessible));
            }
            End::Stopped | End::Exists => {
                due.notices.push(Notice::NotProvisioned(Arc::clone(claim)));
            }
            End::NotOurs | End::Contend | End::LeftUnsettled | End::Settled => {}
        }
        // Other unsettled requests of a claim that needs no volume any more are repeated at once.
        let needed = !open.gone && claim.volume.is_empty();
        if !needed && self.in_flight.has_unknown_outcome(&key.uid) {
            wake_claim(due, key.clone());
        }
    }

    fn end_failed(
        &mut self,
        open: &Open,
        failure: Failure,
        informers: Informed<'_>,
        now: Instant,
        due: &mut Wakes,
    ) -> Verdict<Failed> {
        let Open { key, claim, .. } = open;
        let class = claim.class_name();
        let is_first_transient = self.in_flight.is_first_transient(key, failure.may_pass());
        if failure.concerns_users() && !is_first_transient {
            due.notices.push(Notice::NotProvisioned(Arc::clone(claim)));
            if !open.gone {
                let text = failure.event(class);
                due.notices
                    .push(Notice::ClaimFailed(Arc::clone(claim), text));
            }
        }
        let (outcome, unsettled) = open.attempt.outcome(Err(&failure));
        self.in_flight.end(claim, outcome, unsettled, now);
        self.settle(key, due);
        if let Some(cure) = failure.cure(class) {
            if matches!(cure, RequeueTrigger::AttributesClass(_)) {
                due.notices.push(Notice::LookedFor);
            }
            self.in_flight.wait_for(cure, key);
        }
        let state = open.attempt.state(&failure);
        if state != ProvisioningState::NoChange {
            due.notices.push(Notice::CapacityStale(Text::from(class)));
        }
        // The claim may be gone since the attempt began, when the in-flight state had no entry of it yet.
        if self.look_up(key, informers).is_none() {
            self.in_flight.gone(key);
        }
        if open.gone {
            self.report_unsettled(open, &failure, due);
            // The source keeps its finalizer until this call is settled: its deletion must not wait longer.
            let pause = self.in_flight.pause(key, now);
            if let Some(delay) = pause.filter(|_| !claim.has_source()) {
                return Verdict::After {
                    delay,
                    failure: Some(Failed::Claim(failure, false)),
                };
            }
        }
        // Retried even if another node has to be selected: the process's own update requeues nothing, and a claim with
        // `Immediate` binding may stay without node, or be open to all nodes again. A node that is selected meanwhile
        // requeues the claim.
        retry(Failed::Claim(
            failure,
            state == ProvisioningState::Reschedule,
        ))
    }

    /// Logs each unsettled request of a claim that needs no volume any more once, with what an administrator can do
    /// about it.
    fn report_unsettled(&mut self, open: &Open, failure: &Failure, due: &mut Wakes) {
        let (Some(journal), Some(asked)) = (&self.journal, open.attempt.prepared()) else {
            return;
        };
        if self.in_flight.is_first_report(&open.key, asked) {
            due.notices
                .push(Notice::Unsettled(Box::new(UnsettledRequest {
                    key: open.key.clone(),
                    volume: asked.name.clone(),
                    leases: journal.leases_of(&open.key.uid),
                    failure: failure.clone(),
                })));
        }
    }
}
