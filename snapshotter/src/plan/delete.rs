//! The steps that delete a snapshot and let its content go.
//!
//! Nothing here may be undone: the policy is the content's at that moment, and the content stays
//! until the snapshot is gone.

use csi_proto::csi::DeleteSnapshotRequest;

use super::attempt::{Attempt, End, Next};
use super::goal::deletes;
use super::outcome::{Problem, Task};
use super::secret::{self, Unnamed};
use super::step::{Purpose, StatusWrite, Step, Write};
use super::{View, patch};

/// The next step.
pub(super) fn decide(attempt: &Attempt, view: &View<'_>) -> Next {
    let content = view.content;
    let deleted = attempt.has_deleted();
    if let Some(handle) = deletes(content).filter(|_| !deleted) {
        let secret = match secret::annotated(content) {
            Ok(secret) => secret,
            Err(Unnamed) => return Next::Fail(Task::Delete, Problem::Unnamed),
        };
        let Some(secrets) = attempt.secrets(secret.as_ref()) else {
            return Next::load(Purpose::Delete, secret);
        };
        let request = DeleteSnapshotRequest {
            snapshot_id: handle.to_string(),
            secrets,
        };
        return Next::step(Step::Delete(Box::new(request)));
    }
    if let Some(body) = patch::clear(content).filter(|_| deleted) {
        return Next::step(Step::PatchStatus(StatusWrite::Clear, body));
    }
    if content.is_protected() {
        Next::step(Step::Patch(Write::Release, patch::release(content)))
    } else {
        Next::End(End::Done)
    }
}
