//! How faulty csi-snapshotters misread replies.

use csi_proto::csi::{CreateSnapshotResponse, ListSnapshotsResponse, Snapshot};
use sidecar::controller::CallError;
use sidecar::text::Text;
use snapshotter::model::Content;
use snapshotter::plan::outcome::RpcError;
use snapshotter::plan::request::{Called, Reply};
use tonic::Code;

use super::Mutant;

impl Mutant {
    /// The reply as a faulty snapshotter understands it.
    pub(in super::super) fn snapshotter_hears(
        self,
        reply: Reply,
        content: Option<&Content>,
    ) -> Reply {
        match reply {
            Reply::Secret(secret, Err(_)) if self == Self::AsksWithoutSecret => {
                Reply::Secret(secret, Ok([].into()))
            }
            Reply::Call(called, took) => Reply::Call(self.hears_call(called, content), took),
            reply => reply,
        }
    }

    fn hears_call(self, called: Called, content: Option<&Content>) -> Called {
        match called {
            Called::Create(call, Ok(mut response)) => {
                if let Some(snapshot) = &mut response.snapshot {
                    self.hears_cut(snapshot, content.and_then(Content::handle));
                }
                Called::Create(call, Ok(response))
            }
            Called::Create(call, Err(error)) => Called::Create(call, self.hears_error(error)),
            Called::Delete(call, Err(CallError::Failed(_))) if self == Self::BelievesDeleted => {
                Called::Delete(call, Ok(Default::default()))
            }
            Called::List(call, Ok(mut page)) => {
                self.hears_page(&call.snapshot_id, &mut page);
                Called::List(call, Ok(page))
            }
            called => self.hears_of_group(called, content),
        }
    }

    /// The error of a call for a snapshot, or the response that it invents.
    fn hears_error(self, error: CallError) -> Result<CreateSnapshotResponse, CallError> {
        let refused = |error: RpcError| {
            let code = Code::Internal;
            Err(CallError::Failed(RpcError { code, ..error }))
        };
        match (self, error) {
            (Self::BelievesTimeout, CallError::Failed(error))
                if error.code == Code::DeadlineExceeded =>
            {
                Ok(ghost())
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
            (_, error) => Err(error),
        }
    }

    fn hears_cut(self, snapshot: &mut Snapshot, record: Option<&Text>) {
        match (self, record) {
            (Self::TakesCutForReady, _) => snapshot.ready_to_use = true,
            (Self::TakesOther, Some(record)) => snapshot.snapshot_id = record.to_string(),
            (Self::OverhearsTopology, _) => snapshot.accessible_topology.clear(),
            (_, _) => {}
        }
    }

    fn hears_page(self, asked: &str, page: &mut ListSnapshotsResponse) {
        let entries = &mut page.entries;
        match self {
            Self::TakesOnlyEqual => entries.retain(|entry| {
                let mut snapshot = entry.snapshot.iter();
                snapshot.any(|one| one.snapshot_id == asked)
            }),
            Self::TakesFirstEntry => {
                let first = entries.first_mut();
                if let Some(one) = first.and_then(|entry| entry.snapshot.as_mut()) {
                    one.snapshot_id = asked.to_owned();
                }
            }
            _ => {}
        }
    }
}

/// The response that it invents when the driver did not answer.
fn ghost() -> CreateSnapshotResponse {
    let snapshot = Some(Snapshot {
        snapshot_id: "ghost".into(),
        ready_to_use: true,
        ..Snapshot::default()
    });
    CreateSnapshotResponse { snapshot }
}
