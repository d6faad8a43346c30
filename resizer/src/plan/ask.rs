//! Requests that both scripts make.

use serde_json::Value;
use sidecar::controller::request::SecretError;
use sidecar::controller::script;

use super::attempt::{Attempt, End, Flow, Log};
use super::marks::Marks;
use super::outcome::{ApiError, Cause, Failure, Refusal};
use super::request::{
    Announcement, ClaimWrite, Purpose, Request, Secrets, VolumeWrite, Write, patch_volume,
};
use super::view::View;
use crate::model::{ClaimDetail, SecretRef, Text};

/// Attempts to mark a claim within one attempt, if the API server does not keep the mark.
const MARKS: usize = 4;

/// A script's input: the attempt so far, and the cached objects.
#[derive(Clone, Copy)]
pub(super) struct Ask<'a> {
    pub(super) attempt: &'a Attempt,
    pub(super) view: &'a View<'a>,
}

impl<'a> Ask<'a> {
    pub(super) fn log(self) -> &'a Log {
        &self.attempt.log
    }

    pub(super) fn marks(self) -> &'a Marks {
        &self.attempt.start.marks
    }

    /// Whether the driver recently called this very request infeasible, so that it is not repeated
    /// yet.
    pub(super) fn is_slow(self, wish: &str) -> bool {
        self.attempt.start.slow.as_deref() == Some(wish)
    }

    /// Name of the PersistentVolume in the view.
    pub(super) fn volume_name(self) -> Text {
        let name = self.attempt.volume(self.view.claim);
        name.unwrap_or_default()
    }

    /// Patches the claim's status, unless `patch` is `None` because nothing would change.
    pub(super) fn patch(self, what: ClaimWrite, patch: Option<Value>) -> Flow<()> {
        script::write(self.write(what, patch))
    }

    /// Patches the claim's status before a call; fails if the API server repeatedly drops the
    /// values.
    pub(super) fn mark(
        self,
        claim: &ClaimDetail,
        what: ClaimWrite,
        patch: Option<Value>,
    ) -> Flow<()> {
        let ignored = || {
            let message = "the API server accepts the patch, but status or condition are not there \
                           afterwards; an admission webhook may remove them";
            let error = ApiError {
                message: message.to_owned(),
                refusal: Refusal::Other,
            };
            End::Failed(Failure::Claim(what, claim.key(), error))
        };
        let write = self.write(what, patch);
        self.log().mark(write, MARKS, ignored)
    }

    fn write(self, what: ClaimWrite, patch: Option<Value>) -> Option<Write> {
        patch.map(|patch| self.attempt.about.patch(what, patch))
    }

    /// Whether the claim has been marked as often as allowed.
    pub(super) fn is_marked(self, what: ClaimWrite) -> bool {
        self.log().times(&Purpose::Claim(what)) >= MARKS
    }

    /// Patches the claim's status, so that the resource version of every older patch is outdated.
    pub(super) fn take_over(self, patch: impl FnOnce() -> Option<Value>) -> Flow<()> {
        if self.marks().taken_over {
            return Ok(());
        }
        self.patch(ClaimWrite::TakeOver, patch())
    }

    /// Patches the PersistentVolume of this name once, unless `patch` is `None`.
    pub(super) fn volume_once(
        self,
        name: &Text,
        what: VolumeWrite,
        patch: Option<Value>,
    ) -> Flow<()> {
        let write = patch.map(|patch| patch_volume(name, what, patch));
        self.log().once(write)
    }

    /// The values of the Secret; empty without a reference.
    pub(super) fn secret(self, reference: Option<&SecretRef>) -> Flow<Result<&'a Secrets, Cause>> {
        let values = self.log().secret(reference.cloned())?;
        Ok(values.map_err(|(secret, error)| match error {
            SecretError::NotText => Cause::SecretNotText(secret.clone()),
            SecretError::Unread(error) => Cause::Secret(secret.clone(), error.clone()),
        }))
    }

    /// Sends an event, once per attempt.
    pub(super) fn tell(self, announcement: Announcement) -> Flow<()> {
        self.log().tell(self.attempt.about.event(announcement))
    }

    /// Sends the events that finished work still owes.
    pub(super) fn tell_left(self) -> Flow<()> {
        let claim = self.view.claim;
        let Some(left) = claim.and_then(|claim| self.marks().untold(claim)) else {
            return Ok(());
        };
        let event = self.attempt.about.event(left.clone());
        script::ask(Request::Event(event))
    }
}
