//! What the reply to a request changes about a modification.

use csi_proto::csi::{ControllerModifyVolumeRequest, ControllerModifyVolumeResponse};
use sidecar::controller::request::SecretError;
use sidecar::controller::{self, CallError};

use super::marks::{Finished, Marks, Unconfirmed, canceled, modified};
use super::{Modification, wording};
use crate::model::{SecretRef, Text};
use crate::plan::fairness::Kind;
use crate::plan::outcome::{Cause, Failure, Finality, Refusal, classify};
use crate::plan::request::{Announcement, ClaimWrite, Secrets};

impl Modification {
    /// The PersistentVolume is written.
    pub(in crate::plan) fn volume_written(&mut self) {
        self.written = true;
    }

    /// The claim is written.
    pub(in crate::plan) fn written(&mut self, what: ClaimWrite) {
        if what == ClaimWrite::MarkModifying {
            // Nothing was asked yet, and nothing that was asked before is in doubt.
            self.marks.settled = true;
            self.marks.taken_over = true;
            self.marked += 1;
        } else if what == ClaimWrite::TakeOver {
            self.marks.taken_over = true;
        } else if what == ClaimWrite::MarkPendingClass {
            self.marked += 1;
        } else {
            let left = match (what, &self.modified) {
                (ClaimWrite::CancelModify, _) => Some(canceled()),
                (_, Some(target)) => Some(modified(self.about.name(), target)),
                (_, None) => None,
            };
            self.marks.unconfirmed = None;
            self.marks.taken_over = false;
            self.finished = Some(Finished { left });
        }
    }

    /// Users are told.
    pub(in crate::plan) fn announced(&mut self, announcement: Announcement) {
        match &mut self.finished {
            Some(finished) => finished.left = None,
            None if self.marks.told(&announcement) => {}
            None => self.announced = Some(announcement),
        }
    }

    /// What came of loading the Secret.
    pub(in crate::plan) fn loaded(
        &mut self,
        secret: SecretRef,
        values: Result<Secrets, SecretError>,
    ) -> Result<(), Failure> {
        let taken = self.secrets.take(secret, values);
        taken.map_err(|cause| Failure::Modify(None, cause))
    }

    /// A patch of the claim was refused, or nobody knows.
    pub(in crate::plan) fn refused(&mut self, write: ClaimWrite, refusal: Refusal) {
        self.marks.taken_over &= refusal != Refusal::Unknown;
        match (write, refusal) {
            // It is begun only where nothing is in doubt, and the driver was not asked since.
            (
                ClaimWrite::MarkModifying,
                Refusal::Forbidden | Refusal::AlreadyExists | Refusal::Unknown | Refusal::Other,
            ) => {
                self.marks.settled = true;
            }
            (ClaimWrite::FinishModify, Refusal::Unknown) => {
                let target = self.modified.as_ref();
                let claim = self.about.name();
                self.marks.unconfirmed = target.map(|target| Unconfirmed::new(claim, target));
            }
            _ => {}
        }
    }

    /// What came of the call.
    pub(in crate::plan) fn called(
        &mut self,
        call: &controller::Call<ControllerModifyVolumeRequest, Text>,
        result: Result<ControllerModifyVolumeResponse, CallError>,
    ) -> Result<(), Failure> {
        let target = &call.about;
        match result {
            Ok(_) => {
                // Until it is recorded, nothing else is begun.
                self.marks = Marks {
                    taken_over: self.marks.taken_over,
                    ..Marks::default()
                };
                self.called = Some(None);
                self.modified = Some(target.clone());
                Ok(())
            }
            Err(CallError::Failed(error)) => {
                let finality = classify(Kind::Modify, error.code);
                self.marks.settled = finality != Finality::InDoubt;
                let infeasible = finality == Finality::Infeasible;
                self.called = Some(infeasible.then(|| wording(target, call)));
                let still = (finality == Finality::InDoubt).then(|| target.clone());
                Err(Failure::Modify(still, Cause::Call(error)))
            }
            Err(CallError::Unreachable(error)) => {
                Err(Failure::Modify(None, Cause::Unreachable(error)))
            }
        }
    }
}
