//! Decides when a claim gets an event about the condition that an older driver reports.

use std::time::{Duration, Instant};

use crate::model::Text;

/// Interval between events about a lasting condition, well within the hour for which the API server keeps events.
pub const AGAIN: Duration = Duration::from_secs(30 * 60);

/// Reason of an event about an abnormal volume.
pub const ABNORMAL: &str = "VolumeConditionAbnormal";
/// Reason of an event about a volume that has recovered.
pub const NORMAL: &str = "VolumeConditionNormal";
/// Message of that event.
pub const RETURNED: &str = "The Volume returns to the healthy state";

/// The last event about an abnormal volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    /// The driver's message.
    pub message: Text,
    /// The time of the event.
    pub at: Instant,
}

/// The event to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tell {
    /// The volume is abnormal; the driver's message.
    Abnormal(Text),
    /// The volume is healthy again.
    Normal,
}

/// The event to send after the driver's report; `report` is the message if the volume is abnormal. `earlier`: an
/// earlier process sent an event about the abnormal volume.
#[must_use]
pub fn tell(
    report: Option<&Text>,
    told: Option<&Told>,
    earlier: bool,
    now: Instant,
) -> Option<Tell> {
    match (report, told) {
        (Some(message), Some(told)) => {
            let due = *message != told.message || now.duration_since(told.at) >= AGAIN;
            due.then(|| Tell::Abnormal(message.clone()))
        }
        (Some(message), None) => Some(Tell::Abnormal(message.clone())),
        (None, Some(_)) => Some(Tell::Normal),
        (None, None) => earlier.then_some(Tell::Normal),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn h_60_to_65_when_users_are_told() {
        let start = Instant::now();
        let (gone, worse): (Text, Text) = ("disk gone".into(), "worse".into());
        let told = Told {
            message: gone.clone(),
            at: start,
        };
        let abnormal = |message: &Text| Some(Tell::Abnormal(message.clone()));
        let minutes = |minutes: u64| start + Duration::from_secs(60 * minutes);
        let rows = [
            ("H-60", Some(&gone), None, false, 0, abnormal(&gone)),
            ("H-61", Some(&gone), Some(&told), false, 15, None),
            (
                "every 30 min",
                Some(&gone),
                Some(&told),
                false,
                30,
                abnormal(&gone),
            ),
            (
                "H-62",
                Some(&worse),
                Some(&told),
                false,
                1,
                abnormal(&worse),
            ),
            ("H-63", None, Some(&told), false, 1, Some(Tell::Normal)),
            ("H-64", None, None, false, 0, None),
            ("H-65", None, None, true, 0, Some(Tell::Normal)),
            (
                "abnormal still, after a restart",
                Some(&gone),
                None,
                true,
                0,
                abnormal(&gone),
            ),
        ];
        for (row, report, told, earlier, at, expected) in rows {
            assert_eq!(tell(report, told, earlier, minutes(at)), expected, "{row}");
        }
    }
}
