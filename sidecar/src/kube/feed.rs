//! One list and one watch for all caches of a kind.
//!
//! Several controllers of a process want to know the same objects, each in records of its own. The API
//! server is asked once; what it says is given to every cache, which takes it as if the list and the
//! watch were its own. What a controller writes is its cache's affair alone: to the others it is news, at
//! the moment when the watch brings it, as between two processes.

mod members;

use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ::kube::Client;
use tokio::task::AbortHandle;

use super::cache::Sink;
use super::reflect::{Reflector, Scope};

use members::Member;
pub(super) use members::Members;

/// The lists and watches of a process; clones are the same.
#[derive(Clone)]
pub struct Feeds(Arc<Inner>);

struct Inner {
    client: Client,
    gather: Duration,
    open: Mutex<Vec<Feed>>,
}

struct Feed {
    scope: Scope,
    members: Arc<Members>,
    task: AbortHandle,
}

impl Feeds {
    /// Lists and watches with `client`. A cache that joins is given a list `gather` later, so that others
    /// that join meanwhile have the same one: zero where there is one cache of each kind.
    pub fn new(client: Client, gather: Duration) -> Self {
        Self(Arc::new(Inner {
            client,
            gather,
            open: Mutex::default(),
        }))
    }

    /// Keeps a cache in step with the API server until it is dropped.
    pub(crate) async fn keep(&self, scope: Scope, cache: Arc<dyn Sink>) -> Infallible {
        let _membership = self.join(scope, cache);
        std::future::pending().await
    }

    fn join(&self, scope: Scope, cache: Arc<dyn Sink>) -> Membership {
        let member = Arc::new(Member::new(cache, scope.relist));
        // What each cache wants besides is no reason for a list of its own.
        let scope = Scope {
            relist: false,
            ..scope
        };
        let mut open = self.lock();
        if let Some(feed) = open.iter().find(|feed| feed.scope == scope) {
            feed.members.join(&member, self.0.gather);
        } else {
            let members = Arc::new(Members::default());
            members.join(&member, self.0.gather);
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

    fn lock(&self) -> MutexGuard<'_, Vec<Feed>> {
        self.0.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A cache's part in a feed. The last one takes the feed with it.
struct Membership {
    feeds: Feeds,
    scope: Scope,
    member: Arc<Member>,
}

impl Drop for Membership {
    fn drop(&mut self) {
        self.feeds.lock().retain(|feed| {
            let is_used = feed.scope != self.scope || feed.members.leave(&self.member);
            if !is_used {
                feed.task.abort();
            }
            is_used
        });
        self.member.lost();
    }
}

#[cfg(test)]
mod tests;
