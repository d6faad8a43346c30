//! The Secret of a call; it is read anew in each attempt.
//!
//! Expansion and modification load it in the same way from different places.

use sidecar::controller::request::SecretError;

use super::outcome::Cause;
use super::request::{Request, Secrets};
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
    /// The request that loads them.
    pub(super) fn values(&self, reference: Option<&SecretRef>) -> Result<&Secrets, Request> {
        static NONE: Secrets = Secrets::new();
        match (reference, self) {
            (None, _) => Ok(&NONE),
            (Some(reference), Self::Values(loaded, secrets)) if loaded == reference => Ok(secrets),
            (Some(reference), _) => Err(Request::Secret(reference.clone())),
        }
    }

    /// Takes in what came of loading them.
    pub(super) fn take(
        &mut self,
        reference: SecretRef,
        values: Result<Secrets, SecretError>,
    ) -> Result<(), Cause> {
        match values {
            Ok(values) => *self = Self::Values(reference, values),
            Err(SecretError::NotText) => return Err(Cause::SecretNotText(reference)),
            Err(SecretError::Unread(error)) => return Err(Cause::Secret(reference, error)),
        }
        Ok(())
    }
}
