//! Turns a driver's report into health conditions that the API server accepts, whatever the report contains.

use std::collections::HashSet;

use csi_proto::csi::VolumeHealthErrorType;
use csi_proto::csi::volume_health::VolumeHealthEntry;
use sidecar::text::truncated;
use sidecar::visible::visible;

use crate::model::{Condition, Conditions, Status, Text};

/// The API server's limits for `status.healthStatus`, in entries and bytes.
pub const MOST: usize = 16;
const LONGEST_REASON: usize = 256;
const LONGEST_MESSAGE: usize = 1024;

/// A report in the form that claims can store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Normalised {
    /// The conditions.
    pub conditions: Conditions,
    /// Status numbers that this build does not know; these conditions are dropped.
    pub unknown: Vec<i32>,
    /// Number of conditions dropped because a claim cannot hold more.
    pub surplus: usize,
}

/// Normalises a driver's report.
#[must_use]
pub fn normalise(report: &[VolumeHealthEntry]) -> Normalised {
    let mut conditions: Vec<Condition> = Vec::new();
    let mut unknown = Vec::new();
    // An answer may contain hundreds of thousands of entries.
    let mut pairs = HashSet::new();
    for entry in report {
        let Some(status) = status(entry.status) else {
            unknown.push(entry.status);
            continue;
        };
        let reason = reason(&entry.reason);
        if pairs.insert((status, reason.clone())) {
            let message = message(&entry.message);
            conditions.push(Condition {
                status,
                reason,
                message,
            });
        }
    }
    let surplus = conditions.len().saturating_sub(MOST);
    if surplus > 0 {
        conditions.sort_by_key(|condition| condition.status);
        conditions.truncate(MOST);
    }
    Normalised {
        conditions: conditions.into(),
        unknown,
        surplus,
    }
}

fn status(number: i32) -> Option<Status> {
    match VolumeHealthErrorType::try_from(number) {
        Ok(VolumeHealthErrorType::Degraded) => Some(Status::Degraded),
        Ok(VolumeHealthErrorType::Inaccessible) => Some(Status::Inaccessible),
        Ok(VolumeHealthErrorType::DataLoss) => Some(Status::DataLoss),
        Ok(VolumeHealthErrorType::UnknownVolumeHealthType) | Err(_) => None,
    }
}

/// Rewrites a reason to the API server's format: a letter, then letters, digits and `_,:`, not ending in `,` or `:`. A
/// bad reason never drops a condition, since that would hide a fault.
fn reason(text: &str) -> Text {
    if text.is_empty() {
        return "Unspecified".into();
    }
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"_,:".contains(&byte);
    let mut reason = String::new();
    if !text.starts_with(|first: char| first.is_ascii_alphabetic()) {
        reason.push('R');
    }
    let bytes = text
        .bytes()
        .map(|byte| if allowed(byte) { char::from(byte) } else { '_' });
    reason.extend(bytes);
    reason.truncate(LONGEST_REASON);
    if reason.ends_with([',', ':']) {
        reason.pop();
        reason.push('_');
    }
    reason.into()
}

/// Shortens and escapes a message so that the API server accepts it.
#[must_use]
pub fn message(text: &str) -> Text {
    truncated(&visible(text), LONGEST_MESSAGE).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn entry(status: i32, reason: &str, message: &str) -> VolumeHealthEntry {
        VolumeHealthEntry {
            status,
            reason: reason.into(),
            message: message.into(),
        }
    }

    fn pairs(report: &[VolumeHealthEntry]) -> Vec<String> {
        let conditions = normalise(report).conditions;
        let pairs = conditions.iter();
        pairs
            .map(|one| format!("{} {}", one.status.name(), one.reason))
            .collect()
    }

    #[test]
    fn h_35_numbers_of_statuses() {
        let report = [entry(1, "A", ""), entry(2, "B", ""), entry(3, "C", "")];
        assert_eq!(
            pairs(&report),
            ["Degraded A", "Inaccessible B", "DataLoss C"]
        );
    }

    #[test]
    fn h_36_and_37_unknown_statuses_are_left_out() {
        let found = normalise(&[
            entry(0, "Zero", ""),
            entry(1, "A", ""),
            entry(7, "Seven", ""),
        ]);
        assert_eq!(found.unknown, [0, 7]);
        assert_eq!(found.conditions.len(), 1);
        let found = normalise(&[entry(7, "Seven", "")]);
        assert_eq!((found.conditions.len(), found.unknown), (0, vec![7]));
    }

    #[test]
    fn h_38_reasons_that_the_api_server_accepts() {
        let long = "x".repeat(300);
        for (reason, expected) in [
            ("", "Unspecified"),
            ("has space", "has_space"),
            ("a-b", "a_b"),
            ("9x", "R9x"),
            ("_x", "R_x"),
            (":", "R_"),
            ("a,b:", "a,b_"),
            ("é", "R__"),
            (long.as_str(), &long[..256]),
        ] {
            let found = pairs(&[entry(1, reason, "")]);
            assert_eq!(found, [format!("Degraded {expected}")], "{reason:?}");
        }
    }

    #[test]
    fn h_39_messages_are_cut_at_a_characters_end() {
        let cut = |text: &str| {
            normalise(&[entry(1, "A", text)]).conditions[0]
                .message
                .to_string()
        };
        assert_eq!(cut(&"m".repeat(1500)), "m".repeat(1024));
        let edge = "é".repeat(600);
        assert_eq!(cut(&format!("x{edge}")).len(), 1023);
        assert_eq!(cut("a\x1b[2Jb"), "a\\x1b[2Jb");
    }

    #[test]
    fn h_40_the_worst_sixteen_and_each_pair_once() {
        let mut report: Vec<_> = (0..18).map(|n| entry(1, &format!("D{n}"), "")).collect();
        report.push(entry(2, "I", ""));
        report.push(entry(3, "L", ""));
        let found = normalise(&report);
        assert_eq!((found.conditions.len(), found.surplus), (16, 4));
        let pairs = pairs(&report);
        assert_eq!(pairs[..3], ["DataLoss L", "Inaccessible I", "Degraded D0"]);
        assert_eq!(pairs[15], "Degraded D13");
        let twice = normalise(&[
            entry(1, "A", "first"),
            entry(1, "A", "second"),
            entry(2, "A", ""),
        ]);
        assert_eq!(twice.conditions.len(), 2);
        assert_eq!(&*twice.conditions[0].message, "first");
    }

    #[test]
    fn an_answer_of_many_conditions_is_read_in_no_time() {
        let report: Vec<_> = (0..200_000)
            .map(|n| entry(1, &format!("D{n}"), ""))
            .collect();
        let start = std::time::Instant::now();
        let found = normalise(&report);
        assert_eq!((found.conditions.len(), found.surplus), (16, 199_984));
        // Comparing each with each would take minutes.
        assert!(start.elapsed() < std::time::Duration::from_secs(30));
    }

    proptest! {
        #[test]
        fn h_38_no_reason_and_no_message_is_ever_refused(text in ".*", status in 1..4_i32) {
            let found = normalise(&[entry(status, &text, &text)]);
            let [condition] = &*found.conditions else { panic!("one condition") };
            let reason = condition.reason.as_bytes();
            prop_assert!((1..=256).contains(&reason.len()));
            prop_assert!(reason[0].is_ascii_alphabetic());
            prop_assert!(reason.iter().all(|byte| byte.is_ascii_alphanumeric() || b"_,:".contains(byte)));
            prop_assert!(!b",:".contains(reason.last().unwrap()));
            prop_assert!(condition.message.len() <= 1024);
        }
    }
}
