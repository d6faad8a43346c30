//! The events that wait to be written, and their order.
//!
//! Pure. A storage system that is slow or refuses requests causes many events, most of which report
//! that an operation began: warnings neither wait behind these nor are dropped for them.

use std::collections::{BTreeMap, HashMap};

use super::correlate::Now;
use super::id::Id;
use super::{Event, Reference, Severity};

/// Maximum number of waiting events per severity; client-go has this limit for all together.
const MOST: usize = 1000;

/// From this number of waiting events on, an object's older normal event is dropped for a newer one.
const PRESSED: usize = 100;

/// One waiting event.
#[derive(Debug)]
pub(super) struct Waiting {
    /// Id of the event's object.
    pub(super) object: Id,
    pub(super) event: Event,
    /// When it was recorded.
    pub(super) now: Now,
}

/// All waiting events, in the order in which they came.
#[derive(Debug, Default)]
pub(super) struct Backlog {
    warnings: BTreeMap<u64, Waiting>,
    normals: BTreeMap<u64, Waiting>,
    /// Each object's last event in `normals`.
    last: HashMap<Id, u64>,
    came: u64,
}

impl Backlog {
    /// Adds an event and returns whether there was room. An older normal event of the same object may
    /// be dropped for it.
    pub(super) fn put(&mut self, event: Event, now: Now) -> bool {
        let object = object(&event.about);
        if self.normals.len() >= PRESSED
            && let Some(older) = self.last.remove(&object)
        {
            self.normals.remove(&older);
        }
        self.came += 1;
        let lane = match event.severity {
            Severity::Warning => &mut self.warnings,
            Severity::Normal => &mut self.normals,
        };
        if lane.len() >= MOST {
            return false;
        }
        if event.severity == Severity::Normal {
            self.last.insert(object, self.came);
        }
        let waiting = Waiting { object, event, now };
        lane.insert(self.came, waiting);
        true
    }

    /// Takes the next event of an object that is not `busy`: an object's events are written in order,
    /// so that the last one written is the last that happened.
    pub(super) fn take(&mut self, busy: &[Id]) -> Option<Waiting> {
        let free = |one: &Waiting| !busy.contains(&one.object);
        let urgent = self.warnings.iter().find(|(_, one)| free(one));
        let Some((urgent, object)) = urgent.map(|(number, one)| (*number, one.object)) else {
            let mut normals = self.normals.iter();
            let next = normals
                .find(|(_, one)| free(one))
                .map(|(number, _)| *number)?;
            return self.take_normal(next);
        };
        let mut before = self.normals.range(..urgent);
        match before.find(|(_, one)| one.object == object) {
            Some((&earlier, _)) => self.take_normal(earlier),
            None => self.warnings.remove(&urgent),
        }
    }

    fn take_normal(&mut self, number: u64) -> Option<Waiting> {
        let next = self.normals.remove(&number)?;
        if self.last.get(&next.object) == Some(&number) {
            self.last.remove(&next.object);
        }
        Some(next)
    }
}

fn object(about: &Reference) -> Id {
    Id::of(&[
        &about.api_version,
        &about.kind,
        &about.namespace,
        &about.name,
        &about.uid,
    ])
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    fn put(backlog: &mut Backlog, name: &str, severity: Severity, reason: &'static str) -> bool {
        let event = Event {
            about: Reference {
                name: name.to_owned(),
                ..Reference::default()
            },
            severity,
            reason,
            message: String::new(),
        };
        let now = Now {
            wall: jiff::Timestamp::UNIX_EPOCH,
            instant: Instant::now(),
        };
        backlog.put(event, now)
    }

    fn take(backlog: &mut Backlog) -> Option<(String, &'static str)> {
        let next = backlog.take(&[])?;
        Some((next.event.about.name, next.event.reason))
    }

    fn all(backlog: &mut Backlog) -> Vec<(String, &'static str)> {
        std::iter::from_fn(|| take(backlog)).collect()
    }

    #[test]
    fn fp_8_a_warning_is_neither_behind_nor_lost_for_what_is_normal() {
        let mut backlog = Backlog::default();
        for number in 0..5000 {
            let kept = put(
                &mut backlog,
                &format!("c{number}"),
                Severity::Normal,
                "Begun",
            );
            assert_eq!(kept, number < MOST);
        }
        assert!(put(&mut backlog, "c7000", Severity::Warning, "Failed"));
        assert!(!put(&mut backlog, "c7001", Severity::Normal, "Begun"));
        assert_eq!(take(&mut backlog), Some(("c7000".to_owned(), "Failed")));
        assert_eq!(take(&mut backlog), Some(("c0".to_owned(), "Begun")));
    }

    #[test]
    fn fp_8_what_has_begun_gives_way_to_how_it_ended_when_many_wait() {
        let mut backlog = Backlog::default();
        let count = MOST / 2;
        for number in 0..count {
            put(
                &mut backlog,
                &format!("c{number}"),
                Severity::Normal,
                "Begun",
            );
        }
        assert!(put(&mut backlog, "c1", Severity::Warning, "Failed"));
        for number in 2..count {
            assert!(put(
                &mut backlog,
                &format!("c{number}"),
                Severity::Normal,
                "Done"
            ));
        }
        let left = all(&mut backlog);
        assert_eq!(left[0], ("c1".to_owned(), "Failed"));
        assert_eq!(
            left[1],
            ("c0".to_owned(), "Begun"),
            "nothing else is known of it"
        );
        assert!(left[2..].iter().all(|(_, reason)| *reason == "Done"));
        assert_eq!(left.len(), count);
    }

    #[test]
    fn when_few_wait_everything_is_told_in_order() {
        let mut backlog = Backlog::default();
        for reason in ["Begun", "Going on", "Done"] {
            put(&mut backlog, "c0", Severity::Normal, reason);
        }
        let reasons: Vec<_> = { all(&mut backlog).into_iter() }
            .map(|(_, reason)| reason)
            .collect();
        assert_eq!(reasons, ["Begun", "Going on", "Done"]);
    }

    #[test]
    fn a_warning_takes_what_came_before_it_along() {
        let mut backlog = Backlog::default();
        put(&mut backlog, "c0", Severity::Normal, "Begun");
        for (severity, reason) in [
            (Severity::Normal, "Begun"),
            (Severity::Warning, "Failed"),
            (Severity::Normal, "Done"),
        ] {
            put(&mut backlog, "c1", severity, reason);
        }
        let left = all(&mut backlog);
        let want = [
            ("c1", "Begun"),
            ("c1", "Failed"),
            ("c0", "Begun"),
            ("c1", "Done"),
        ];
        let want = want.map(|(name, reason)| (name.to_owned(), reason));
        assert_eq!(left, want);
    }

    #[test]
    fn a_full_lane_takes_the_end_of_what_waits_there() {
        let mut backlog = Backlog::default();
        for number in 0..MOST {
            put(
                &mut backlog,
                &format!("c{number}"),
                Severity::Normal,
                "Begun",
            );
        }
        assert!(put(&mut backlog, "c3", Severity::Normal, "Done"));
        assert_eq!(backlog.normals.len(), MOST);
        assert_eq!(all(&mut backlog).last().unwrap().1, "Done");
        assert!(
            backlog.last.is_empty(),
            "nothing is kept of what was written"
        );
    }

    #[test]
    fn two_of_one_object_are_not_written_at_once() {
        let mut backlog = Backlog::default();
        put(&mut backlog, "c0", Severity::Normal, "Begun");
        put(&mut backlog, "c0", Severity::Normal, "Done");
        put(&mut backlog, "c1", Severity::Normal, "Begun");
        let first = backlog.take(&[]).unwrap();
        let second = backlog.take(&[first.object]).unwrap();
        assert_eq!(second.event.about.name, "c1");
        assert!(backlog.take(&[first.object, second.object]).is_none());
        assert_eq!(take(&mut backlog), Some(("c0".to_owned(), "Done")));
    }

    #[test]
    fn warnings_are_bounded_too() {
        let mut backlog = Backlog::default();
        let kept = (0..5000).filter(|number| {
            put(
                &mut backlog,
                &format!("c{number}"),
                Severity::Warning,
                "Failed",
            )
        });
        assert_eq!(kept.count(), MOST);
    }
}
