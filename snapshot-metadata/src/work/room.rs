//! How many may do something at the same time, and how many of them for one: who floods the program, or
//! takes streams and does not read them, leaves room for others.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use crate::plan::refusal::Refusal;

/// Room for so many.
#[derive(Debug)]
pub struct Room<K> {
    all: Arc<Semaphore>,
    /// For one.
    each: usize,
    /// Of those who have, or wait for, a place.
    own: Mutex<BTreeMap<K, Weak<Semaphore>>>,
}

/// A place, until it is dropped.
#[derive(Debug)]
pub struct Place {
    _own: OwnedSemaphorePermit,
    _all: OwnedSemaphorePermit,
}

impl<K: Ord + Clone> Room<K> {
    /// Room for `all`, and for `each` of those who ask.
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

    /// A place at once, or none.
    pub fn try_enter(&self, who: &K) -> Option<Place> {
        Some(Place {
            _own: self.own(who).try_acquire_owned().ok()?,
            _all: Arc::clone(&self.all).try_acquire_owned().ok()?,
        })
    }

    /// Waits for a place, though not longer than `patience`. Whoever waits for its own does not take another's.
    ///
    /// # Errors
    /// There was none in time.
    pub async fn enter(&self, who: &K, patience: Duration) -> Result<Place, Refusal> {
        let waiting = async {
            Some(Place {
                _own: self.own(who).acquire_owned().await.ok()?,
                _all: Arc::clone(&self.all).acquire_owned().await.ok()?,
            })
        };
        let place = timeout(patience, waiting).await;
        place.ok().flatten().ok_or_else(Refusal::busy)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn one_leaves_room_for_others() {
        let room = Room::new(4, 2);
        let second = Duration::from_secs(1);
        let mut places = Vec::new();
        for _ in 0..2 {
            places.push(room.enter(&"a", second).await.unwrap());
        }
        assert_eq!(room.enter(&"a", second).await.unwrap_err(), Refusal::busy());
        assert!(room.try_enter(&"a").is_none());
        for who in ["b", "c"] {
            places.push(room.enter(&who, second).await.unwrap());
        }
        assert!(room.enter(&"d", second).await.is_err());
        places.clear();
        assert!(room.enter(&"d", second).await.is_ok());
        // Who is gone is forgotten.
        assert!(room.own.lock().unwrap().len() <= 2);
    }
}
