//! Spreads requests over as many connections as the server's stream limit requires, and no more.
//!
//! An HTTP/2 server announces how many concurrent requests a connection accepts; API servers and proxies allow
//! about 100. Requests beyond that wait in the library until another one ends, which a watch does after minutes.
//! The pool counts requests and makes a further connection when all streams of the others are in use.

use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use hyper::body::{Body, Frame, SizeHint};
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

/// How long requests wait for the settings of a connection that another request is making. A connection that
/// takes longer may be to a server that is gone: then one of the waiting requests makes another connection, and
/// the others wait for that.
const SETTINGS_WAIT: Duration = Duration::from_secs(1);

/// How many concurrent requests a connection accepts, once the server has announced it. Clones belong to the
/// same connection and to those that replace it.
#[derive(Clone, Debug)]
pub(super) struct StreamLimit {
    /// 0 until the server has announced it.
    most: Arc<AtomicUsize>,
    changed: Arc<Notify>,
}

impl StreamLimit {
    fn new(changed: &Arc<Notify>) -> Self {
        Self {
            most: Arc::default(),
            changed: changed.clone(),
        }
    }

    /// Sets the limit that the server announced.
    pub(super) fn set(&self, requests: usize) {
        self.most.store(requests.max(1), Ordering::SeqCst);
        self.changed.notify_waiters();
    }

    fn most(&self) -> Option<usize> {
        Some(self.most.load(Ordering::SeqCst)).filter(|most| *most > 0)
    }
}

/// Clients of one server, each with one connection if that is HTTP/2; clones share them.
pub(super) struct Pool<C>(Arc<Clients<C>>);

struct Clients<C> {
    make: Box<dyn Fn(StreamLimit) -> C + Send + Sync>,
    all: Mutex<All<C>>,
    changed: Arc<Notify>,
}

struct All<C> {
    connections: Vec<Counted<C>>,
    /// Start of the last request that makes a connection and learns its limit.
    tried: Instant,
}

struct Counted<C> {
    client: C,
    limit: StreamLimit,
    /// Each running request holds a clone.
    running: Arc<()>,
}

impl<C: Clone> Counted<C> {
    fn is_known(&self) -> bool {
        self.limit.most().is_some()
    }

    /// Allows one request until the limit is known.
    fn has_free_stream(&self) -> bool {
        let running = Arc::strong_count(&self.running) - 1;
        running < self.limit.most().unwrap_or(1)
    }

    fn begin(&self) -> (C, Permit) {
        let permit = Permit {
            running: Some(self.running.clone()),
            changed: self.limit.changed.clone(),
        };
        (self.client.clone(), permit)
    }
}

impl<C> Clone for Pool<C> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<C: Clone> Pool<C> {
    /// A pool of clients that `make` makes and whose connections report their limits.
    pub(super) fn new(make: impl Fn(StreamLimit) -> C + Send + Sync + 'static) -> Self {
        Self(Arc::new(Clients {
            make: Box::new(make),
            all: Mutex::new(All {
                connections: Vec::new(),
                tried: Instant::now(),
            }),
            changed: Arc::default(),
        }))
    }

    /// A client whose connection has a free stream, for one request. Waits while a connection that is being made
    /// may turn out to have one.
    pub(super) async fn permit(&self) -> (C, Permit) {
        loop {
            let changed = self.0.changed.notified();
            tokio::pin!(changed);
            // No change is missed from here on.
            changed.as_mut().enable();
            let until = match self.take(&mut self.lock()) {
                Ok(begun) => return begun,
                Err(until) => until,
            };
            // Whatever ended the wait, check again from the start: another waiting request may have been first.
            let _ = timeout_at(until, changed).await;
        }
    }

    /// # Errors
    /// The time until which a connection in progress is waited for.
    fn take(&self, all: &mut All<C>) -> Result<(C, Permit), Instant> {
        let now = Instant::now();
        let free = all.connections.iter().find(|one| one.has_free_stream());
        if let Some(one) = free {
            if !one.is_known() {
                all.tried = now;
            }
            return Ok(one.begin());
        }
        let until = all.tried + SETTINGS_WAIT;
        if now < until && !all.connections.iter().all(Counted::is_known) {
            return Err(until);
        }
        let limit = StreamLimit::new(&self.0.changed);
        let one = Counted {
            client: (self.0.make)(limit.clone()),
            limit,
            running: Arc::default(),
        };
        let begun = one.begin();
        all.connections.push(one);
        all.tried = now;
        Ok(begun)
    }

    fn lock(&self) -> MutexGuard<'_, All<C>> {
        self.0.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A request's stream on a connection, freed when dropped.
#[derive(Debug)]
pub(super) struct Permit {
    running: Option<Arc<()>>,
    changed: Arc<Notify>,
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.running = None;
        self.changed.notify_waiters();
    }
}

/// The body of a response, which holds its request's stream until it ends.
#[derive(Debug)]
pub(super) struct PermitBody<B> {
    body: B,
    permit: Option<Permit>,
}

impl<B> PermitBody<B> {
    pub(super) fn new(body: B, permit: Permit) -> Self {
        let permit = Some(permit);
        Self { body, permit }
    }
}

impl<B: Body + Unpin> Body for PermitBody<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        if !matches!(frame, Some(Ok(_))) {
            self.permit = None;
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: Duration = Duration::from_secs(1);

    /// Numbered clients, and the limit of each.
    fn numbered() -> (Pool<usize>, Arc<Mutex<Vec<StreamLimit>>>) {
        let limits = Arc::new(Mutex::new(Vec::new()));
        let made = limits.clone();
        let pool = Pool::new(move |limit| {
            let mut made = made.lock().unwrap();
            made.push(limit);
            made.len() - 1
        });
        (pool, limits)
    }

    #[tokio::test(start_paused = true)]
    async fn a_further_connection_is_made_when_all_are_full_and_the_first_with_room_is_used() {
        let (pool, limits) = numbered();
        let (first, one) = pool.permit().await;
        limits.lock().unwrap()[0].set(2);
        let (second, _two) = pool.permit().await;
        let (third, three) = pool.permit().await;
        limits.lock().unwrap()[1].set(2);
        assert_eq!([first, second, third], [0, 0, 1]);
        drop(one);
        let (again, _one) = pool.permit().await;
        let (beside, _four) = pool.permit().await;
        assert_eq!([again, beside], [0, 1]);
        drop(three);
        assert_eq!(pool.permit().await.0, 1);
        assert_eq!(limits.lock().unwrap().len(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn what_comes_while_a_connection_is_made_waits_for_it_for_a_second() {
        let (pool, limits) = numbered();
        let (_, first) = pool.permit().await;
        let waiting = tokio::spawn({
            let pool = pool.clone();
            async move { pool.permit().await }
        });
        tokio::time::sleep(S / 2).await;
        assert!(!waiting.is_finished());
        // The attempt failed: the waiting request makes the next one.
        drop(first);
        let (second, _permit) = waiting.await.unwrap();
        assert_eq!((second, limits.lock().unwrap().len()), (0, 1));
        let before = Instant::now();
        let (third, _permit) = pool.permit().await;
        assert_eq!((third, before.elapsed()), (1, S));
        limits.lock().unwrap()[0].set(usize::MAX);
        let (_, permits): (Vec<_>, Vec<_>) =
            futures_util::future::join_all((0..100).map(|_| pool.permit()))
                .await
                .into_iter()
                .unzip();
        assert_eq!((permits.len(), limits.lock().unwrap().len()), (100, 2));
    }

    /// The server does not answer at first: all waiting requests together make one connection a second.
    #[tokio::test(start_paused = true)]
    async fn who_waits_for_a_server_makes_one_connection_a_second_with_all_the_others() {
        let (pool, limits) = numbered();
        let made = || limits.lock().unwrap().len();
        let permits = (0..50).map(|_| {
            let pool = pool.clone();
            async move { pool.permit().await }
        });
        let waiting = tokio::spawn(futures_util::future::join_all(permits));
        tokio::time::sleep(S / 2).await;
        for seconds in 0..5 {
            assert_eq!(made(), seconds + 1, "after {seconds} s and a half");
            tokio::time::sleep(S).await;
        }
        limits.lock().unwrap()[5].set(100);
        let served = waiting.await.unwrap();
        let of_last = served.iter().filter(|(client, _)| *client == 5).count();
        assert_eq!((served.len(), of_last, made()), (50, 45, 6));
    }
}
