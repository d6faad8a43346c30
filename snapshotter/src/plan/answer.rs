//! Interprets the driver's response about a snapshot.
//!
//! A response may lack fields that the status needs; create, list and get responses have the same content.

use std::collections::BTreeSet;

use csi_proto::csi::list_snapshots_response::Entry;
use csi_proto::csi::{ListSnapshotsRequest, ListSnapshotsResponse, Snapshot, VolumeGroupSnapshot};
use jiff::Timestamp;
use sidecar::controller::{CallError, Calls as _};
use tonic::Code;

use super::outcome::Problem;
use super::request::{Call, Called};
use super::topology;
use crate::model::{Content, Member, Members, Text};

/// The driver's report about a snapshot or a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The snapshot ID or the group snapshot ID.
    pub handle: Text,
    /// Creation time, nanoseconds since 1970.
    pub created: i64,
    /// Least size of a restored volume in bytes, if the driver reports it.
    pub size: Option<i64>,
    /// Whether it is ready to use.
    pub ready: bool,
    /// ID of the group that it belongs to.
    pub group: Option<Text>,
    /// Snapshots of a created group.
    pub members: Members,
    /// Accessible topology in the format of the annotation; `None` means everywhere.
    pub topology: Option<Text>,
}

impl Report {
    /// Reads a response; `None` without a snapshot ID.
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

    /// Reads the response to a group snapshot of these volumes: it needs exactly one snapshot of each.
    ///
    /// # Errors
    /// The response lacks the group or snapshots, or names others: deleting only the named ones would leave
    /// the rest behind.
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

    /// Reads the response about the group `handle` with the snapshots `asked`. A driver may name no
    /// snapshots, and it may spell the handles differently, if it does so for all of them.
    ///
    /// # Errors
    /// The response lacks the group, or names other snapshots.
    pub fn looked_up(
        answer: Option<VolumeGroupSnapshot>,
        (handle, asked): (&str, &[String]),
        now: Timestamp,
    ) -> Result<Self, Problem> {
        let answer = answer.filter(|answer| !answer.group_snapshot_id.is_empty());
        let answer = answer.ok_or(Problem::NoId)?;
        let named: BTreeSet<&String> = { answer.snapshots.iter() }
            .map(|one| &one.snapshot_id)
            .collect();
        let more = named.iter().find(|id| !asked.contains(id));
        let fewer = asked.iter().find(|id| !named.contains(id));
        let spelled = named.len() == asked.len() && !asked.iter().any(|id| named.contains(id));
        let what = match (more, fewer.filter(|_| !named.is_empty())) {
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

    /// How it differs in handle or members from the status, after the same request: then the ready snapshot
    /// is not the recorded one.
    #[must_use]
    pub fn contradicts(&self, content: &Content) -> Option<String> {
        let status = content.status.as_ref()?;
        let named = status.handle.as_ref();
        let named = named.map(|had| (had, &self.handle));
        let members = status.members.iter().filter_map(|had| {
            let mut members = self.members.iter();
            let now = members.find(|now| now.volume == had.volume)?;
            Some((&had.handle, &now.handle))
        });
        let mut both = named.into_iter().chain(members);
        let (had, now) = both.find(|(had, now)| had != now)?;
        Some(format!(
            "the driver answered with {now}, and with {had} before"
        ))
    }

    /// The driver's report about a member, from its report about the group.
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

    /// The assumed report about a snapshot, for a driver without a call to look it up.
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

impl Called {
    /// The driver's report; `None` if it has made none of use.
    #[must_use]
    pub fn report(&self) -> Option<Report> {
        self.response()?.ok()
    }

    /// Why the call has not come to its end.
    #[must_use]
    pub fn problem(&self) -> Option<Problem> {
        if let Some(Err(problem)) = self.response() {
            return Some(problem);
        }
        match (self, Call::outcome(self).1?) {
            (Self::Get(call, _), CallError::Failed(error)) if error.code == Code::NotFound => {
                Some(Problem::NotFound(call.snapshot_id.as_str().into()))
            }
            // It is looked up in another way.
            (Self::Get(..), CallError::Failed(error)) if error.code == Code::Unimplemented => None,
            (_, error) => Some(error.into()),
        }
    }

    /// How the response reads; `None` if it has nothing about the snapshot.
    fn response(&self) -> Option<Result<Report, Problem>> {
        let of = |answer: Option<Snapshot>, now| Report::new(answer, now).ok_or(Problem::NoId);
        match self {
            Self::Create(call, Ok(response)) => Some(of(response.snapshot.clone(), call.about)),
            Self::Get(call, Ok(response)) => Some(of(response.snapshot.clone(), call.about)),
            Self::List(call, Ok(page)) => {
                let found = found(call, page)?;
                Report::new(Some(found.clone()), call.about).map(Ok)
            }
            Self::CreateGroup(call, Ok(response)) => {
                let answer = response.group_snapshot.clone();
                Some(Report::cut(answer, &call.source_volume_ids, call.about))
            }
            Self::GetGroup(call, Ok(response)) => {
                let asked = (&*call.group_snapshot_id, &*call.snapshot_ids);
                let answer = response.group_snapshot.clone();
                Some(Report::looked_up(answer, asked, call.about))
            }
            Self::Create(_, Err(_))
            | Self::Get(_, Err(_))
            | Self::List(_, Err(_))
            | Self::CreateGroup(_, Err(_))
            | Self::GetGroup(_, Err(_))
            | Self::Delete(..)
            | Self::DeleteGroup(..) => None,
        }
    }
}

/// The snapshot that the page was asked for. A driver that returns exactly one snapshot for a look-up means that one,
/// however it spells the handle.
fn found<'a>(
    request: &ListSnapshotsRequest,
    page: &'a ListSnapshotsResponse,
) -> Option<&'a Snapshot> {
    let snapshots = page
        .entries
        .iter()
        .filter_map(|entry| entry.snapshot.as_ref());
    let all: Vec<&Snapshot> = snapshots.collect();
    let named = all
        .iter()
        .find(|one| one.snapshot_id == request.snapshot_id);
    let whole = request.starting_token.is_empty() && page.next_token.is_empty();
    match (named, &*all) {
        (Some(named), _) => Some(*named),
        (None, [alone]) if whole => Some(*alone),
        (None, _) => None,
    }
}

/// Drops all snapshots of a page but the one that it was asked for: a driver may list thousands.
pub(super) fn narrow(request: &ListSnapshotsRequest, page: &mut ListSnapshotsResponse) {
    let found = found(request, page).cloned();
    page.entries = found
        .into_iter()
        .map(|one| Entry {
            snapshot: Some(one),
        })
        .collect();
}

impl Problem {
    fn unfit(group: &str, what: &str) -> Self {
        Self::Unfit(format!(
            "the driver answered about the group {group} with {what}"
        ))
    }
}

/// The first mismatch between the snapshots of a new group and these volumes; `None` if they match.
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
