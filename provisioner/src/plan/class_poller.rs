//! When to poll objects that claims wait for and that are not watched.
//!
//! Limits the requests for waiting claims, however many they are and however long they wait. A claim whose
//! VolumeAttributesClass is missing must not wait for its back-off, and the permissions of this program include `get`
//! for these classes at best.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use crate::model::Text;

/// Interval of calls of [`ClassPoller::due`] while claims wait.
pub const PACE: Duration = Duration::from_secs(1);

/// Longest time between two reads of the same object.
const LONGEST: Duration = Duration::from_secs(15);

/// An object is read every second until claims have waited this many seconds for it.
const PAUSE_DIVISOR: u32 = 16;

/// Greatest number of objects per call.
const AT_ONCE: usize = 8;

/// When each object was read, and is read next.
#[derive(Debug, Default)]
pub struct ClassPoller {
    looks: HashMap<Text, Look>,
}

#[derive(Debug)]
struct Look {
    since: Instant,
    next: Instant,
}

impl ClassPoller {
    /// The names of the objects to read now, at most a few; those first that have been due longest. `awaited` are all
    /// names that claims wait for.
    #[must_use]
    pub fn due(&mut self, awaited: impl IntoIterator<Item = Text>, now: Instant) -> Vec<Text> {
        let awaited: HashSet<Text> = awaited.into_iter().collect();
        self.looks.retain(|name, _| awaited.contains(name));
        for name in awaited {
            let next = now + PACE;
            let look = Look { since: now, next };
            self.looks.entry(name).or_insert(look);
        }
        let due = self.looks.iter_mut().filter(|(_, look)| look.next <= now);
        let mut due: Vec<(&Text, &mut Look)> = due.collect();
        due.sort_unstable_by_key(|(_, look)| look.next);
        due.truncate(AT_ONCE);
        due.into_iter()
            .map(|(name, look)| {
                look.next = now + pace(now.saturating_duration_since(look.since));
                name.clone()
            })
            .collect()
    }
}

/// The pause after a read of an object, after this time of waiting.
fn pace(waited: Duration) -> Duration {
    (waited / PAUSE_DIVISOR).clamp(PACE, LONGEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Seconds at which each name is read.
    fn looks(awaited: impl Fn(u64) -> Vec<&'static str>, until: u64) -> Vec<(u64, String)> {
        let began = Instant::now();
        let mut class_poller = ClassPoller::default();
        let mut looks = Vec::new();
        for second in 0..until {
            let now = began + Duration::from_secs(second);
            let names = awaited(second).into_iter().map(Text::from);
            let due = class_poller.due(names, now);
            assert!(due.len() <= AT_ONCE);
            looks.extend(due.iter().map(|name| (second, name.to_string())));
        }
        looks
    }

    fn seconds(looks: Vec<(u64, String)>) -> Vec<u64> {
        looks.into_iter().map(|(second, _)| second).collect()
    }

    #[test]
    fn looks_are_frequent_at_first_and_rare_later() {
        let looks = seconds(looks(|_| vec!["gold"], 3600));
        assert_eq!(looks[..16], (1..=16).collect::<Vec<_>>()[..]);
        let apart: Vec<u64> = looks.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert!(apart.is_sorted(), "{apart:?}");
        assert_eq!(apart.last(), Some(&15));
        assert!(looks.len() < 320, "{}", looks.len());
    }

    #[test]
    fn nothing_is_looked_for_that_nobody_waits_for() {
        let awaited = |second| match second {
            0..5 | 10.. => vec!["gold"],
            _ => vec![],
        };
        let looks = seconds(looks(awaited, 13));
        assert_eq!(looks, [1, 2, 3, 4, 11, 12], "and it begins anew");
    }

    #[test]
    fn many_names_take_turns() {
        let names: Vec<&'static str> = (0..100_u32)
            .map(|number| &*format!("class{number}").leak())
            .collect();
        let looks = looks(|_| names.clone(), 60);
        for name in &names {
            let count = looks.iter().filter(|(_, looked)| looked == name).count();
            assert!((4..=5).contains(&count), "{name}: {count}");
        }
    }
}
