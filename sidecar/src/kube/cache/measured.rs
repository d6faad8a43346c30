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
    /// Reports an object that does not go through the cache.
    pub fn look(&self, wire: &R::Wire<'_>, look: Look) {
        if let Some(lifecycle) = self.inner.lifecycle.get() {
            lifecycle.take(R::steps(wire, look, lifecycle));
        }
    }

    /// Reports an object that was cached when the last list began, and is not in that list.
    pub(super) fn vanished(&self, change: &Change<R>) {
        if let (Some(lifecycle), Change::Deleted { old, .. }) = (self.inner.lifecycle.get(), change)
            && let Some(object) = old.lifecycle_id()
        {
            lifecycle.vanished(object);
        }
    }
}

/// The look at an object, by whether it is cached already.
pub(super) fn look(is_known: bool) -> Look {
    if is_known { Look::Again } else { Look::First }
}
