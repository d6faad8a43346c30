//! What the driver's answer says of a snapshot.
//!
//! An answer may lack what a status must have, and create, list and get calls answer alike.

use csi_proto::csi::{Snapshot, VolumeGroupSnapshot};
use jiff::Timestamp;

use super::topology;
use crate::model::{Member, Members, Text};

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

    /// Out of an answer about a group that was to be cut; `None` if it does not name the group and all
    /// of its snapshots, of which there are some.
    #[must_use]
    pub fn cut(answer: Option<VolumeGroupSnapshot>, now: Timestamp) -> Option<Self> {
        let mut answer = answer?;
        let snapshots = std::mem::take(&mut answer.snapshots);
        let members = snapshots.into_iter().map(member);
        let members = members.collect::<Option<Members>>()?;
        let said = Self::looked_up(Some(answer), now)?;
        (!members.is_empty()).then_some(Self { members, ..said })
    }

    /// Out of an answer about a group that was there before, whose snapshots are others' to name; `None`
    /// if it does not name the group.
    #[must_use]
    pub fn looked_up(answer: Option<VolumeGroupSnapshot>, now: Timestamp) -> Option<Self> {
        let answer = answer.filter(|answer| !answer.group_snapshot_id.is_empty())?;
        let created = answer
            .creation_time
            .and_then(|time| of_time(time.seconds, time.nanos));
        Some(Self {
            handle: answer.group_snapshot_id.into(),
            created: created.unwrap_or_else(|| nanos(now)),
            size: None,
            ready: answer.ready_to_use,
            group: None,
            members: Members::default(),
            topology: None,
        })
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

fn member(answer: Snapshot) -> Option<Member> {
    (!answer.snapshot_id.is_empty()).then(|| Member {
        volume: answer.source_volume_id.into(),
        handle: answer.snapshot_id.into(),
        created: answer
            .creation_time
            .and_then(|time| of_time(time.seconds, time.nanos)),
        ready: Some(answer.ready_to_use),
        size: Some(answer.size_bytes).filter(|size| *size > 0),
    })
}

fn of_time(seconds: i64, nanos: i32) -> Option<i64> {
    let whole = seconds.checked_mul(1_000_000_000)?;
    whole.checked_add(nanos.into())
}

fn nanos(now: Timestamp) -> i64 {
    i64::try_from(now.as_nanosecond()).unwrap_or_default()
}
