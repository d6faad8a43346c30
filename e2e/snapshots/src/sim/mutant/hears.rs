//! How faulty csi-snapshotters misread replies.

use csi_proto::csi::{
    CreateSnapshotResponse, CreateVolumeGroupSnapshotResponse, ListSnapshotsResponse, Snapshot,
    VolumeGroupSnapshot,
};
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
            Called::Create(call, Err(error)) => {
                Called::Create(call, self.hears_error(error, ghost))
            }
            Called::CreateGroup(call, Ok(mut response)) => {
                if let Some(group) = &mut response.group_snapshot {
                    group.ready_to_use |= self == Self::TakesCutForReady;
                }
                self.hears_of_group(Called::CreateGroup(call, Ok(response)), content)
            }
            Called::CreateGroup(call, Err(error)) => {
                let invented = || ghosts(&call.source_volume_ids);
                let result = self.hears_error(error, invented);
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
                self.hears_page(&call.snapshot_id, &mut page);
                Called::List(call, Ok(page))
            }
            called => called,
        }
    }

    /// The error of a call for a snapshot, or the response that it invents.
    fn hears_error<T>(
        self,
        error: CallError,
        invented: impl FnOnce() -> T,
    ) -> Result<T, CallError> {
        let refused = |error: RpcError| {
            let code = Code::Internal;
            Err(CallError::Failed(RpcError { code, ..error }))
        };
        match (self, error) {
            (Self::BelievesTimeout, CallError::Failed(error))
                if error.code == Code::DeadlineExceeded =>
            {
                Ok(invented())
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
            (Self::PollsOnceMore, None) => snapshot.ready_to_use = false,
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
            Self::TakesListedForReady => {
                let snapshots = entries.iter_mut().filter_map(|one| one.snapshot.as_mut());
                snapshots.for_each(|snapshot| snapshot.ready_to_use = true);
            }
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

/// The same of a group of these volumes.
fn ghosts(volumes: &[String]) -> CreateVolumeGroupSnapshotResponse {
    let snapshots = volumes.iter().map(|volume| Snapshot {
        snapshot_id: format!("ghost of {volume}"),
        source_volume_id: volume.clone(),
        ready_to_use: true,
        ..Snapshot::default()
    });
    let group_snapshot = Some(VolumeGroupSnapshot {
        group_snapshot_id: "ghost".into(),
        snapshots: snapshots.collect(),
        ready_to_use: true,
        ..VolumeGroupSnapshot::default()
    });
    CreateVolumeGroupSnapshotResponse { group_snapshot }
}
