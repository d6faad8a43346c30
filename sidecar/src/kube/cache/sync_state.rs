//! Whether a cache is complete and kept up to date.
//!
//! Some decisions must not use state that may have changed unseen: a watch that ended reports
//! nothing, and the cache looks the same as before.

use std::convert::Infallible;

use tokio::sync::watch;

use super::Cache;

/// A cache's state as its reflector reports it.
#[derive(Debug, Default)]
pub(crate) struct SyncState(watch::Sender<State>);

#[derive(Debug, Default, Clone, Copy)]
struct State {
    /// All objects were listed once.
    synced: bool,
    /// Changes arrive.
    current: bool,
}

impl SyncState {
    /// Records that all objects were listed.
    pub(super) fn listed(&self) {
        self.0.send_modify(|state| state.synced = true);
    }

    /// Records that the watch is running, or has ended.
    pub(crate) fn set_current(&self, current: bool) {
        self.0.send_if_modified(|state| {
            let changed = state.current != current;
            state.current = current;
            changed
        });
    }

    /// Whether all objects were listed once.
    pub(crate) fn is_synced(&self) -> bool {
        self.0.borrow().synced
    }

    /// Waits until all objects were listed once.
    pub(crate) async fn synced(&self) {
        self.until(|state| state.synced).await;
    }

    /// Waits until the watch is running.
    pub(crate) async fn current(&self) {
        self.until(|state| state.current).await;
    }

    /// Whether the watch is running, as far as is known.
    pub(crate) fn is_current(&self) -> bool {
        self.0.borrow().current
    }

    async fn until(&self, condition: impl Fn(&State) -> bool) {
        let mut state = self.0.subscribe();
        // Cannot fail: `self` holds the sender.
        let _closed = state.wait_for(condition).await;
    }
}

impl<R> Cache<R> {
    /// Whether all objects were listed once.
    pub fn is_synced(&self) -> bool {
        self.inner.sync_state.is_synced()
    }

    /// Waits until all objects were listed once. Without permission to list that is never: the
    /// caller sets a time limit.
    pub async fn synced(&self) {
        self.inner.sync_state.synced().await;
    }

    /// Whether the watch is running, as far as is known: `false` from its end until it runs again.
    ///
    /// Even then, changes made meanwhile may not have arrived yet, unless the scope sets
    /// [`relist`](crate::kube::reflect::Scope::relist).
    pub fn is_current(&self) -> bool {
        self.inner.sync_state.is_current()
    }

    /// Waits until the cache [is current](Self::is_current).
    pub async fn current(&self) {
        self.inner.sync_state.current().await;
    }

    /// Calls `then` whenever the cache [is current](Self::is_current) again after it was not.
    pub async fn whenever_current(&self, then: impl Fn()) -> Infallible {
        loop {
            self.inner.sync_state.until(|state| !state.current).await;
            self.current().await;
            then();
        }
    }
}
