//! Requests about single objects whose answers the cache takes.

use std::sync::Arc;

use super::{Cache, OwnWrite, Record};
use crate::error::Chain;
use crate::kube::api::{Api, ApiError};
use crate::kube::key::Key;
use crate::kube::patch::{Part, Patch};
use crate::kube::reflect::Resource;

impl<R: Record> Cache<R> {
    /// Reads an object from the API server, and takes it unless more is known by now. What is known
    /// then, if anything.
    ///
    /// # Errors
    /// It is not there, the server did not say, or the answer is no such object.
    pub async fn read_from(
        &self,
        api: &Api,
        resource: &Resource,
        key: &Key,
    ) -> Result<Option<Arc<R>>, ApiError> {
        let own = self.begin_write(key);
        own.take(&api.get(resource, key).await?)
    }

    /// Patches an object, and takes it as it is afterwards. What is known then, if anything.
    ///
    /// # Errors
    /// The server refused, or nobody knows.
    pub async fn patch_at(
        &self,
        api: &Api,
        resource: &Resource,
        key: &Key,
        (part, patch): (Part, &Patch),
    ) -> Result<Option<Arc<R>>, ApiError> {
        let own = self.begin_write(key);
        own.take(api.patch(resource, key, part, patch).await?.get())
    }
}

impl<R: Record> OwnWrite<R> {
    /// The request was answered with this object. What is known then, if anything.
    ///
    /// # Errors
    /// It is no such object.
    pub fn take(self, json: &str) -> Result<Option<Arc<R>>, ApiError> {
        self.answered(json)
            .map_err(|error| ApiError::unreadable(&Chain(&error)))
    }
}
