//! The interface between the executor of requests and a cache of any record.

use std::sync::Arc;

use super::{Cache, OwnWrite, Record};
use crate::error::Chain;
use crate::kube::api::ApiError;
use crate::kube::key::Key;

/// A cache that stores the objects that this process reads and writes.
pub trait OwnWrites: Sync {
    /// Announces a request about this object. Like [`Cache::begin_write`].
    fn begin(&self, key: &Key) -> Box<dyn OpenWrite>;
}

/// A request in flight. If dropped, it counts as failed.
pub trait OpenWrite: Send {
    /// Stores the object of the response.
    ///
    /// # Errors
    /// The response is not such an object.
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
    /// Builds the record of an object as the cache would keep it.
    ///
    /// # Errors
    /// The JSON is not such an object, or the cache keeps no record of it.
    pub fn decode(&self, json: &str) -> Result<Arc<R>, ApiError> {
        let wire = serde_json::from_str(json);
        let wire = wire.map_err(|error| ApiError::unreadable(&error))?;
        let record = self.read(wire);
        let record = record.ok_or_else(|| ApiError::unreadable(&"it is about something else"))?;
        Ok(record.into_shared())
    }
}

impl<R: Record> OwnWrite<R> {
    /// Stores the object of the response and returns the current record, if any.
    ///
    /// # Errors
    /// The response is not such an object.
    pub fn take(self, json: &str) -> Result<Option<Arc<R>>, ApiError> {
        self.answered(json)
            .map_err(|error| ApiError::unreadable(&Chain(&error)))
    }
}
