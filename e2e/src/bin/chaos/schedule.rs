//! What goes wrong and when: made from a seed, kept in a file, so that a run can be repeated.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::dice::Dice;

/// Nothing goes wrong until the first claims are there, and nothing new shortly before the end.
const HEAD_MS: u64 = 5_000;
const TAIL_MS: u64 = 10_000;

/// Between one fault and the next. Faults that last overlap with those that follow.
const GAP_MS: (u64, u64) = (2_000, 5_000);

/// How long a leader is stopped or cut off: longer than its lease.
const LONGER_THAN_LEASE_MS: (u64, u64) = (12_000, 20_000);

/// One of the controllers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Who {
    /// csi-provisioner.
    Provisioner,
    /// csi-attacher.
    Attacher,
    /// csi-resizer.
    Resizer,
}

impl Who {
    /// All of them.
    pub(crate) const ALL: [Self; 3] = [Self::Provisioner, Self::Attacher, Self::Resizer];

    /// Name of the program.
    pub(crate) fn program(self) -> &'static str {
        match self {
            Self::Provisioner => "csi-provisioner",
            Self::Attacher => "csi-attacher",
            Self::Resizer => "csi-resizer",
        }
    }
}

/// Something that goes wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "fault", deny_unknown_fields)]
pub(crate) enum Kind {
    /// SIGKILL for the leader.
    KillLeader { of: Who },
    /// SIGKILL for both replicas.
    KillBoth { of: Who },
    /// SIGSTOP for the leader, SIGCONT after a while.
    FreezeLeader { of: Who, ms: u64 },
    /// SIGTERM for the leader.
    TerminateLeader { of: Who },
    /// Nothing passes between the leader and the API server for a while, and nobody is told.
    BlackHoleLeader { of: Who, ms: u64 },
    /// The API server carries out so many writes of a controller, and their answers are lost.
    LoseReplies { of: Who, times: u64 },
    /// The API server answers so many requests of a controller with an error.
    RefuseRequests { of: Who, code: u16, times: u64 },
    /// All connections to the API server are closed, and with them all watches; `gone`: those that
    /// are begun next are told that what they ask for is too old.
    CutWatches { gone: bool },
    /// SIGKILL for the API server, which is started again after a while.
    KillApiServer { ms: u64 },
    /// SIGSTOP for the API server for a while.
    PauseApiServer { ms: u64 },
    /// SIGKILL for the driver, which is started again after a while.
    KillDriver { ms: u64 },
    /// The driver closes all its connections.
    DisconnectDriver,
    /// The driver does the work of so many calls and answers none of them: it closes the connection.
    LoseAnswers { method: String, times: u64 },
    /// The driver does the work of so many calls and their callers wait until their deadline.
    Hang { method: String, times: u64 },
    /// The driver does the work of so many calls and answers with a code that leaves it open.
    Doubt {
        method: String,
        code: String,
        times: u64,
    },
    /// The driver refuses so many calls and does nothing.
    Refuse {
        method: String,
        code: String,
        times: u64,
    },
    /// The driver does the work of one call and dies.
    CrashAfter { method: String },
    /// All calls take longer for a while.
    Slow { mean_ms: u64, ms: u64 },
}

impl Kind {
    /// The kind alone, for tables.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::KillLeader { .. } => "leader killed",
            Self::KillBoth { .. } => "both replicas killed",
            Self::FreezeLeader { .. } => "leader frozen for longer than its lease",
            Self::TerminateLeader { .. } => "leader terminated",
            Self::BlackHoleLeader { .. } => "leader cut off from the API server without a word",
            Self::LoseReplies { .. } => "replies of the API server lost after the write",
            Self::RefuseRequests { .. } => "requests refused by the API server",
            Self::CutWatches { .. } => "all watches cut",
            Self::KillApiServer { .. } => "API server killed",
            Self::PauseApiServer { .. } => "API server paused",
            Self::KillDriver { .. } => "driver killed",
            Self::DisconnectDriver => "driver's connections closed",
            Self::LoseAnswers { .. } => "driver's answers lost after the work",
            Self::Hang { .. } => "driver's answers withheld after the work",
            Self::Doubt { .. } => "driver's answers in doubt after the work",
            Self::Refuse { .. } => "calls refused by the driver",
            Self::CrashAfter { .. } => "driver crashes after the work",
            Self::Slow { .. } => "driver slow",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())?;
        let fields = serde_json::to_value(self).unwrap_or_default();
        let fields = fields.as_object().into_iter().flatten();
        for (name, value) in fields.filter(|(name, _)| *name != "fault") {
            write!(f, ", {name} {}", value.to_string().trim_matches('"'))?;
        }
        Ok(())
    }
}

/// One fault of a schedule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Fault {
    /// Milliseconds after the beginning of the run.
    pub(crate) at_ms: u64,
    /// What happens.
    #[serde(flatten)]
    pub(crate) kind: Kind,
}

/// All that decides how a run goes, but for what the machine does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Schedule {
    /// What everything else was made from; also what the claims are made from.
    pub(crate) seed: u64,
    /// How long claims are created and faults happen.
    pub(crate) seconds: u64,
    /// How many claims.
    pub(crate) claims: u64,
    /// By time.
    pub(crate) faults: Vec<Fault>,
}

impl Schedule {
    /// The schedule of a seed. Every kind of fault comes once before one of them comes again.
    pub(crate) fn new(seed: u64, seconds: u64, claims: u64) -> Self {
        let mut dice = Dice::new(seed, "faults");
        let mut faults = Vec::new();
        let mut deck = Vec::new();
        let mut at_ms = HEAD_MS;
        while at_ms + TAIL_MS < seconds * 1000 {
            if deck.is_empty() {
                let all = kinds(&mut dice);
                deck = dice.shuffle(all);
            }
            if let Some(kind) = deck.pop() {
                faults.push(Fault { at_ms, kind });
            }
            at_ms += dice.between(GAP_MS.0, GAP_MS.1);
        }
        Self {
            seed,
            seconds,
            claims,
            faults,
        }
    }
}

/// One of each, with details that differ from one time to the next.
fn kinds(dice: &mut Dice) -> Vec<Kind> {
    let (low, high) = LONGER_THAN_LEASE_MS;
    let mut all = Vec::new();
    for of in Who::ALL {
        all.push(Kind::KillLeader { of });
        all.push(Kind::KillBoth { of });
        all.push(Kind::TerminateLeader { of });
        let ms = dice.between(low, high);
        all.push(Kind::FreezeLeader { of, ms });
        let ms = dice.between(low, high);
        all.push(Kind::BlackHoleLeader { of, ms });
        let times = dice.between(1, 6);
        all.push(Kind::LoseReplies { of, times });
        let code = dice.pick(&[409, 429, 500, 503]).unwrap_or(500);
        let times = dice.between(2, 12);
        all.push(Kind::RefuseRequests { of, code, times });
    }
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

/// What a driver can do to calls of a method.
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

/// What the controllers have the driver do.
pub(crate) const METHODS: [&str; 5] = [
    "CreateVolume",
    "DeleteVolume",
    "ControllerPublishVolume",
    "ControllerUnpublishVolume",
    "ControllerExpandVolume",
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_seed_gives_one_schedule_and_another_seed_another() {
        assert_eq!(Schedule::new(7, 480, 1000), Schedule::new(7, 480, 1000));
        let faults = |seed| Schedule::new(seed, 480, 1000).faults;
        assert_ne!(faults(7), faults(8));
    }

    #[test]
    fn faults_come_in_order_within_the_run() {
        for seed in 0..20 {
            let schedule = Schedule::new(seed, 120, 100);
            let times: Vec<_> = schedule.faults.iter().map(|it| it.at_ms).collect();
            assert!(times.is_sorted() && times.len() > 20, "{times:?}");
            assert!(times.iter().all(|at| (5_000..110_000).contains(at)));
        }
    }

    #[test]
    fn eight_minutes_have_every_kind_for_every_controller() {
        let faults = Schedule::new(1, 480, 1000).faults;
        let kinds: BTreeSet<_> = faults.iter().map(|it| it.kind.name()).collect();
        let all = super::kinds(&mut Dice::new(0, ""));
        let all: BTreeSet<_> = all.iter().map(Kind::name).collect();
        assert_eq!(kinds, all);
        for seed in 0..20 {
            let faults = Schedule::new(seed, 480, 1000).faults;
            for of in Who::ALL {
                let killed = |fault: &Fault| fault.kind == Kind::KillBoth { of };
                let frozen = |fault: &Fault| matches!(&fault.kind, Kind::FreezeLeader { of: it, ms } if *it == of && *ms > 8_000);
                assert!(faults.iter().any(killed), "seed {seed}, {of:?}");
                assert!(faults.iter().any(frozen), "seed {seed}, {of:?}");
            }
        }
    }

    #[test]
    fn a_file_says_the_same_as_the_seed() {
        let schedule = Schedule::new(3, 60, 10);
        let file = serde_json::to_string_pretty(&schedule).unwrap();
        assert_eq!(serde_json::from_str::<Schedule>(&file).unwrap(), schedule);
        let wrong = file.replacen("\"fault\"", "\"vault\"", 1);
        assert!(serde_json::from_str::<Schedule>(&wrong).is_err());
    }
}
