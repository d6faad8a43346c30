//! The Secret of a call; it is read anew in each attempt.
//!
//! Expansion and modification load it in the same way from different places.

use super::outcome::Cause;
use super::request::Secrets;
use super::step::{Answer, Step};
use crate::model::SecretRef;

/// What an attempt knows of the Secret.
#[derive(Default)]
pub(super) enum Loaded {
    #[default]
    NotYet,
    /// With the reference that was asked for.
    Values(SecretRef, Secrets),
}

impl Loaded {
    /// The values.
    ///
    /// # Errors
    /// The step that loads them.
    pub(super) fn values(&self, reference: Option<&SecretRef>) -> Result<&Secrets, Step> {
        static NONE: Secrets = Secrets::new();
        match (reference, self) {
            (None, _) => Ok(&NONE),
            (Some(reference), Self::Values(loaded, secrets)) if loaded == reference => Ok(secrets),
            (Some(reference), _) => Err(Step::LoadSecret(reference.clone())),
        }
    }

    /// Takes in what came of loading `reference`.
    pub(super) fn fold(&mut self, reference: &SecretRef, answer: Answer) -> Result<(), Cause> {
        match answer {
            Answer::Secret(secrets) => {
                *self = Self::Values(reference.clone(), secrets);
                Ok(())
            }
            Answer::SecretNotText => Err(Cause::SecretNotText(reference.clone())),
            Answer::Refused(error) => Err(Cause::Secret(reference.clone(), error)),
            Answer::Done
            | Answer::Expanded(_)
            | Answer::Modified
            | Answer::Failed(_)
            | Answer::Unreachable(_) => Ok(()),
        }
    }
}
