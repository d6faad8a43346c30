//! Decides whether a claim's health conditions change after the driver's report about its volume.

use crate::model::{Claim, Condition, Conditions, Text, Volume, are_same};

/// The driver's last word about a volume.
#[derive(Clone, Copy, Debug)]
pub enum Seen<'a> {
    /// The driver's report.
    Reported(&'a Conditions),
    /// A complete list does not contain the volume.
    Absent {
        /// Number of complete lists in a row without the volume, including this one.
        lists: u32,
        /// Whether the driver can be queried about a single volume.
        can_get: bool,
    },
}

/// The change to the claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Replace the claim's conditions with the report.
    Write,
    /// Remove the claim's conditions.
    Clear,
    /// Query the driver about the volume.
    Ask,
    /// Leave the claim unchanged.
    Nothing,
}

/// Decides about the claim of `volume`. A claim missing from the cache is bound and has no conditions.
#[must_use]
pub fn decide(claim: Option<&Claim>, volume: &Volume, seen: Seen<'_>) -> Decision {
    if claim.is_some_and(|claim| claim.uid != volume.uid || !claim.bound) {
        return Decision::Nothing;
    }
    let stored = claim.map(|claim| &*claim.stored).unwrap_or_default();
    match seen {
        Seen::Reported(report) if is_same(stored, report) => Decision::Nothing,
        Seen::Reported(report) if report.is_empty() => Decision::Clear,
        Seen::Reported(_) => Decision::Write,
        Seen::Absent { .. } if stored.is_empty() => Decision::Nothing,
        Seen::Absent { can_get: true, .. } => Decision::Ask,
        // Without ControllerGetVolumeHealth, which drivers should implement, the second list confirms the first.
        Seen::Absent { lists: 2.., .. } => Decision::Clear,
        Seen::Absent { .. } => Decision::Nothing,
    }
}

fn is_same(stored: &[(Text, Text)], report: &Conditions) -> bool {
    let stored = stored.iter().map(|(status, reason)| (&**status, &**reason));
    are_same(report.iter().map(Condition::pair), stored)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Uid;
    use crate::testing::{claim, report, volume};

    #[test]
    #[expect(clippy::too_many_lines, reason = "a table")]
    fn h_20_to_30_and_45_what_becomes_of_a_claim() {
        use Decision::{Ask, Clear, Nothing, Write};
        let absent = |lists, can_get| Seen::Absent { lists, can_get };
        let (healthy, a) = (report(&[]), report(&["Degraded A"]));
        let (ab, ba) = (
            report(&["Degraded A", "Degraded B"]),
            report(&["Degraded B", "Degraded A"]),
        );
        let worse = report(&["DataLoss A"]);
        let rows = [
            ("H-20", None, Seen::Reported(&a), Write),
            (
                "healthy, and nothing stored",
                None,
                Seen::Reported(&healthy),
                Nothing,
            ),
            (
                "H-21, H-22",
                Some(claim(&["Degraded A"])),
                Seen::Reported(&a),
                Nothing,
            ),
            (
                "H-23",
                Some(claim(&["Degraded A"])),
                Seen::Reported(&ab),
                Write,
            ),
            (
                "H-24",
                Some(claim(&["Degraded A", "Degraded B"])),
                Seen::Reported(&a),
                Write,
            ),
            (
                "H-25",
                Some(claim(&["Degraded A", "Degraded B"])),
                Seen::Reported(&ba),
                Nothing,
            ),
            (
                "another status",
                Some(claim(&["Degraded A"])),
                Seen::Reported(&worse),
                Write,
            ),
            (
                "H-30",
                Some(claim(&["Degraded A"])),
                Seen::Reported(&healthy),
                Clear,
            ),
            ("H-26", Some(claim(&["Degraded A"])), absent(1, true), Ask),
            (
                "H-28",
                Some(claim(&["Degraded A"])),
                absent(1, false),
                Nothing,
            ),
            (
                "H-28",
                Some(claim(&["Degraded A"])),
                absent(2, false),
                Clear,
            ),
            ("rule 4", None, absent(9, true), Nothing),
            ("rule 4", None, absent(9, false), Nothing),
        ];
        for (row, claim, seen, expected) in rows {
            assert_eq!(
                decide(claim.as_ref(), &volume("1"), seen),
                expected,
                "{row}"
            );
        }
        let another = Claim {
            uid: Uid::new("another"),
            ..claim(&["Degraded A"])
        };
        let lost = Claim {
            bound: false,
            ..claim(&["Degraded A"])
        };
        for special in [another, lost] {
            for seen in [
                Seen::Reported(&healthy),
                Seen::Reported(&ab),
                absent(2, true),
            ] {
                assert_eq!(
                    decide(Some(&special), &volume("1"), seen),
                    Nothing,
                    "H-45 {special:?}"
                );
            }
        }
    }
}
