//! Decks with each kind of fault once, with random details.

use super::{By, Kind, METHODS, Rejected, SNAPSHOT_METHODS, Who};
use crate::dice::Dice;

/// Time that a leader is frozen or cut off: longer than its lease.
const LONGER_THAN_LEASE_MS: (u64, u64) = (12_000, 20_000);

/// Duration of an outage of the API server: longer than any lease and the consequences of its end.
const OUTAGE_MS: (u64, u64) = (17_000, 26_000);

/// Time that objects are refused.
const REJECTED_MS: (u64, u64) = (3_000, 14_000);

/// Faults around volumes.
pub(super) fn volumes(dice: &mut Dice) -> Vec<Kind> {
    let mut all: Vec<_> = { Who::OF_VOLUMES.into_iter() }
        .flat_map(|of| replicas(dice, of))
        .collect();
    let gone = dice.percent(50);
    all.push(Kind::CutWatches { gone });
    let ms = dice.between(500, 5_000);
    all.push(Kind::KillApiServer { ms });
    let ms = dice.between(4_000, 12_000);
    all.push(Kind::PauseApiServer { ms });
    let ms = dice.between(500, 4_000);
    all.push(Kind::KillDriver { ms });
    all.push(Kind::DisconnectDriver);
    for method in METHODS {
        all.extend(answers(dice, method));
    }
    let mean_ms = dice.between(100, 800);
    let ms = dice.between(5_000, 15_000);
    all.push(Kind::Slow { mean_ms, ms });
    all
}

/// Faults around snapshots.
pub(super) fn snapshots(dice: &mut Dice) -> Vec<Kind> {
    let mut all: Vec<_> = [Who::Snapshotter, Who::SnapshotController]
        .into_iter()
        .flat_map(|of| replicas(dice, of))
        .collect();
    for method in SNAPSHOT_METHODS {
        all.extend(answers(dice, method));
    }
    all
}

/// Faults by administrators and what they install: refused objects, deleted Leases.
pub(super) fn administrators(dice: &mut Dice) -> Vec<Kind> {
    let mut all = Vec::new();
    for what in Rejected::ALL {
        let by = dice.pick(&By::ALL).unwrap_or(By::Webhook);
        let ms = dice.between(REJECTED_MS.0, REJECTED_MS.1);
        all.push(Kind::Reject { what, by, ms });
    }
    // Once more for the kinds that all others depend on.
    for what in [Rejected::Leases, Rejected::Volumes, Rejected::Contents] {
        let by = dice.pick(&By::ALL).unwrap_or(By::Forbidden);
        let ms = dice.between(REJECTED_MS.0, REJECTED_MS.1);
        all.push(Kind::Reject { what, by, ms });
    }
    for of in Who::ALL {
        let quota_ms = quota(dice);
        all.push(Kind::DeleteElection { of, quota_ms });
    }
    for _ in 0..3 {
        let quota_ms = quota(dice);
        all.push(Kind::DeleteJournal { quota_ms });
    }
    all
}

/// Outages of the API server that are longer than any lease.
pub(super) fn outages(dice: &mut Dice) -> Vec<Kind> {
    let (low, high) = OUTAGE_MS;
    let killed = dice.between(low, high);
    let paused = dice.between(low, high);
    vec![
        Kind::KillApiServer { ms: killed },
        Kind::PauseApiServer { ms: paused },
    ]
}

/// Time that a quota prevents recreating the Lease: 0 in half of the cases.
fn quota(dice: &mut Dice) -> u64 {
    if dice.percent(50) {
        0
    } else {
        dice.between(REJECTED_MS.0, REJECTED_MS.1)
    }
}

/// Faults of a controller's replicas.
fn replicas(dice: &mut Dice, of: Who) -> Vec<Kind> {
    let (low, high) = LONGER_THAN_LEASE_MS;
    let mut all = vec![
        Kind::KillLeader { of },
        Kind::KillBoth { of },
        Kind::TerminateLeader { of },
    ];
    let ms = dice.between(low, high);
    all.push(Kind::FreezeLeader { of, ms });
    let ms = dice.between(low, high);
    all.push(Kind::BlackHoleLeader { of, ms });
    let times = dice.between(1, 6);
    all.push(Kind::LoseReplies { of, times });
    let code = dice.pick(&[409, 429, 500, 503]).unwrap_or(500);
    let times = dice.between(2, 12);
    all.push(Kind::RefuseRequests { of, code, times });
    all
}

/// Faults of the driver's responses to a method.
fn answers(dice: &mut Dice, method: &str) -> Vec<Kind> {
    let method = method.to_owned();
    let mut all = Vec::new();
    let times = dice.between(1, 5);
    all.push(Kind::LoseAnswers {
        method: method.clone(),
        times,
    });
    let times = dice.between(1, 5);
    all.push(Kind::Hang {
        method: method.clone(),
        times,
    });
    let codes = ["DEADLINE_EXCEEDED", "UNAVAILABLE", "ABORTED"];
    let code = dice.pick(&codes).unwrap_or("UNAVAILABLE").to_owned();
    let times = dice.between(1, 8);
    all.push(Kind::Doubt {
        method: method.clone(),
        code,
        times,
    });
    let codes = ["RESOURCE_EXHAUSTED", "INTERNAL", "UNKNOWN", "ABORTED"];
    let code = dice.pick(&codes).unwrap_or("INTERNAL").to_owned();
    let times = dice.between(1, 8);
    all.push(Kind::Refuse {
        method: method.clone(),
        code,
        times,
    });
    all.push(Kind::CrashAfter { method });
    all
}
