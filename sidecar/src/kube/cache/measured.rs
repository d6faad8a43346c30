//! Reports the progress of objects to the lifecycle, before the cache drops most of their fields.

use super::store::Change;
use super::{Cache, Record};
use crate::lifecycle::{Lifecycle, Look};

impl<R> Cache<R> {
    /// Reports the progress of objects to `lifecycle`. Call this before the cache is filled.
    #[must_use]
    pub fn measured(self, lifecycle: &Lifecycle) -> Self {
        // Set once; later calls are ignored.
        let _first = self.inner.lifecycle.set(lifecycle.clone());
        self
    }
}

impl<R: Record> Cache<R> {
    /// Looks at an object that is not read through the cache.
    pub fn look(&self, wire: &R::Wire<'_>, look: Look) {
        if let Some(lifecycle) = self.inner.lifecycle.get() {
            lifecycle.take(R::steps(wire, look, lifecycle));
        }
    }

    /// Of an object that was in the cache when the last list began, and is not in that list.
    pub(super) fn vanished(&self, change: &Change<R>) {
        if let (Some(lifecycle), Change::Deleted { old, .. }) = (self.inner.lifecycle.get(), change)
            && let Some(object) = old.lifecycle_id()
        {
            lifecycle.vanished(object);
        }
    }
}

/// How an object comes that is in the cache already, or is not.
pub(super) fn look(is_known: bool) -> Look {
    if is_known { Look::Again } else { Look::First }
}
