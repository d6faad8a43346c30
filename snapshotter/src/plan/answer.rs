//! What the driver's answer says of a snapshot.
//!
//! An answer may lack what a status must have, and create, list and get calls answer alike.

use std::collections::BTreeSet;

use csi_proto::csi::{Snapshot, VolumeGroupSnapshot};
use jiff::Timestamp;

use super::outcome::Problem;
use super::topology;
use crate::model::{Content, Member, Members, Text};

/// What is known of a snapshot or of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Said {
    /// The driver's id.
    pub handle: Text,
    /// When it was cut, nanoseconds since 1970.
    pub created: i64,
    /// Bytes that a volume restored from it needs, if the driver says so.
    pub size: Option<i64>,
    /// Whether it can be restored from.
    pub ready: bool,
    /// The driver's id of the group that it was cut with.
    pub group: Option<Text>,
    /// Snapshots of a group that was cut.
    pub members: Members,
    /// From where volumes restored from it can be reached, as it is written; `None` is everywhere.
    pub topology: Option<Text>,
}

impl Said {
    /// Out of an answer; `None` if it names no snapshot.
    #[must_use]
    pub fn new(answer: Option<Snapshot>, now: Timestamp) -> Option<Self> {
        let answer = answer.filter(|answer| !answer.snapshot_id.is_empty())?;
        let created = answer
            .creation_time
            .and_then(|time| of_time(time.seconds, time.nanos));
        let group = answer.group_snapshot_id;
        let topology = topology::written(answer.accessible_topology);
        Some(Self {
            handle: answer.snapshot_id.into(),
            created: created.unwrap_or_else(|| nanos(now)),
            size: Some(answer.size_bytes).filter(|size| *size > 0),
            ready: answer.ready_to_use,
            group: (!group.is_empty()).then(|| group.into()),
            members: Members::default(),
            topology,
        })
    }

    /// Out of an answer about a group that was to be cut of these volumes: it has one snapshot of each.
    ///
    /// # Errors
    /// It does not name the group and its snapshots, or is about others than were asked for: whoever
    /// deleted what it names would leave the rest.
    pub fn cut(
        answer: Option<VolumeGroupSnapshot>,
        volumes: &[String],
        now: Timestamp,
    ) -> Result<Self, Problem> {
        let mut answer = answer.ok_or(Problem::NoId)?;
        let snapshots = std::mem::take(&mut answer.snapshots);
        let named = snapshots.iter().all(|one| !one.snapshot_id.is_empty());
        if answer.group_snapshot_id.is_empty() || snapshots.is_empty() || !named {
            return Err(Problem::NoId);
        }
        if let Some(what) = unfit(&answer.group_snapshot_id, &snapshots, volumes) {
            return Err(Problem::unfit(&answer.group_snapshot_id, &what));
        }
        let members = snapshots.into_iter().map(member).collect();
        Ok(Self {
            members,
            ..Self::group(answer, now)
        })
    }

    /// Out of an answer about the group `handle` of the snapshots `asked`, which others name. Drivers that
    /// name none have not contradicted; and they may spell the handles in another way, all or none of those
    /// of the snapshots.
    ///
    /// # Errors
    /// It does not name the group, or is about other snapshots.
    pub fn looked_up(
        answer: Option<VolumeGroupSnapshot>,
        (handle, asked): (&str, &[String]),
        now: Timestamp,
    ) -> Result<Self, Problem> {
        let answer = answer.filter(|answer| !answer.group_snapshot_id.is_empty());
        let answer = answer.ok_or(Problem::NoId)?;
        let told: BTreeSet<&String> = { answer.snapshots.iter() }
            .map(|one| &one.snapshot_id)
            .collect();
        let more = told.iter().find(|id| !asked.contains(id));
        let fewer = asked.iter().find(|id| !told.contains(id));
        let spelled = told.len() == asked.len() && !asked.iter().any(|id| told.contains(id));
        let what = match (more, fewer.filter(|_| !told.is_empty())) {
            (Some(_), Some(_)) if spelled => return Ok(Self::group(answer, now)),
            (Some(id), _) => format!("the snapshot {id}, which was not asked for"),
            (None, Some(id)) => format!("no snapshot {id}"),
            (None, None) => return Ok(Self::group(answer, now)),
        };
        Err(Problem::unfit(handle, &what))
    }

    fn group(answer: VolumeGroupSnapshot, now: Timestamp) -> Self {
        let created = answer
            .creation_time
            .and_then(|time| of_time(time.seconds, time.nanos));
        Self {
            handle: answer.group_snapshot_id.into(),
            created: created.unwrap_or_else(|| nanos(now)),
            size: None,
            ready: answer.ready_to_use,
            group: None,
            members: Members::default(),
            topology: None,
        }
    }

    /// How it names another snapshot or group, or other members, than the status does after the same
    /// request: what is ready then is not what was cut.
    #[must_use]
    pub fn contradicts(&self, content: &Content) -> Option<String> {
        let status = content.status.as_ref()?;
        let named = status.handle.as_ref();
        let named = named.map(|had| (had, &self.handle));
        let members = status.members.iter().filter_map(|had| {
            let mut said = self.members.iter();
            let said = said.find(|said| said.volume == had.volume)?;
            Some((&had.handle, &said.handle))
        });
        let mut both = named.into_iter().chain(members);
        let (had, said) = both.find(|(had, said)| had != said)?;
        Some(format!(
            "the driver answered with {said}, and with {had} before"
        ))
    }

    /// What the driver said of a member with its group.
    #[must_use]
    pub fn of_member(member: &Member, now: Timestamp) -> Self {
        let assumed = Self::assumed(&member.handle, now);
        Self {
            created: member.created.unwrap_or(assumed.created),
            size: member.size,
            ready: member.ready == Some(true),
            ..assumed
        }
    }

    /// What is assumed where the driver cannot be asked.
    #[must_use]
    pub fn assumed(handle: &Text, now: Timestamp) -> Self {
        Self {
            handle: handle.clone(),
            created: nanos(now),
            size: None,
            ready: true,
            group: None,
            members: Members::default(),
            topology: None,
        }
    }
}

impl Problem {
    fn unfit(group: &str, what: &str) -> Self {
        Self::Unfit(format!(
            "the driver answered about the group {group} with {what}"
        ))
    }
}

/// What is wrong with the snapshots of a group that was to be cut of these volumes, if anything is.
fn unfit(group: &str, snapshots: &[Snapshot], volumes: &[String]) -> Option<String> {
    let (mut ids, mut of) = (BTreeSet::new(), BTreeSet::new());
    for one in snapshots {
        let (id, volume) = (&one.snapshot_id, &one.source_volume_id);
        let other = &one.group_snapshot_id;
        if !other.is_empty() && other != group {
            return Some(format!("the snapshot {id} of another group, {other}"));
        }
        if !ids.insert(id) {
            return Some(format!("the snapshot {id} more than once"));
        }
        if !volumes.contains(volume) {
            let what = format!("the snapshot {id} of the volume {volume}, which was not asked for");
            return Some(what);
        }
        if !of.insert(volume) {
            return Some(format!("several snapshots of the volume {volume}"));
        }
    }
    let missing = volumes.iter().find(|volume| !of.contains(volume));
    missing.map(|volume| format!("no snapshot of the volume {volume}"))
}

fn member(answer: Snapshot) -> Member {
    Member {
        volume: answer.source_volume_id.into(),
        handle: answer.snapshot_id.into(),
        created: answer
            .creation_time
            .and_then(|time| of_time(time.seconds, time.nanos)),
        ready: Some(answer.ready_to_use),
        size: Some(answer.size_bytes).filter(|size| *size > 0),
    }
}

fn of_time(seconds: i64, nanos: i32) -> Option<i64> {
    let whole = seconds.checked_mul(1_000_000_000)?;
    whole.checked_add(nanos.into())
}

fn nanos(now: Timestamp) -> i64 {
    i64::try_from(now.as_nanosecond()).unwrap_or_default()
}
