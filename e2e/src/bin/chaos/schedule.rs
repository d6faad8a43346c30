//! The schedule of faults: made from a seed and kept in a file, so that a run can be repeated.

mod decks;

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::dice::Dice;

/// No faults before the first claims exist, and no new ones shortly before the end.
const HEAD_MS: u64 = 5_000;
const TAIL_MS: u64 = 10_000;

/// Number of claims for each lifetime of snapshots or static objects.
const CLAIMS_PER_LIFETIME: u64 = 2;

/// A shorter outage does not outlast a lease.
const OUTAGE_MS: u64 = 15_000;

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
    /// csi-snapshotter.
    Snapshotter,
    /// snapshot-controller, which needs no driver.
    SnapshotController,
}

impl Who {
    /// All controllers.
    pub(crate) const ALL: [Self; 5] = [
        Self::Provisioner,
        Self::Attacher,
        Self::Resizer,
        Self::Snapshotter,
        Self::SnapshotController,
    ];

    /// The controllers beside a driver.
    pub(crate) const OF_DRIVER: [Self; 4] = [
        Self::Provisioner,
        Self::Attacher,
        Self::Resizer,
        Self::Snapshotter,
    ];

    /// The controllers that do not handle snapshots.
    pub(crate) const OF_VOLUMES: [Self; 3] = [Self::Provisioner, Self::Attacher, Self::Resizer];

    /// Name of the program.
    pub(crate) fn program(self) -> &'static str {
        match self {
            Self::Provisioner => "csi-provisioner",
            Self::Attacher => "csi-attacher",
            Self::Resizer => "csi-resizer",
            Self::Snapshotter => "csi-snapshotter",
            Self::SnapshotController => "snapshot-controller",
        }
    }
}

/// Objects that the API server refuses from the programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Rejected {
    /// Leases, of elections and of the journal.
    Leases,
    /// PersistentVolumes.
    Volumes,
    /// Claims and their statuses.
    Claims,
    /// VolumeAttachments and their statuses.
    Attachments,
    /// VolumeSnapshots and their statuses.
    Snapshots,
    /// VolumeSnapshotContents and their statuses.
    Contents,
    /// Events.
    Events,
}

impl Rejected {
    /// All kinds of objects.
    pub(crate) const ALL: [Self; 7] = [
        Self::Leases,
        Self::Volumes,
        Self::Claims,
        Self::Attachments,
        Self::Snapshots,
        Self::Contents,
        Self::Events,
    ];

    /// API group and resource.
    pub(crate) fn resource(self) -> (&'static str, &'static str) {
        match self {
            Self::Leases => ("coordination.k8s.io", "leases"),
            Self::Volumes => ("", "persistentvolumes"),
            Self::Claims => ("", "persistentvolumeclaims"),
            Self::Attachments => ("storage.k8s.io", "volumeattachments"),
            Self::Snapshots => ("snapshot.storage.k8s.io", "volumesnapshots"),
            Self::Contents => ("snapshot.storage.k8s.io", "volumesnapshotcontents"),
            Self::Events => ("", "events"),
        }
    }
}

/// The reason for the API server's refusals.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum By {
    /// A ValidatingAdmissionPolicy, with 403.
    Forbidden,
    /// A ValidatingAdmissionPolicy, with 422.
    Invalid,
    /// A webhook without a server: 500.
    Webhook,
}

impl By {
    /// All of them.
    pub(crate) const ALL: [Self; 3] = [Self::Forbidden, Self::Invalid, Self::Webhook];
}

/// A kind of fault.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "fault", deny_unknown_fields)]
pub(crate) enum Kind {
    /// SIGKILL the leader.
    KillLeader { of: Who },
    /// SIGKILL both replicas.
    KillBoth { of: Who },
    /// SIGSTOP the leader, SIGCONT after a while.
    FreezeLeader { of: Who, ms: u64 },
    /// SIGTERM the leader.
    TerminateLeader { of: Who },
    /// Silently drop everything between the leader and the API server for a while.
    BlackHoleLeader { of: Who, ms: u64 },
    /// The API server applies this many writes of a controller, but their responses are lost.
    LoseReplies { of: Who, times: u64 },
    /// The API server answers this many requests of a controller with an error.
    RefuseRequests { of: Who, code: u16, times: u64 },
    /// Close all connections to the API server, and with them all watches; `gone`: the next watches get the error that
    /// their version is too old.
    CutWatches { gone: bool },
    /// SIGKILL the API server, restart it after a while.
    KillApiServer { ms: u64 },
    /// SIGSTOP the API server for a while.
    PauseApiServer { ms: u64 },
    /// SIGKILL the driver, restart it after a while.
    KillDriver { ms: u64 },
    /// The driver closes all its connections.
    DisconnectDriver,
    /// The driver carries out this many calls and closes the connection instead of responding.
    LoseAnswers { method: String, times: u64 },
    /// The driver carries out this many calls, but their callers wait until the deadline.
    Hang { method: String, times: u64 },
    /// The driver carries out this many calls and returns a code that leaves their outcome unknown.
    Doubt {
        method: String,
        code: String,
        times: u64,
    },
    /// The driver refuses this many calls without effect.
    Refuse {
        method: String,
        code: String,
        times: u64,
    },
    /// The driver carries out one call and dies.
    CrashAfter { method: String },
    /// All calls take longer for a while.
    Slow { mean_ms: u64, ms: u64 },
    /// The API server refuses the programs' writes to one kind of objects for a while.
    Reject { what: Rejected, by: By, ms: u64 },
    /// Delete the Lease of an election; a quota prevents recreating it for a while.
    DeleteElection { of: Who, quota_ms: u64 },
    /// Delete the Leases of the provisioner's journal, also with a quota.
    DeleteJournal { quota_ms: u64 },
}

impl Kind {
    /// The kind without details, for tables.
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
            Self::KillApiServer { ms } if *ms > OUTAGE_MS => {
                "API server killed, and away for longer than the leases"
            }
            Self::KillApiServer { .. } => "API server killed",
            Self::PauseApiServer { ms } if *ms > OUTAGE_MS => {
                "API server paused for longer than the leases"
            }
            Self::PauseApiServer { .. } => "API server paused",
            Self::KillDriver { .. } => "driver killed",
            Self::DisconnectDriver => "driver's connections closed",
            Self::LoseAnswers { .. } => "driver's answers lost after the work",
            Self::Hang { .. } => "driver's answers withheld after the work",
            Self::Doubt { .. } => "driver's answers in doubt after the work",
            Self::Refuse { .. } => "calls refused by the driver",
            Self::CrashAfter { .. } => "driver crashes after the work",
            Self::Slow { .. } => "driver slow",
            Self::Reject { by, .. } if *by == By::Webhook => {
                "writes refused since a webhook does not answer"
            }
            Self::Reject { .. } => "writes refused by an admission policy",
            Self::DeleteElection { quota_ms: 0, .. } => "Lease of an election deleted",
            Self::DeleteElection { .. } => "Lease of an election deleted under a quota of none",
            Self::DeleteJournal { quota_ms: 0 } => "Leases of the journal deleted",
            Self::DeleteJournal { .. } => "Leases of the journal deleted under a quota of none",
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
    /// Milliseconds since the start of the run.
    pub(crate) at_ms: u64,
    /// The fault.
    #[serde(flatten)]
    pub(crate) kind: Kind,
}

/// Everything that decides a run, apart from the machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Schedule {
    /// The seed of everything else, including the claims.
    pub(crate) seed: u64,
    /// Seconds during which claims are created and faults happen.
    pub(crate) seconds: u64,
    /// Number of claims.
    pub(crate) claims: u64,
    /// Number of lifetimes of snapshots, and of volumes and snapshots that administrators make; 0 in files from before
    /// they existed.
    #[serde(default, alias = "lives")]
    pub(crate) lifetimes: u64,
    /// The faults, by time.
    pub(crate) faults: Vec<Fault>,
}

/// An independent sequence of faults: name, the deck of faults, and least and greatest time between two, in
/// milliseconds.
type Stream = (&'static str, fn(&mut Dice) -> Vec<Kind>, (u64, u64));

/// All sequences. Faults with a duration overlap with later ones.
const STREAMS: [Stream; 4] = [
    ("faults", decks::volumes, (2_000, 5_000)),
    ("snapshots", decks::snapshots, (3_000, 7_000)),
    ("administrators", decks::administrators, (5_000, 9_000)),
    ("outages", decks::outages, (35_000, 55_000)),
];

impl Schedule {
    /// The schedule of a seed. In each stream every kind of fault happens once before any is repeated.
    pub(crate) fn new(seed: u64, seconds: u64, claims: u64) -> Self {
        let mut faults: Vec<_> = { STREAMS.iter() }
            .flat_map(|stream| faults(stream, seed, seconds))
            .collect();
        faults.sort_by_key(|fault| fault.at_ms);
        Self {
            seed,
            seconds,
            claims,
            lifetimes: claims / CLAIMS_PER_LIFETIME,
            faults,
        }
    }
}

fn faults((purpose, kinds, gap): &Stream, seed: u64, seconds: u64) -> Vec<Fault> {
    let mut dice = Dice::new(seed, purpose);
    let mut faults = Vec::new();
    let mut deck = Vec::new();
    // A rare stream need not begin at once.
    let mut at_ms = HEAD_MS.max(gap.0 / 2);
    while at_ms + TAIL_MS < seconds * 1000 {
        if deck.is_empty() {
            let all = kinds(&mut dice);
            deck = dice.shuffle(all);
        }
        if let Some(kind) = deck.pop() {
            faults.push(Fault { at_ms, kind });
        }
        at_ms += dice.between(gap.0, gap.1);
    }
    faults
}

/// CSI methods that the controllers call for volumes.
pub(crate) const METHODS: [&str; 5] = [
    "CreateVolume",
    "DeleteVolume",
    "ControllerPublishVolume",
    "ControllerUnpublishVolume",
    "ControllerExpandVolume",
];

/// CSI methods that the controllers call for snapshots.
pub(crate) const SNAPSHOT_METHODS: [&str; 3] =
    ["CreateSnapshot", "DeleteSnapshot", "ListSnapshots"];

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
        let mut dice = Dice::new(0, "");
        let all: Vec<_> = { STREAMS.iter() }
            .flat_map(|(_, kinds, _)| kinds(&mut dice))
            .collect();
        let all: BTreeSet<_> = all.iter().map(Kind::name).collect();
        assert_eq!(kinds, all);
        for seed in 0..20 {
            let faults = Schedule::new(seed, 480, 1000).faults;
            for of in Who::OF_VOLUMES {
                let killed = |fault: &Fault| fault.kind == Kind::KillBoth { of };
                let frozen = |fault: &Fault| matches!(&fault.kind, Kind::FreezeLeader { of: it, ms } if *it == of && *ms > 8_000);
                assert!(faults.iter().any(killed), "seed {seed}, {of:?}");
                assert!(faults.iter().any(frozen), "seed {seed}, {of:?}");
            }
        }
    }

    #[test]
    fn two_minutes_have_outages_longer_than_the_leases_and_what_administrators_do() {
        for seed in 0..20 {
            let faults = Schedule::new(seed, 120, 100).faults;
            let count = |chosen: fn(&Kind) -> bool| {
                faults.iter().filter(|fault| chosen(&fault.kind)).count()
            };
            let outages = count(
                |it| matches!(it, Kind::KillApiServer { ms } | Kind::PauseApiServer { ms } if *ms >= 17_000),
            );
            assert!(outages >= 2, "seed {seed}: {outages}");
            assert!(count(|it| matches!(it, Kind::Reject { .. })) >= 3);
            let deleted =
                |it: &Kind| matches!(it, Kind::DeleteElection { .. } | Kind::DeleteJournal { .. });
            assert!(count(deleted) >= 3, "seed {seed}");
        }
    }

    /// New streams are additional: the faults of an old seed keep their times.
    #[test]
    fn a_file_from_before_snapshots_is_read_and_a_seed_has_its_faults_still() {
        let file = include_str!("schedule/seed-7-30s-10.json");
        let before: Schedule = serde_json::from_str(file).unwrap();
        assert_eq!(before.lifetimes, 0);
        let now = Schedule::new(7, 30, 10);
        assert!(before.faults.len() > 4);
        assert!(before.faults.iter().all(|fault| now.faults.contains(fault)));
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
