//! Values for tests of decisions.

use crate::model::{Claim, Condition, Conditions, Status, Text, Uid, Volume};

/// PersistentVolume `pvN` with handle `hN`, bound to the claim `ns/cN`.
pub(crate) fn volume(number: &str) -> Volume {
    Volume {
        driver: "test.csi.driver".into(),
        handle: format!("h{number}").into(),
        claim: format!("ns/c{number}").into(),
        uid: Uid::new(&format!("uid-{number}")),
    }
}

fn parts(condition: &str) -> (&str, &str) {
    condition.split_once(' ').unwrap()
}

/// The claim `ns/c1` with conditions, each `Status Reason`.
pub(crate) fn claim(stored: &[&str]) -> Claim {
    let stored = stored.iter().map(|one| parts(one));
    Claim {
        uid: Uid::new("uid-1"),
        volume: "pv1".into(),
        bound: true,
        stored: stored
            .map(|(status, reason)| (Text::from(status), Text::from(reason)))
            .collect(),
    }
}

/// A report of these conditions, each `Status Reason`, with the message `m`.
pub(crate) fn report(conditions: &[&str]) -> Conditions {
    let all = [Status::DataLoss, Status::Inaccessible, Status::Degraded];
    let conditions = conditions.iter().map(|one| parts(one));
    conditions
        .map(|(status, reason)| Condition {
            status: all.into_iter().find(|one| one.name() == status).unwrap(),
            reason: reason.into(),
            message: "m".into(),
        })
        .collect()
}
