//! The interface between the executor of requests and a cache of any record.

use std::sync::Arc;

use super::{Cache, OwnWrite, Record};
use crate::error::Chain;
use crate::kube::api::ApiError;
use crate::kube::key::Key;

/// A cache that takes in the objects that this process reads and writes.
pub trait OwnWrites: Sync {
    /// A request about this object is about to be sent. As [`Cache::begin_write`].
    fn begin(&self, key: &Key) -> Box<dyn OpenWrite>;
}

/// A request under way. Dropped, it counts as failed.
pub trait OpenWrite: Send {
    /// The request was answered with this object.
    ///
    /// # Errors
    /// It is no such object.
    fn answered(self: Box<Self>, json: &str) -> Result<(), ApiError>;
}

impl<R: Record> OwnWrites for Cache<R> {
    fn begin(&self, key: &Key) -> Box<dyn OpenWrite> {
        Box::new(self.begin_write(key))
    }
}

impl<R: Record> OpenWrite for OwnWrite<R> {
    fn answered(self: Box<Self>, json: &str) -> Result<(), ApiError> {
        self.take(json).map(drop)
    }
}

impl<R: Record> Cache<R> {
    /// The record of an object, as the cache would keep it.
    ///
    /// # Errors
    /// The JSON is no such object, or one of which nothing is kept.
    pub fn decode(&self, json: &str) -> Result<Arc<R>, ApiError> {
        let wire = serde_json::from_str(json);
        let wire = wire.map_err(|error| ApiError::unreadable(&error))?;
        let record = self.read(wire);
        let record = record.ok_or_else(|| ApiError::unreadable(&"it is about something else"))?;
        Ok(record.into_shared())
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
