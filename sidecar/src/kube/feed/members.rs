//! The caches that a feed serves.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use super::Inner;
use crate::error::Chain;
use crate::kube::cache::{ObjectError, RawObject, Sink};
use crate::mutex::lock;
use crate::outage::Outage;

/// Maximum number of unreadable objects named in the log, once each.
const UNREADABLE_NAMED: usize = 100;

/// One subscribed cache.
pub(super) struct Member {
    cache: Arc<dyn Sink>,
    /// List again after a gap in the watch, instead of waiting for the missed changes.
    relist: bool,
    /// No work starts before its first list is complete.
    is_needed: bool,
    /// True from the first list that begins after the cache joined until it leaves: the cache would mistake
    /// earlier objects for the complete set.
    takes_part: AtomicBool,
    unreadable: Mutex<HashSet<String>>,
}

impl Member {
    pub(super) fn new(cache: Arc<dyn Sink>, relist: bool, is_needed: bool) -> Self {
        Self {
            cache,
            relist,
            is_needed,
            takes_part: AtomicBool::new(false),
            unreadable: Mutex::default(),
        }
    }

    /// Marks the cache as no longer kept in step.
    pub(super) fn lost(&self) {
        self.cache.sync_state().set_current(false);
    }

    /// Skips an unreadable object. Its record stays: a relist must not count it as deleted.
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
            tracing::warn!(resource, name, %error, "Skipping an object that cannot be decoded");
        }
    }
}

/// The caches of a feed.
pub(in crate::kube) struct Members {
    /// Replaced, never changed: an object goes to the members that were there when it arrived.
    members: Mutex<Arc<Vec<Arc<Member>>>>,
    /// Start of the first list; until then caches may join.
    list_at: Instant,
    listed: AtomicBool,
    /// Whether the watch is running.
    stands: AtomicBool,
    /// The version up to which everything was passed on; 0 if unknown.
    told: AtomicU64,
    /// The process's feeds, if an older feed of the kind existed, into which these caches merge once they
    /// can.
    late: Option<Weak<Inner>>,
    /// No list is complete yet.
    unlisted: AtomicBool,
    server: Outage,
}

impl Members {
    pub(super) fn new(gather: Duration, late: Option<Weak<Inner>>, server: Outage) -> Self {
        Self {
            members: Mutex::default(),
            list_at: Instant::now() + gather,
            listed: AtomicBool::new(false),
            stands: AtomicBool::new(false),
            told: AtomicU64::new(0),
            late,
            unlisted: AtomicBool::new(true),
            server,
        }
    }

    /// Whether the first list has not begun.
    pub(super) fn gathers(&self) -> bool {
        !self.listed.load(Ordering::Relaxed)
    }

    /// Adds a cache. Call it only while the first list has not begun.
    pub(super) fn join(&self, member: &Arc<Member>) {
        self.change(|members| members.push(Arc::clone(member)));
    }

    /// Removes a cache and returns whether others remain.
    pub(super) fn leave(&self, member: &Arc<Member>) -> bool {
        member.takes_part.store(false, Ordering::Relaxed);
        self.change(|members| {
            members.retain(|other| !Arc::ptr_eq(other, member));
            !members.is_empty()
        })
    }

    /// Whether the watch is running and has passed on nothing beyond this version.
    pub(super) fn stands_by(&self, version: u64) -> bool {
        let told = self.told.load(Ordering::Relaxed);
        self.stands.load(Ordering::Relaxed) && (1..=version).contains(&told)
    }

    /// Takes over the caches of another feed; this feed's watch is running.
    pub(super) fn take_over(&self, other: &Self) {
        let late = other.change(std::mem::take);
        for member in &late {
            member.cache.sync_state().set_current(true);
        }
        self.change(|members| members.extend(late));
    }

    fn change<T>(&self, change: impl FnOnce(&mut Vec<Arc<Member>>) -> T) -> T {
        let mut state = lock(&self.members);
        let mut members = Vec::clone(&state);
        let answer = change(&mut members);
        *state = Arc::new(members);
        answer
    }

    /// Waits until the first list begins.
    pub(in crate::kube) async fn gathered(&self) {
        sleep_until(self.list_at).await;
    }

    /// Records that everything up to this version was passed on.
    pub(in crate::kube) fn told(&self, version: &str) {
        let version = version.parse().unwrap_or(0);
        self.told.store(version, Ordering::Relaxed);
        if let Some(feeds) = self.late.as_ref().and_then(Weak::upgrade) {
            feeds.merge(self, version);
        }
    }

    /// Whether a cache needs a new list after a gap in the watch.
    pub(in crate::kube) fn relist(&self) -> bool {
        let members = Arc::clone(&lock(&self.members));
        members.iter().any(|member| member.relist)
    }

    /// Begins a list, in which all caches that joined take part.
    pub(in crate::kube) fn begin_list(&self) {
        self.listed.store(true, Ordering::Relaxed);
        let members = Arc::clone(&lock(&self.members));
        for member in members.iter() {
            member.takes_part.store(true, Ordering::Relaxed);
            member.cache.begin_list();
        }
    }

    /// Reports that the server refuses the list, or the watch in its place, until somebody grants it.
    pub(in crate::kube) fn refused(&self, resource: &'static str, reason: &str) {
        let members = Arc::clone(&lock(&self.members));
        if self.unlisted.load(Ordering::Relaxed) && members.iter().any(|member| member.is_needed) {
            self.server.refuses(resource, reason);
        }
    }

    /// Ends a list, which is complete as of this version.
    pub(in crate::kube) fn finish_list(&self, resource: &'static str, version: &str) {
        if self.unlisted.swap(false, Ordering::Relaxed) {
            self.server.lists(resource);
        }
        self.each(|member| member.cache.finish_list(version));
    }

    /// Records that the watch is running, or has ended.
    pub(in crate::kube) fn set_current(&self, current: bool) {
        self.stands.store(current, Ordering::Relaxed);
        self.each(|member| member.cache.sync_state().set_current(current));
    }

    /// Whether every cache knows that the watch is running.
    pub(in crate::kube) fn are_current(&self) -> bool {
        let mut current = true;
        self.each(|member| current &= member.cache.sync_state().is_current());
        current
    }

    /// Passes on an object that the list or the watch brought.
    pub(in crate::kube) fn upsert(&self, object: &RawObject<'_>, resource: &str) {
        self.each(|member| {
            if let Err(error) = member.cache.upsert(object) {
                member.pass_over(object, resource, &error);
            }
        });
    }

    /// Passes on that the watch reports this object as gone.
    pub(in crate::kube) fn delete(&self, object: &RawObject<'_>, resource: &str) {
        self.each(|member| {
            if let Err(error) = member.cache.delete(object) {
                member.pass_over(object, resource, &error);
            }
        });
    }

    /// Visits the caches that take part, without holding a lock: a cache's handler may do anything.
    fn each(&self, mut visit: impl FnMut(&Member)) {
        let members = Arc::clone(&lock(&self.members));
        for member in members.iter() {
            if member.takes_part.load(Ordering::Relaxed) {
                visit(member);
            }
        }
    }
}
