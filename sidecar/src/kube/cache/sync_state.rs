//! Whether a cache has everything, and whether it is being kept so.
//!
//! Some decisions must not be taken on what may have changed unseen: a watch that is known to have
//! ended tells nothing, and the cache looks the same as before.

use std::convert::Infallible;

use tokio::sync::watch;

use super::Cache;

/// What its reflector says about a cache.
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
    /// All objects were listed.
    pub(super) fn listed(&self) {
        self.0.send_modify(|state| state.synced = true);
    }

    /// The watch stands, or has ended.
    pub(crate) fn set_current(&self, current: bool) {
        self.0.send_if_modified(|state| {
            let changed = state.current != current;
            state.current = current;
            changed
        });
    }

    /// All objects were listed once.
    pub(crate) async fn synced(&self) {
        self.until(|state| state.synced).await;
    }

    /// The watch stands.
    pub(crate) async fn current(&self) {
        self.until(|state| state.current).await;
    }

    /// Whether the watch stands, as far as is known.
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
        self.inner.sync_state.0.borrow().synced
    }

    /// Waits until all objects were listed once. Without the permission to list that is never: the
    /// caller brings a bound.
    pub async fn synced(&self) {
        self.inner.sync_state.synced().await;
    }

    /// Whether the watch stands, as far as is known: `false` from its end until it stands again.
    ///
    /// What changed meanwhile may still be on its way then, unless the scope says
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
