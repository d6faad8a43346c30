//! One pass over all pods and volumes.

use std::collections::BTreeSet;
use std::time::Duration;

use tokio::time::Instant;

use super::super::disk;
use super::Reconciler;
use super::pod_state::Work;
use crate::model::pod::Pod;
use crate::plan::operation::Refused;

/// Longest time between two passes.
const LONGEST_SLEEP: Duration = Duration::from_secs(30);

impl Reconciler {
    /// Starts everything that is due; returns the time of the next pass without changes.
    pub(super) fn pass(&mut self) -> Instant {
        let now = Instant::now();
        self.update_pods(now);
        let node = self.view();
        let complete = self.pods.is_complete(now);
        let mut next = now + LONGEST_SLEEP;
        let host = self.host(&node);
        for (key, operation) in self.world.decide(&node, &self.reports, complete) {
            let attempt = operation.attempt(&key);
            match self.operations.start(&attempt, now.into_std()) {
                Ok(()) => self.start(key, operation, &host),
                Err(Refused::Busy) => {}
                Err(Refused::BackOff(then)) => next = next.min(then.into()),
            }
        }
        // The report comes last: a volume that this pass has dropped is not in use any more, and its
        // detach waits for that.
        next = next.min(self.report(&node, complete, now).unwrap_or(next));
        self.attend(now);
        next.min(self.pods.next(now).unwrap_or(next))
            .max(now + Duration::from_millis(1))
    }

    fn update_pods(&mut self, now: Instant) {
        let watched = self.context.watched.pods.state();
        let pods: Vec<Pod> = watched.iter().map(|object| object.pod.clone()).collect();
        for uid in self.pods.update(pods, now) {
            self.world.unwant(&uid);
            self.operations.forget_pod(&uid);
            if !self.world.has_any(&uid) {
                disk::tidy_pod(&self.context.actor.layout, &uid);
            }
        }
        // Also pods found on disk that no list has.
        let strangers: Vec<String> = { self.world.pods().into_iter() }
            .filter(|uid| self.pods.pod(uid).is_none_or(|pod| pod.ended))
            .map(str::to_owned)
            .collect();
        for uid in strangers {
            self.world.unwant(&uid);
        }
    }

    /// Handles pods whose volumes have to be looked up, whose state has to be written, or that have
    /// waited too long.
    fn attend(&mut self, now: Instant) {
        let uids: Vec<String> = { self.pods.pods() }
            .map(|pod| pod.names.uid.clone())
            .collect();
        for uid in uids {
            let Some(pod) = self.pods.pod(&uid) else {
                continue;
            };
            let waits = !self.world.has_all(&uid);
            let ready = self.context.run_pods
                && if pod.deleting {
                    !self.world.has_any(&uid)
                } else {
                    !waits && !pod.ended && pod.phase != "Running"
                };
            for due_work in self.pods.due_work(&uid, waits, ready, now) {
                match due_work {
                    Work::Resolve(pod) => self.resolve(pod),
                    Work::Write(pod) => self.write_status(pod.names, pod.deleting),
                    Work::Check(pod) => {
                        let missing = self.missing(&pod.names.uid);
                        self.check(&pod.names, missing);
                    }
                }
            }
        }
    }

    /// Driver and handle of each volume that a pod waits for.
    fn missing(&self, uid: &str) -> BTreeSet<(String, String)> {
        let volumes = self.world.volumes();
        let wanted = volumes.filter_map(|(_, state)| {
            let wanted = state.wanted.get(uid)?;
            let missing = !state.have.contains_key(uid) && wanted.attach;
            missing.then(|| (wanted.volume.driver.clone(), wanted.volume.handle.clone()))
        });
        wanted.collect()
    }
}
