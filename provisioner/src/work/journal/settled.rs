//! When settled entries are removed although nothing else is written.

use std::time::Duration;

use tokio::time::Instant;

/// Longest time until a settled entry is removed.
const LAZILY: Duration = Duration::from_secs(3);

/// Since when the API server has had entries that are settled.
#[derive(Default)]
pub(super) struct Settled {
    since: Option<Instant>,
}

impl Settled {
    /// Whether settled entries have to be removed now, and until when there is nothing to do. `dirty`: the API server
    /// has settled entries.
    pub(super) fn look(&mut self, dirty: bool, now: Instant) -> (bool, Option<Instant>) {
        if !dirty {
            self.since = None;
            return (false, None);
        }
        let until = *self.since.get_or_insert(now) + LAZILY;
        let due = until <= now;
        if due {
            // Entries that are settled from now on have a time of their own.
            self.since = None;
        }
        (due, Some(until))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_settled_is_due_in_time_whatever_else_is_written() {
        let mut settled = Settled::default();
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        assert_eq!(settled.look(false, start), (false, None));
        // Each look stands for one write of another object.
        for second in 1..4 {
            assert_eq!(settled.look(true, at(second)), (false, Some(at(4))));
        }
        assert_eq!(settled.look(true, at(4)), (true, Some(at(4))));
        assert_eq!(settled.look(true, at(5)), (false, Some(at(8))));
        assert_eq!(settled.look(false, at(6)), (false, None));
        assert_eq!(settled.look(true, at(7)), (false, Some(at(10))));
    }
}
