//! When a waiting queue is worth a log line.
//!
//! Separate, because an operator must learn of a backlog without being flooded: once when the
//! longest wait passes half a minute, and again each time it has doubled.

use std::time::Duration;

/// The wait that is worth the first line.
pub const NOTEWORTHY: Duration = Duration::from_secs(30);

/// What was said so far about one lane.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Watch {
    next: Option<Duration>,
}

/// A line to be logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Report {
    /// Work has waited this long.
    Waiting(Duration),
    /// The wait is back to normal.
    Cleared,
}

impl Watch {
    /// The line to log now that the work which has waited longest has waited `oldest`.
    pub fn observe(&mut self, oldest: Duration) -> Option<Report> {
        let next = self.next.unwrap_or(NOTEWORTHY);
        if oldest >= next {
            let passed = std::iter::successors(Some(next), |next| next.checked_mul(2));
            self.next = passed.into_iter().find(|next| *next > oldest);
            return Some(Report::Waiting(oldest));
        }
        if self.next.is_some() && oldest < NOTEWORTHY {
            self.next = None;
            return Some(Report::Cleared);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_at_half_a_minute_and_at_each_doubling() {
        let mut watch = Watch::default();
        let waits = [
            0, 10, 29, 30, 31, 59, 60, 61, 119, 130, 200, 1000, 1001, 40, 29, 5, 31,
        ];
        let lines: Vec<(u64, bool)> = waits
            .into_iter()
            .filter_map(|wait| match watch.observe(Duration::from_secs(wait))? {
                Report::Waiting(_) => Some((wait, true)),
                Report::Cleared => Some((wait, false)),
            })
            .collect();
        assert_eq!(
            lines,
            [
                (30, true),
                (60, true),
                (130, true),
                (1000, true),
                (29, false),
                (31, true)
            ]
        );
    }
}
