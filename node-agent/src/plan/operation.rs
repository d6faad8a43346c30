//! Which operations may start: never two that conflict, and after a failure not before a back-off.
//!
//! An operation concerns a whole volume, or a volume for one pod. The first kind excludes all
//! others of the volume; those for different pods may overlap. Failures count per pod and kind, so
//! that a failure for one pod neither delays another nor is forgotten when another succeeds.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use registrar::kubelet::plan::schedule::OPERATION_BACK_OFF;

/// The kind of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Stage and publish.
    Mount,
    /// Unpublish.
    Unpublish,
    /// Unstage.
    Unstage,
    /// Expand the file system.
    Expand,
}

impl Kind {
    /// The value of kubelet's label `operation_name`.
    #[must_use]
    pub const fn name(self, block: bool) -> &'static str {
        match (self, block) {
            (Self::Mount, false) => "volume_mount",
            (Self::Mount, true) => "map_volume",
            (Self::Unpublish, false) => "volume_unmount",
            (Self::Unpublish, true) => "unmap_volume",
            (Self::Unstage, false) => "unmount_device",
            (Self::Unstage, true) => "unmap_device",
            (Self::Expand, _) => "volume_fs_resize",
        }
    }
}

/// One operation on one volume; failures count per value.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Attempt {
    /// Key of the volume.
    pub volume: String,
    /// Its kind.
    pub kind: Kind,
    /// UID of the pod; `None` for the whole volume.
    pub pod: Option<String>,
}

impl Attempt {
    /// UID of the pod whose part of the volume it changes; `None` for the whole volume. All mounts
    /// of a persistent volume exclude each other.
    fn part(&self) -> Option<&str> {
        match self.kind {
            Kind::Unpublish => self.pod.as_deref(),
            Kind::Mount | Kind::Unstage | Kind::Expand => None,
        }
    }

    fn excludes(&self, other: &Self) -> bool {
        let (part, others) = (self.part(), other.part());
        self.volume == other.volume && (part.is_none() || others.is_none() || part == others)
    }
}

/// Why an operation may not start now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// A conflicting operation is under way.
    Busy,
    /// The last attempt failed; the time is the end of the back-off.
    BackOff(Instant),
}

#[derive(Clone, Copy, Debug)]
struct Failures {
    count: u32,
    not_before: Instant,
}

/// The operations under way, and the failed ones.
#[derive(Debug, Default)]
pub struct Operations {
    running: BTreeSet<Attempt>,
    failed: BTreeMap<Attempt, Failures>,
}

impl Operations {
    /// Marks an operation as running.
    ///
    /// # Errors
    /// [`Refused`]
    pub fn start(&mut self, attempt: &Attempt, now: Instant) -> Result<(), Refused> {
        if self.running.iter().any(|other| attempt.excludes(other)) {
            return Err(Refused::Busy);
        }
        let failed = self.failed.get(attempt);
        if let Some(failed) = failed.filter(|failed| now < failed.not_before) {
            return Err(Refused::BackOff(failed.not_before));
        }
        self.running.insert(attempt.clone());
        Ok(())
    }

    /// Records the end of an operation; returns the end of the back-off after a failure. A success
    /// ends the back-offs of its own kind for the pod, and that of unstaging; a successful
    /// unpublish ends all of its pod.
    pub fn finish(&mut self, attempt: &Attempt, succeeded: bool, now: Instant) -> Option<Instant> {
        self.running.remove(attempt);
        if succeeded {
            self.failed.retain(|other, _| {
                let same = other.kind == attempt.kind || attempt.kind == Kind::Unpublish;
                let over = (same && other.pod == attempt.pod) || other.kind == Kind::Unstage;
                other.volume != attempt.volume || !over
            });
            return None;
        }
        let before = self.failed.get(attempt).map_or(0, |failed| failed.count);
        let count = before.saturating_add(1);
        let not_before = now + OPERATION_BACK_OFF.delay(count, 0.0);
        self.failed
            .insert(attempt.clone(), Failures { count, not_before });
        Some(not_before)
    }

    /// Drops the failures of a volume that is gone.
    pub fn forget(&mut self, volume: &str) {
        self.failed.retain(|attempt, _| attempt.volume != volume);
    }

    /// Drops the failures of a pod that is gone.
    pub fn forget_pod(&mut self, pod: &str) {
        self.failed
            .retain(|attempt, _| attempt.pod.as_deref() != Some(pod));
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn attempt(kind: Kind, pod: &str) -> Attempt {
        Attempt {
            volume: "v".to_owned(),
            kind,
            pod: (!pod.is_empty()).then(|| pod.to_owned()),
        }
    }

    fn fail(operations: &mut Operations, attempt: &Attempt, now: Instant) -> Duration {
        operations.start(attempt, now).unwrap();
        operations.finish(attempt, false, now).unwrap() - now
    }

    #[test]
    fn fr_3_two_kinds_that_fail_in_turns_wait_longer_each_time() {
        let mut operations = Operations::default();
        let kinds = [attempt(Kind::Mount, "a"), attempt(Kind::Expand, "b")];
        let mut now = Instant::now();
        for pause in [500, 1000, 2000, 4000] {
            for kind in &kinds {
                let took = fail(&mut operations, kind, now);
                assert_eq!(took, Duration::from_millis(pause), "{kind:?}");
            }
            now += Duration::from_millis(pause);
        }
    }

    #[test]
    fn fr_4_the_pause_of_one_pod_is_not_that_of_another() {
        let (mut operations, now) = (Operations::default(), Instant::now());
        fail(&mut operations, &attempt(Kind::Mount, "a"), now);
        let again = operations.start(&attempt(Kind::Mount, "a"), now);
        assert!(matches!(again, Err(Refused::BackOff(_))), "{again:?}");
        assert_eq!(operations.start(&attempt(Kind::Mount, "b"), now), Ok(()));
    }

    #[test]
    fn v_9_a_success_ends_pauses() {
        let now = Instant::now();
        let unstage = attempt(Kind::Unstage, "");
        for (kind, ended) in [
            (Kind::Mount, vec![Kind::Mount, Kind::Unstage]),
            (
                Kind::Unpublish,
                vec![Kind::Mount, Kind::Unpublish, Kind::Unstage],
            ),
        ] {
            let mut operations = Operations::default();
            let all = [Kind::Mount, Kind::Unpublish].map(|kind| attempt(kind, "a"));
            for attempt in all.iter().chain([&unstage]) {
                fail(&mut operations, attempt, now);
            }
            let succeeded = attempt(kind, "a");
            let later = now + Duration::from_secs(1);
            operations.start(&succeeded, later).unwrap();
            operations.finish(&succeeded, true, later);
            for attempt in all.iter().chain([&unstage]) {
                let starts = operations.start(attempt, now).is_ok();
                assert_eq!(starts, ended.contains(&attempt.kind), "{attempt:?}");
                operations.running.clear();
            }
        }
    }

    #[test]
    fn what_is_no_more_leaves_no_trace() {
        let (mut operations, now) = (Operations::default(), Instant::now());
        fail(&mut operations, &attempt(Kind::Mount, "a"), now);
        operations.forget_pod("a");
        assert!(operations.failed.is_empty());
        fail(&mut operations, &attempt(Kind::Unstage, ""), now);
        operations.forget("v");
        assert!(operations.failed.is_empty());
    }
}
