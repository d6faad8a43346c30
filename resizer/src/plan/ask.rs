//! What both scripts ask for.

use serde_json::Value;
use sidecar::controller::request::SecretError;
use sidecar::controller::script::Leave;

use super::attempt::{Attempt, Flow, Log};
use super::marks::Marks;
use super::outcome::{ApiError, Cause, Failure, Refusal};
use super::request::{
    Announcement, Call, ClaimWrite, Purpose, Request, Secrets, VolumeWrite, patch_volume,
};
use super::view::View;
use crate::model::{ClaimDetail, SecretRef, Text};

/// How often a claim that does not keep what is written is marked in one attempt.
const MARKS: usize = 4;

/// What a script is called with: the attempt so far, and what the caches show.
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

    /// What the driver called impossible so short a time ago that it is not asked for again.
    pub(super) fn is_slow(self, wish: &str) -> bool {
        self.attempt.start.slow.as_deref() == Some(wish)
    }

    /// Name of the PersistentVolume in the view.
    pub(super) fn volume_name(self) -> Text {
        let name = self.attempt.volume(self.view.claim);
        name.unwrap_or_default()
    }

    /// Patches the claim's status, unless it says so already.
    pub(super) fn patch(self, what: ClaimWrite, patch: Option<Value>) -> Flow<()> {
        match patch {
            Some(patch) => Err(Leave::Ask(self.attempt.about.patch(what, patch))),
            None => Ok(()),
        }
    }

    /// The same before the driver is asked, of a claim that may not keep what is written.
    pub(super) fn mark(
        self,
        claim: &ClaimDetail,
        what: ClaimWrite,
        patch: Option<Value>,
    ) -> Flow<()> {
        if patch.is_some() && self.is_marked(what) {
            let message = "the API server accepts the patch, but status or condition are not there \
                           afterwards; an admission webhook may remove them";
            let error = ApiError {
                message: message.to_owned(),
                refusal: Refusal::Other,
            };
            return Err(Failure::Claim(what, claim.key(), error).into());
        }
        self.patch(what, patch)
    }

    /// Whether the claim was marked so as often as it may be.
    pub(super) fn is_marked(self, what: ClaimWrite) -> bool {
        self.log().times(&Purpose::Claim(what)) >= MARKS
    }

    /// Patches the claim's status, so that no older patch fits it any more.
    pub(super) fn take_over(self, patch: impl FnOnce() -> Option<Value>) -> Flow<()> {
        if self.marks().taken_over {
            return Ok(());
        }
        self.patch(ClaimWrite::TakeOver, patch())
    }

    /// Patches the PersistentVolume of this name, once, unless it says so already.
    pub(super) fn volume_once(
        self,
        name: &Text,
        what: VolumeWrite,
        patch: Option<Value>,
    ) -> Flow<()> {
        match patch {
            Some(patch) => self.log().once(patch_volume(name, what, patch)),
            None => Ok(()),
        }
    }

    /// The values of the Secret, if one is named.
    pub(super) fn secret(self, reference: Option<&SecretRef>) -> Flow<Result<&'a Secrets, Cause>> {
        static NONE: Secrets = Secrets::new();
        let Some(reference) = reference.cloned() else {
            return Ok(Ok(&NONE));
        };
        let values = self.log().secret(reference.clone())?;
        Ok(values.map_err(|error| match error {
            SecretError::NotText => Cause::SecretNotText(reference),
            SecretError::Unread(error) => Cause::Secret(reference, error.clone()),
        }))
    }

    /// Calls the driver.
    pub(super) fn call<T>(self, call: Call) -> Flow<T> {
        Err(Leave::Ask(Request::Call(call)))
    }

    /// Tells users, once per attempt.
    pub(super) fn tell(self, announcement: Announcement) -> Flow<()> {
        self.log().tell(self.attempt.about.event(announcement))
    }

    /// Tells users what is left to be told of work that is done.
    pub(super) fn tell_left(self) -> Flow<()> {
        let claim = self.view.claim;
        let Some(left) = claim.and_then(|claim| self.marks().untold(claim)) else {
            return Ok(());
        };
        let event = self.attempt.about.event(left.clone());
        Err(Leave::Ask(Request::Event(event)))
    }
}
