//! Limits concurrent operations, in all and for each client, so that a client that floods the program or does not read
//! its streams blocks no other.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

/// A limit for all clients, and a lower one for each.
#[derive(Debug)]
pub struct ConcurrencyLimit<K> {
    all: Arc<Semaphore>,
    /// The limit of one client.
    each: usize,
    /// The semaphores of clients that hold a permit or wait for one.
    own: Mutex<BTreeMap<K, Weak<Semaphore>>>,
}

/// There are too many operations already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Busy;

/// A slot of both limits, freed when dropped.
#[derive(Debug)]
pub struct Permit {
    _own: OwnedSemaphorePermit,
    _all: OwnedSemaphorePermit,
}

impl<K: Ord + Clone> ConcurrencyLimit<K> {
    /// Allows `all` concurrent operations, and `each` for one client.
    #[must_use]
    pub fn new(all: usize, each: usize) -> Self {
        let most = |number: usize| number.min(Semaphore::MAX_PERMITS);
        Self {
            all: Arc::new(Semaphore::new(most(all))),
            each: most(each),
            own: Mutex::default(),
        }
    }

    fn own(&self, who: &K) -> Arc<Semaphore> {
        let mut own = self.own.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = own.get(who).and_then(Weak::upgrade) {
            return known;
        }
        own.retain(|_, one| one.strong_count() > 0);
        let new = Arc::new(Semaphore::new(self.each));
        own.insert(who.clone(), Arc::downgrade(&new));
        new
    }

    /// Takes a permit if `who` holds fewer than are free: the more are taken, the fewer are left to those who hold many,
    /// so that a few clients cannot take all of them.
    pub fn try_enter(&self, who: &K) -> Option<Permit> {
        let own = self.own(who);
        let held = self.each.saturating_sub(own.available_permits());
        if held >= self.all.available_permits() {
            return None;
        }
        Some(Permit {
            _own: own.try_acquire_owned().ok()?,
            _all: Arc::clone(&self.all).try_acquire_owned().ok()?,
        })
    }

    /// Waits for a permit for at most `patience`. A client that waits for its own limit takes none of the others'
    /// permits.
    ///
    /// # Errors
    /// No permit became free in time.
    pub async fn enter(&self, who: &K, patience: Duration) -> Result<Permit, Busy> {
        let waiting = async {
            Some(Permit {
                _own: self.own(who).acquire_owned().await.ok()?,
                _all: Arc::clone(&self.all).acquire_owned().await.ok()?,
            })
        };
        let permit = timeout(patience, waiting).await;
        permit.ok().flatten().ok_or(Busy)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn one_leaves_room_for_others() {
        let limit = ConcurrencyLimit::new(4, 2);
        let second = Duration::from_secs(1);
        let mut permits = Vec::new();
        for _ in 0..2 {
            permits.push(limit.enter(&"a", second).await.unwrap());
        }
        assert_eq!(limit.enter(&"a", second).await.unwrap_err(), Busy);
        assert!(limit.try_enter(&"a").is_none());
        for who in ["b", "c"] {
            permits.push(limit.enter(&who, second).await.unwrap());
        }
        assert!(limit.enter(&"d", second).await.is_err());
        permits.clear();
        assert!(limit.enter(&"d", second).await.is_ok());
        // Clients without permits are forgotten.
        assert!(limit.own.lock().unwrap().len() <= 2);
    }

    #[test]
    fn a_few_cannot_take_all_shares() {
        let limit = ConcurrencyLimit::new(16, 16);
        let mut permits = Vec::new();
        for (who, share) in [("a", 8), ("b", 4), ("c", 2), ("d", 1), ("e", 1)] {
            let before = permits.len();
            permits.extend(std::iter::from_fn(|| limit.try_enter(&who)).take(100));
            assert_eq!(permits.len() - before, share, "{who}");
        }
        assert!(limit.try_enter(&"f").is_none(), "the bound holds");
        permits.truncate(4);
        assert!(limit.try_enter(&"a").is_some());
    }
}
