//! How mutants misread answers.

use csi_proto::csi::{CreateSnapshotResponse, CreateVolumeGroupSnapshotResponse, Snapshot};
use sidecar::controller::CallError;
use tonic::Code;

use super::Mutant;
use crate::model::Text;
use crate::plan::outcome::RpcError;
use crate::plan::request::{Called, Reply};
use crate::sim::answer::{group, make_up};

impl Mutant {
    /// The reply as the mutant understands it.
    pub(in crate::sim) fn hears(self, reply: Reply, record: Option<&Text>) -> Reply {
        match reply {
            Reply::Secret(secret, Err(_)) if self == Self::AsksWithoutSecret => {
                Reply::Secret(secret, Ok([].into()))
            }
            Reply::Call(called, took) => Reply::Call(self.hears_call(called, record), took),
            reply => reply,
        }
    }

    fn hears_call(self, called: Called, record: Option<&Text>) -> Called {
        match called {
            Called::Create(call, result) => {
                let result = match self.hears_error(result) {
                    Err(None) => Ok(ghost()),
                    Err(Some(error)) => Err(error),
                    Ok(mut response) => {
                        if let Some(snapshot) = &mut response.snapshot {
                            self.hears_snapshot(snapshot, record);
                        }
                        Ok(response)
                    }
                };
                Called::Create(call, result)
            }
            Called::CreateGroup(call, result) => {
                let result = match self.hears_error(result) {
                    Err(None) => Ok(ghosts()),
                    Err(Some(error)) => Err(error),
                    Ok(mut response) => {
                        if let Some(group) = &mut response.group_snapshot {
                            match self {
                                Self::CompletesAnswers => make_up(group),
                                Self::TakesCutForReady => group.ready_to_use = true,
                                _ => {}
                            }
                        }
                        Ok(response)
                    }
                };
                Called::CreateGroup(call, result)
            }
            Called::Delete(call, Err(CallError::Failed(_))) if self == Self::BelievesDeleted => {
                Called::Delete(call, Ok(Default::default()))
            }
            Called::DeleteGroup(call, Err(CallError::Failed(_)))
                if self == Self::BelievesDeleted =>
            {
                Called::DeleteGroup(call, Ok(Default::default()))
            }
            Called::List(call, Ok(mut page)) => {
                let asked = &call.snapshot_id;
                match self {
                    Self::TakesOnlyEqual => page.entries.retain(|entry| {
                        let mut snapshot = entry.snapshot.iter();
                        snapshot.any(|one| one.snapshot_id == *asked)
                    }),
                    Self::TakesFirstEntry => {
                        let first = page.entries.first_mut();
                        if let Some(one) = first.and_then(|entry| entry.snapshot.as_mut()) {
                            one.snapshot_id.clone_from(asked);
                        }
                    }
                    _ => {}
                }
                Called::List(call, Ok(page))
            }
            called => called,
        }
    }

    /// The error of a call for a snapshot, as the mutant understands it; `None` if it assumes success.
    fn hears_error<T>(self, result: Result<T, CallError>) -> Result<T, Option<CallError>> {
        let refused = |error: RpcError| {
            Some(CallError::Failed(RpcError {
                code: Code::Internal,
                ..error
            }))
        };
        result.map_err(|error| match (self, error) {
            (Self::BelievesTimeout, CallError::Failed(error))
                if error.code == Code::DeadlineExceeded =>
            {
                None
            }
            (Self::TakesTimeoutForFinal, CallError::Failed(error))
                if error.code == Code::DeadlineExceeded =>
            {
                refused(error)
            }
            (Self::TakesUnavailableForFinal, CallError::Failed(error))
                if error.code == Code::Unavailable =>
            {
                refused(error)
            }
            (Self::TakesUnsentForFinal, CallError::Unreachable(error)) => refused(error),
            (_, error) => Some(error),
        })
    }

    fn hears_snapshot(self, snapshot: &mut Snapshot, record: Option<&Text>) {
        match (self, record) {
            (Self::TakesCutForReady, _) => snapshot.ready_to_use = true,
            (Self::TakesOther, Some(record)) => snapshot.snapshot_id = record.to_string(),
            (Self::OverhearsTopology, _) => snapshot.accessible_topology.clear(),
            _ => {}
        }
    }
}

/// The response that a mutant invents when the driver did not answer.
fn ghost() -> CreateSnapshotResponse {
    let snapshot = Some(Snapshot {
        snapshot_id: "ghost".into(),
        ready_to_use: true,
        ..Snapshot::default()
    });
    CreateSnapshotResponse { snapshot }
}

fn ghosts() -> CreateVolumeGroupSnapshotResponse {
    let group_snapshot = Some(group("ghost", 0, true));
    CreateVolumeGroupSnapshotResponse { group_snapshot }
}
