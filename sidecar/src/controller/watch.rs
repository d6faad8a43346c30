//! A controller's watches, as data: which objects, when they are needed, how often to resync them, and
//! which work waits for them.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{join, join_all};
use tokio::time::{sleep, timeout};

use crate::kube::cache::{Cache, Record, Sink};
use crate::kube::feed::Feeds;
use crate::kube::reflect::{Resource, Scope};

/// One kind of objects that a controller watches. `W` distinguishes the sorts of work, if it has several
/// that start independently.
pub struct Watch<W = ()> {
    scope: Scope,
    cache: Arc<dyn Sink>,
    is_needed: bool,
    resync: Option<Duration>,
    start: Start,
    only_for: Option<W>,
}

/// The state of the watch that work waits for.
#[derive(Clone, Copy, Debug)]
enum Start {
    /// All objects were listed once.
    Listed,
    /// Listed, or this much time has passed: then work goes on without them, and the text is logged.
    ListedWithin(Duration, &'static str),
    /// The watch is open.
    Current,
    /// Work does not wait.
    AtOnce,
}

impl<W> Watch<W> {
    /// All objects of a kind, in all namespaces. Work waits until they were listed.
    pub fn all<R: Record>(resource: Resource, cache: &Cache<R>) -> Self {
        Self::of(Scope::all(resource), cache)
    }

    /// The objects in `scope`. Work waits until they were listed.
    pub fn of<R: Record>(scope: Scope, cache: &Cache<R>) -> Self {
        Self {
            scope,
            cache: Arc::new(cache.clone()),
            is_needed: true,
            resync: None,
            start: Start::Listed,
            only_for: None,
        }
    }

    /// Watches them only if `needed`.
    #[must_use]
    pub fn when(mut self, needed: bool) -> Self {
        self.is_needed = needed;
        self
    }

    /// Passes every object to the controller once per `period`; zero means never.
    #[must_use]
    pub fn resync(mut self, period: Duration) -> Self {
        self.resync = Some(period);
        self
    }

    /// Optional objects: work waits for them no longer than `patience`, then logs `without` and goes on.
    #[must_use]
    pub fn within(mut self, patience: Duration, without: &'static str) -> Self {
        self.start = Start::ListedWithin(patience, without);
        self
    }

    /// Relists after a gap rather than waiting for missed events, and makes work wait for an open
    /// watch.
    #[must_use]
    pub fn current(mut self) -> Self {
        self.scope.relist = true;
        self.start = Start::Current;
        self
    }

    /// Work does not wait for them.
    #[must_use]
    pub fn at_once(mut self) -> Self {
        self.start = Start::AtOnce;
        self
    }

    /// Only this sort of work waits for them.
    #[must_use]
    pub fn only_for(mut self, work: W) -> Self {
        self.only_for = Some(work);
        self
    }

    /// Whether work cannot start without them.
    fn is_awaited(&self) -> bool {
        matches!(self.start, Start::Listed | Start::Current)
    }

    async fn ready(&self) {
        let state = self.cache.sync_state();
        match self.start {
            Start::Listed => state.synced().await,
            Start::ListedWithin(patience, without) => {
                if timeout(patience, state.synced()).await.is_err() {
                    tracing::warn!("{without}");
                }
            }
            Start::Current => state.current().await,
            Start::AtOnce => {}
        }
    }
}

/// Keeps the caches of the needed watches in sync with the API server, for ever.
pub async fn keep<W>(feeds: &Feeds, watches: &[Watch<W>]) -> Infallible {
    let needed = watches.iter().filter(|watch| watch.is_needed);
    let watching = needed.map(|watch| {
        let Watch { scope, cache, .. } = watch;
        join(
            feeds.keep(scope.clone(), Arc::clone(cache), watch.is_awaited()),
            resync_every(watch.resync, &**cache),
        )
    });
    join_all(watching).await;
    std::future::pending().await
}

/// Passes every object to a cache's handler once per `period`; never without one.
async fn resync_every(period: Option<Duration>, cache: &dyn Sink) -> Infallible {
    let Some(period) = period.filter(|period| !period.is_zero()) else {
        return std::future::pending().await;
    };
    cache.sync_state().synced().await;
    loop {
        sleep(period).await;
        cache.resync();
    }
}

/// The kinds of objects that are watched.
pub fn kinds<W>(watches: &[Watch<W>]) -> impl Iterator<Item = &'static str> {
    let needed = watches.iter().filter(|watch| watch.is_needed);
    needed.map(|watch| watch.scope.resource.plural)
}

/// The kinds of objects that are watched, with their caches.
pub(super) fn lists<W>(
    watches: &[Watch<W>],
) -> impl Iterator<Item = (&'static str, Arc<dyn Sink>)> {
    let needed = watches.iter().filter(|watch| watch.is_needed);
    needed.map(|watch| (watch.scope.resource.plural, Arc::clone(&watch.cache)))
}

/// Waits, in the order of `watches`, for everything that work needs.
pub async fn ready(watches: &[Watch]) {
    ready_for(watches, &()).await;
}

/// Waits, in the order of `watches`, for everything that this sort of work needs.
pub async fn ready_for<W: PartialEq>(watches: &[Watch<W>], work: &W) {
    for watch in watches {
        let concerns = watch.only_for.as_ref().is_none_or(|only| only == work);
        if watch.is_needed && concerns {
            watch.ready().await;
        }
    }
}

#[cfg(test)]
mod tests;
