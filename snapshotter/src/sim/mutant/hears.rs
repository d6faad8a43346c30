//! What mutants make of answers.

use csi_proto::csi::{CreateSnapshotResponse, CreateVolumeGroupSnapshotResponse, Snapshot};
use tonic::Code;

use super::Mutant;
use crate::model::Text;
use crate::plan::outcome::RpcError;
use crate::plan::step::{Answer, Step};
use crate::sim::answer::{group, make_up};

impl Mutant {
    /// What a mutant makes of an answer.
    pub(in crate::sim) fn hears(
        self,
        step: &Step,
        answer: Answer,
        record: Option<&Text>,
    ) -> Answer {
        let is_create = matches!(step, Step::Create(_) | Step::CreateGroup(_));
        let refused = |error: RpcError| {
            Answer::Failed(RpcError {
                code: Code::Internal,
                ..error
            })
        };
        match (self, answer) {
            (Self::AsksWithoutSecret, Answer::Refused(_) | Answer::SecretNotText)
                if matches!(step, Step::LoadSecret(..)) =>
            {
                Answer::Secret([].into())
            }
            (Self::BelievesTimeout, Answer::Failed(error))
                if is_create && error.code == Code::DeadlineExceeded =>
            {
                ghost(step)
            }
            (Self::TakesTimeoutForFinal, Answer::Failed(error))
                if is_create && error.code == Code::DeadlineExceeded =>
            {
                refused(error)
            }
            (Self::TakesUnavailableForFinal, Answer::Failed(error))
                if is_create && error.code == Code::Unavailable =>
            {
                refused(error)
            }
            (Self::TakesUnsentForFinal, Answer::Unreachable(error)) if is_create => refused(error),
            (Self::BelievesDeleted, Answer::Failed(_))
                if matches!(step, Step::Delete(_) | Step::DeleteGroup(_)) =>
            {
                Answer::Deleted
            }
            (Self::CompletesAnswers, Answer::GroupCreated(mut answer)) => {
                answer.group_snapshot.iter_mut().for_each(make_up);
                Answer::GroupCreated(answer)
            }
            (Self::TakesCutForReady, Answer::GroupCreated(mut answer)) => {
                if let Some(group) = &mut answer.group_snapshot {
                    group.ready_to_use = true;
                }
                Answer::GroupCreated(answer)
            }
            (Self::TakesCutForReady, Answer::Created(mut answer)) => {
                if let Some(snapshot) = &mut answer.snapshot {
                    snapshot.ready_to_use = true;
                }
                Answer::Created(answer)
            }
            (_, answer) => self.hears_of_one(step, answer, record),
        }
    }

    /// The same, about a single snapshot.
    fn hears_of_one(self, step: &Step, answer: Answer, record: Option<&Text>) -> Answer {
        match (self, answer) {
            (Self::TakesOther, Answer::Created(mut answer)) => {
                if let (Some(record), Some(snapshot)) = (record, &mut answer.snapshot) {
                    snapshot.snapshot_id = record.to_string();
                }
                Answer::Created(answer)
            }
            (Self::TakesOnlyEqual, Answer::Listed(mut page)) => {
                let asked = step.looks_up();
                page.entries.retain(|entry| {
                    let mut snapshot = entry.snapshot.iter();
                    snapshot.any(|one| Some(&*one.snapshot_id) == asked)
                });
                Answer::Listed(page)
            }
            (Self::TakesFirstEntry, Answer::Listed(mut page)) => {
                let first = page.entries.first_mut();
                if let (Some(entry), Step::List(call)) = (first, step)
                    && let Some(snapshot) = &mut entry.snapshot
                {
                    snapshot.snapshot_id.clone_from(&call.snapshot_id);
                }
                Answer::Listed(page)
            }
            (Self::OverhearsTopology, Answer::Created(mut answer)) => {
                if let Some(snapshot) = &mut answer.snapshot {
                    snapshot.accessible_topology.clear();
                }
                Answer::Created(answer)
            }
            (_, answer) => answer,
        }
    }
}

/// What a driver that did not answer might have said.
fn ghost(step: &Step) -> Answer {
    if matches!(step, Step::CreateGroup(_)) {
        let group_snapshot = Some(group("ghost", 0, true));
        return Answer::GroupCreated(CreateVolumeGroupSnapshotResponse { group_snapshot });
    }
    let snapshot = Some(Snapshot {
        snapshot_id: "ghost".into(),
        ready_to_use: true,
        ..Snapshot::default()
    });
    Answer::Created(CreateSnapshotResponse { snapshot })
}
