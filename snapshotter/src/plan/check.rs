//! The steps that look up a snapshot which this program has not created.
//!
//! They change nothing in the storage system, and so need no mark.

use csi_proto::csi::{GetSnapshotRequest, GetVolumeGroupSnapshotRequest, ListSnapshotsRequest};

use super::answer::Said;
use super::attempt::{Attempt, End, Next};
use super::outcome::{Problem, Task};
use super::request::{Call, ContentWrite, StatusWrite, Use};
use super::secret::{self, Unnamed};
use super::{Membership, View, patch, topology};
use crate::model::{SecretRef, Source, Text};

/// The next request.
pub(super) fn decide(attempt: &Attempt, view: &View<'_>) -> Next {
    let fails = |problem| Next::Fail(Task::Check, problem);
    if let Some(said) = attempt.said() {
        return report(view, said);
    }
    let Some(handle) = handle(view) else {
        return Next::End(End::Done);
    };
    let (purpose, secret) = match found_secret(view) {
        Ok(found) => found,
        Err(problem) => return fails(problem),
    };
    if let Some(Source::Group(named)) = &view.content.source {
        if named.snapshots.is_empty() {
            return fails(Problem::NoMembers);
        }
        let Some(secrets) = attempt.secrets(secret.as_ref()) else {
            return Next::load(purpose, secret);
        };
        let request = GetVolumeGroupSnapshotRequest {
            group_snapshot_id: handle.to_string(),
            snapshot_ids: named.snapshots.iter().map(ToString::to_string).collect(),
            secrets,
        };
        return Next::call(Call::GetGroup(request.into()));
    }
    let (can, settings) = (view.driver.abilities, view.settings);
    let gets = !can.list && can.get && settings.get_snapshot && !attempt.cannot_get();
    if !can.list && !gets {
        return match view.member {
            Membership::Known(member) => report(view, &Said::of_member(member, view.now)),
            Membership::Absent => Next::End(End::NotReady),
            Membership::Unknown => report(view, &Said::assumed(handle, view.now)),
        };
    }
    let Some(secrets) = attempt.secrets(secret.as_ref()) else {
        return Next::load(purpose, secret);
    };
    if gets {
        let request = GetSnapshotRequest {
            snapshot_id: handle.to_string(),
            secrets,
        };
        return Next::call(Call::Get(request.into()));
    }
    match attempt.next_page() {
        Some(token) => {
            let request = ListSnapshotsRequest {
                snapshot_id: handle.to_string(),
                starting_token: token.to_owned(),
                secrets,
                ..ListSnapshotsRequest::default()
            };
            Next::call(Call::List(request.into()))
        }
        None => fails(Problem::NotFound(handle.clone())),
    }
}

/// The handle to look up: the recorded one, else the pre-provisioned one.
pub(super) fn handle<'a>(view: &View<'a>) -> Option<&'a Text> {
    view.content
        .handle()
        .or(view.content.source.as_ref()?.wished())
}

/// The class's Secret for a pre-provisioned snapshot, the one in the annotations for a member.
fn found_secret(view: &View<'_>) -> Result<(Use, Option<SecretRef>), Problem> {
    let content = view.content;
    let found = content.source.as_ref().and_then(Source::wished);
    if found.is_none() {
        let secret = secret::annotated(content);
        return match secret {
            Ok(secret) => Ok((Use::Member, secret)),
            Err(Unnamed) => Err(Problem::Unnamed),
        };
    }
    let Some(named) = &content.class else {
        return Ok((Use::List, None));
    };
    let class = view.class.ok_or_else(|| Problem::NoClass(named.clone()))?;
    let secret = secret::listing(content.kind(), &class.parameters, view.name);
    Ok((Use::List, secret.map_err(Problem::Unclear)?))
}

/// Writes the driver's report.
pub(super) fn report(view: &View<'_>, said: &Said) -> Next {
    if let Some(topology) = topology::news(view, said) {
        let body = patch::topology(view.content, topology);
        return Next::ask(view.patch(ContentWrite::Topology(Task::Check), body));
    }
    match patch::report(view.content, said) {
        Some(body) => Next::ask(view.patch_status(StatusWrite::Report(Task::Check), body)),
        None if said.ready => Next::End(End::Done),
        None => Next::End(End::NotReady),
    }
}
