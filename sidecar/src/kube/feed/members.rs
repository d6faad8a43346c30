//! The caches that a feed serves.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use crate::error::Chain;
use crate::kube::cache::{ObjectError, RawObject, Sink};

/// So many objects that cannot be read are named in the log, once each.
const UNREADABLE_NAMED: usize = 100;

/// One cache.
pub(super) struct Member {
    cache: Arc<dyn Sink>,
    /// What was missed while there was no watch is to be listed rather than waited for.
    relist: bool,
    /// From the first list that begins after it has joined until it leaves: it would take what comes
    /// before for all there is.
    takes_part: AtomicBool,
    unreadable: Mutex<HashSet<String>>,
}

impl Member {
    pub(super) fn new(cache: Arc<dyn Sink>, relist: bool) -> Self {
        Self {
            cache,
            relist,
            takes_part: AtomicBool::new(false),
            unreadable: Mutex::default(),
        }
    }

    /// Nobody keeps the cache in step any more.
    pub(super) fn lost(&self) {
        self.cache.sync_state().set_current(false);
    }

    /// What is known of the object stays: a relist must not take it for deleted.
    fn pass_over(&self, object: &RawObject<'_>, resource: &str, error: &ObjectError) {
        let name = match object.identity() {
            Ok((key, _version)) => {
                self.cache.keep(key.as_str());
                key.to_string()
            }
            Err(_) => String::new(),
        };
        let mut named = lock(&self.unreadable);
        if named.len() < UNREADABLE_NAMED && named.insert(name.clone()) {
            let error = Chain(error);
            tracing::warn!(resource, name, %error, "Passing over an object that cannot be read");
        }
    }
}

/// The caches of a feed, which join and leave while it runs.
#[derive(Default)]
pub(in crate::kube) struct Members {
    state: Mutex<State>,
    joined: Notify,
}

#[derive(Default)]
struct State {
    /// Replaced, never changed: an object is given to those who were there when it came.
    members: Arc<Vec<Arc<Member>>>,
    /// When those who have joined are to be given a list.
    list_at: Option<Instant>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Members {
    /// `member` is given a list `gather` from now, or together with one that joined shortly before.
    pub(super) fn join(&self, member: &Arc<Member>, gather: Duration) {
        let mut state = lock(&self.state);
        let mut members = Vec::clone(&state.members);
        members.push(Arc::clone(member));
        state.members = Arc::new(members);
        state.list_at.get_or_insert_with(|| Instant::now() + gather);
        self.joined.notify_one();
    }

    /// Whether there are others.
    pub(super) fn leave(&self, member: &Arc<Member>) -> bool {
        member.takes_part.store(false, Ordering::Relaxed);
        let mut state = lock(&self.state);
        let mut members = Vec::clone(&state.members);
        members.retain(|other| !Arc::ptr_eq(other, member));
        state.members = Arc::new(members);
        !state.members.is_empty()
    }

    /// When there is to be a list for those who have joined, if somebody has.
    pub(in crate::kube) fn list_at(&self) -> Option<Instant> {
        lock(&self.state).list_at
    }

    /// Waits until there is to be a list for those who have joined.
    pub(in crate::kube) async fn list_is_due(&self) {
        loop {
            match self.list_at() {
                Some(at) => return sleep_until(at).await,
                None => self.joined.notified().await,
            }
        }
    }

    /// Whether a cache wants what was missed to be listed.
    pub(in crate::kube) fn relist(&self) -> bool {
        let members = Arc::clone(&lock(&self.state).members);
        members.iter().any(|member| member.relist)
    }

    /// A list begins, and with it all that have joined take part.
    pub(in crate::kube) fn begin_list(&self) {
        let members = {
            let mut state = lock(&self.state);
            state.list_at = None;
            Arc::clone(&state.members)
        };
        for member in members.iter() {
            member.takes_part.store(true, Ordering::Relaxed);
            member.cache.begin_list();
        }
    }

    /// The list is complete, as of this version.
    pub(in crate::kube) fn finish_list(&self, version: &str) {
        self.each(|member| member.cache.finish_list(version));
    }

    /// The watch stands, or it has ended.
    pub(in crate::kube) fn set_current(&self, current: bool) {
        self.each(|member| member.cache.sync_state().set_current(current));
    }

    /// Whether every cache has been told that the watch stands.
    pub(in crate::kube) fn are_current(&self) -> bool {
        let mut current = true;
        self.each(|member| current &= member.cache.sync_state().is_current());
        current
    }

    /// The list or the watch brought this object.
    pub(in crate::kube) fn upsert(&self, object: &RawObject<'_>, resource: &str) {
        self.each(|member| {
            if let Err(error) = member.cache.upsert(object) {
                member.pass_over(object, resource, &error);
            }
        });
    }

    /// The watch says that this object is gone.
    pub(in crate::kube) fn delete(&self, object: &RawObject<'_>, resource: &str) {
        self.each(|member| {
            if let Err(error) = member.cache.delete(object) {
                member.pass_over(object, resource, &error);
            }
        });
    }

    /// No lock is held meanwhile: a cache's handler may do what it likes.
    fn each(&self, mut visit: impl FnMut(&Member)) {
        let members = Arc::clone(&lock(&self.state).members);
        for member in members.iter() {
            if member.takes_part.load(Ordering::Relaxed) {
                visit(member);
            }
        }
    }
}
