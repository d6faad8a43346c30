//! The script that looks up a snapshot which this program has not created.
//!
//! It changes nothing in the storage system, and so needs no mark.

use csi_proto::csi::{GetSnapshotRequest, GetVolumeGroupSnapshotRequest, ListSnapshotsRequest};
use sidecar::controller::{CallError, script};
use tonic::Code;

use super::answer::Report;
use super::ask::Ask;
use super::attempt::{End, Flow};
use super::outcome::{Problem, Task};
use super::request::{Call, Called, Get};
use super::secret::{self, Unnamed};
use super::{Membership, View};
use crate::model::{SecretRef, Source};

/// Pages after which a list counts as endless.
const PAGES: usize = 10_000;

pub(super) fn check(ask: Ask<'_>) -> Flow<End> {
    let (view, content) = (ask.view, ask.view.content);
    if let Some(report) = ask.attempt.report() {
        return ask.record(Task::Check, &report);
    }
    let Some(handle) = content.handle().or(content.wished()) else {
        return Ok(End::Done);
    };
    let fails = |problem| ask.fails(Task::Check, problem);
    let secret = named_secret(view).map_err(fails)?;
    if let Some(Source::Group(named)) = &content.source {
        if named.snapshots.is_empty() {
            return Ok(fails(Problem::NoMembers));
        }
        let request = GetVolumeGroupSnapshotRequest {
            group_snapshot_id: handle.to_string(),
            snapshot_ids: named.snapshots.iter().map(ToString::to_string).collect(),
            secrets: ask.secret(Task::Check, secret)?,
        };
        return script::call(Call::GetGroup(view.call(request)));
    }
    let can = view.driver.abilities;
    if can.list {
        let Some(page) = next_page(ask) else {
            return Ok(fails(Problem::NotFound(handle.clone())));
        };
        let request = ListSnapshotsRequest {
            snapshot_id: handle.to_string(),
            starting_token: page.to_owned(),
            secrets: ask.secret(Task::Check, secret)?,
            ..ListSnapshotsRequest::default()
        };
        return script::call(Call::List(view.call(request)));
    }
    if can.get && view.settings.get_snapshot && !cannot_get(ask) {
        let request = GetSnapshotRequest {
            snapshot_id: handle.to_string(),
            secrets: ask.secret(Task::Check, secret)?,
        };
        return script::call(Call::Get(view.call(request)));
    }
    match view.member {
        Membership::Known(member) => ask.record(Task::Check, &Report::of_member(member, view.now)),
        Membership::Absent => Ok(End::NotReady),
        Membership::Unknown => ask.record(Task::Check, &Report::assumed(handle, view.now)),
    }
}

/// The token of the list's next page; `None` if there is none, or the list does not end.
fn next_page(ask: Ask<'_>) -> Option<&str> {
    let (mut count, mut next) = (0, Some(""));
    for called in ask.log().calls() {
        let Called::List(call, Ok(page)) = called else {
            continue;
        };
        count += 1;
        let token = &*page.next_token;
        let repeats = token.is_empty() || *token == *call.starting_token;
        next = Some(token).filter(|_| !repeats && count <= PAGES);
    }
    next
}

/// Whether the driver lacks a call that it announces.
fn cannot_get(ask: Ask<'_>) -> bool {
    let called = ask.log().called::<Get>();
    let error = called.and_then(|(_, result)| result.err());
    matches!(error, Some(CallError::Failed(error)) if error.code == Code::Unimplemented)
}

/// The class's Secret for a pre-provisioned snapshot, the one in the annotations for a member.
fn named_secret(view: &View<'_>) -> Result<Option<SecretRef>, Problem> {
    let content = view.content;
    if content.wished().is_none() {
        return secret::annotated(content).map_err(|Unnamed| Problem::Unnamed);
    }
    let Some(named) = &content.class else {
        return Ok(None);
    };
    let class = view.class.ok_or_else(|| Problem::NoClass(named.clone()))?;
    let secret = secret::listing(content.kind(), &class.parameters, view.name);
    secret.map_err(Problem::Unclear)
}
