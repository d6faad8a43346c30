//! What a controller watches, as data: which objects, when they are needed, how often they are looked
//! at again, and what must not begin before they are known.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{join, join_all};
use tokio::time::{sleep, timeout};

use crate::kube::cache::{Cache, Record, Sink};
use crate::kube::feed::Feeds;
use crate::kube::reflect::{Resource, Scope};

/// One kind of objects that a controller watches. `W` tells its sorts of work apart, if it has several
/// that begin independently.
pub struct Watch<W = ()> {
    scope: Scope,
    cache: Arc<dyn Sink>,
    is_needed: bool,
    resync: Option<Duration>,
    start: Start,
    only_for: Option<W>,
}

/// What work waits for.
#[derive(Clone, Copy, Debug)]
enum Start {
    /// All objects were listed once.
    Listed,
    /// The same, but no longer than this: then work goes on without, and the text is logged.
    ListedWithin(Duration, &'static str),
    /// The watch stands.
    Current,
    /// Nothing.
    AtOnce,
}

impl<W> Watch<W> {
    /// All objects of a kind, whatever their namespace. Work waits until they were listed.
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

    /// They are watched only where `needed`.
    #[must_use]
    pub fn when(mut self, needed: bool) -> Self {
        self.is_needed = needed;
        self
    }

    /// The controller is told about every object once per so long; zero is never.
    #[must_use]
    pub fn resync(mut self, period: Duration) -> Self {
        self.resync = Some(period);
        self
    }

    /// Work that can do without does not wait for longer than this, and logs `without` then.
    #[must_use]
    pub fn within(mut self, patience: Duration, without: &'static str) -> Self {
        self.start = Start::ListedWithin(patience, without);
        self
    }

    /// What was missed while there was no watch is listed rather than waited for, and work waits for a
    /// watch that stands.
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

    /// Whether there is no work before they are known.
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

/// Keeps the caches of what is needed in step with the API server, for ever.
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

/// Tells a cache's handler about every object once per `period`; never without one.
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

/// Waits, in the order of `watches`, until everything that work needs is known.
pub async fn ready(watches: &[Watch]) {
    ready_for(watches, &()).await;
}

/// Waits, in the order of `watches`, until everything that this sort of work needs is known.
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
