//! One list and one watch for all caches of a kind.
//!
//! Several controllers of a process read the same objects, each into its own records. The API server is asked once; the
//! feed passes its objects to every cache, which handles them as if the list and the watch were its own. A cache that
//! subscribes later gets its own list and watch until those have caught up with the others; then it switches to theirs
//! without noticing. A controller's own write concerns its cache alone: the other caches learn of it from the watch, as
//! between two processes.

mod members;

use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ::kube::Client;
use tokio::task::AbortHandle;

use super::cache::Sink;
use super::reflect::{Reflector, Scope};
use crate::outage::Outage;

use members::Member;
pub(super) use members::Members;

/// The lists and watches of a process; clones share them.
#[derive(Clone)]
pub struct Feeds(Arc<Inner>);

pub(super) struct Inner {
    client: Client,
    gather: Duration,
    server: Outage,
    /// Feeds of the same scope are ordered by age, oldest first.
    open: Mutex<Vec<Feed>>,
}

struct Feed {
    scope: Scope,
    members: Arc<Members>,
    task: AbortHandle,
}

impl Feeds {
    /// Lists and watches with `client`. A cache's list begins `gather` after it subscribed, so that caches that
    /// subscribe meanwhile share one LIST; zero where there is one cache of each kind.
    pub fn new(client: Client, gather: Duration) -> Self {
        Self::reporting_to(&Outage::default(), client, gather)
    }

    /// Like [`new`](Self::new), and reports to `server` the refused lists that block all work.
    pub fn reporting_to(server: &Outage, client: Client, gather: Duration) -> Self {
        Self(Arc::new(Inner {
            client,
            gather,
            server: server.clone(),
            open: Mutex::default(),
        }))
    }

    /// Keeps a cache in step with the API server until it is dropped. `is_needed`: no work starts before the cache is
    /// complete.
    pub(crate) async fn keep(
        &self,
        scope: Scope,
        cache: Arc<dyn Sink>,
        is_needed: bool,
    ) -> Infallible {
        let _membership = self.join(scope, cache, is_needed);
        std::future::pending().await
    }

    fn join(&self, scope: Scope, cache: Arc<dyn Sink>, is_needed: bool) -> Membership {
        let member = Arc::new(Member::new(cache, scope.relist, is_needed));
        // Caches that differ only in these wishes share one LIST.
        let scope = Scope {
            relist: false,
            ..scope
        };
        let mut open = self.0.lock();
        let same = || open.iter().filter(|feed| feed.scope == scope);
        if let Some(feed) = same().find(|feed| feed.members.gathers()) {
            feed.members.join(&member);
        } else {
            let late = same().next().map(|_| Arc::downgrade(&self.0));
            let members = Members::new(self.0.gather, late, self.0.server.clone());
            let members = Arc::new(members);
            members.join(&member);
            let (client, followed) = (self.0.client.clone(), Arc::clone(&members));
            let reflector = Reflector::new(client, scope.clone(), followed);
            let task = tokio::spawn(reflector.run()).abort_handle();
            open.push(Feed {
                scope: scope.clone(),
                members,
                task,
            });
        }
        Membership {
            feeds: self.clone(),
            scope,
            member,
        }
    }
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, Vec<Feed>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Moves these caches, which have everything up to `version`, to an older feed that has come no further. Caches
    /// skip the events that the older feed repeats.
    fn merge(&self, members: &Members, version: u64) {
        let mut open = self.lock();
        let late = |feed: &Feed| std::ptr::eq(&*feed.members, members);
        let Some(at) = open.iter().position(late) else {
            return;
        };
        let scope = open.get(at).map(|feed| &feed.scope);
        let mut older = open.iter().take(at);
        let Some(into) =
            older.find(|feed| Some(&feed.scope) == scope && feed.members.stands_by(version))
        else {
            return;
        };
        into.members.take_over(members);
        open.remove(at).task.abort();
    }
}

/// A cache's subscription to a feed. Dropping the last one ends the feed.
struct Membership {
    feeds: Feeds,
    scope: Scope,
    member: Arc<Member>,
}

impl Drop for Membership {
    fn drop(&mut self) {
        self.feeds.0.lock().retain(|feed| {
            let is_used = feed.scope != self.scope || feed.members.leave(&self.member);
            if !is_used {
                self.feeds.0.server.lists(self.scope.resource.plural);
                feed.task.abort();
            }
            is_used
        });
        self.member.lost();
    }
}

#[cfg(test)]
mod tests;
