//! Requests over as many connections as the server asks for, and no more.
//!
//! With HTTP/2 a server says at the beginning how many requests a connection takes at once; API servers
//! and proxies say about 100. What is sent beyond that waits in the library until another one ends, which
//! a watch does after minutes. So requests are counted, and where there is no room a further connection is
//! made.

use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use hyper::body::{Body, Frame, SizeHint};
use tokio::sync::Notify;
use tokio::time::timeout;

/// How long the first request of a connection is waited for until it is known whether there is room beside
/// it. One that takes longer may be on its way to a server that is gone.
const PATIENCE: Duration = Duration::from_secs(1);

/// How many requests a connection takes at once, once that is known. Clones are of the same connection, and
/// of those that replace it.
#[derive(Clone, Debug)]
pub(super) struct Room {
    /// 0 before it is known.
    most: Arc<AtomicUsize>,
    changed: Arc<Notify>,
}

impl Room {
    fn new(changed: &Arc<Notify>) -> Self {
        Self {
            most: Arc::default(),
            changed: changed.clone(),
        }
    }

    /// The server takes so many.
    pub(super) fn is_for(&self, requests: usize) {
        self.most.store(requests.max(1), Ordering::SeqCst);
        self.changed.notify_waiters();
    }

    fn most(&self) -> Option<usize> {
        Some(self.most.load(Ordering::SeqCst)).filter(|most| *most > 0)
    }
}

/// Clients of one server, each of which has one connection if that is HTTP/2; clones are the same.
pub(super) struct Spread<C>(Arc<Clients<C>>);

struct Clients<C> {
    make: Box<dyn Fn(Room) -> C + Send + Sync>,
    all: Mutex<Vec<Counted<C>>>,
    changed: Arc<Notify>,
}

struct Counted<C> {
    client: C,
    room: Room,
    /// Has a clone in each request that runs.
    running: Arc<()>,
}

impl<C: Clone> Counted<C> {
    /// The first request finds out what there is room for.
    fn has_room(&self) -> bool {
        let running = Arc::strong_count(&self.running) - 1;
        running < self.room.most().unwrap_or(1)
    }

    fn begin(&self) -> (C, Place) {
        let place = Place {
            running: Some(self.running.clone()),
            changed: self.room.changed.clone(),
        };
        (self.client.clone(), place)
    }
}

impl<C> Clone for Spread<C> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<C: Clone> Spread<C> {
    /// Over clients that `make` makes, whose connections say what they have room for.
    pub(super) fn new(make: impl Fn(Room) -> C + Send + Sync + 'static) -> Self {
        Self(Arc::new(Clients {
            make: Box::new(make),
            all: Mutex::default(),
            changed: Arc::default(),
        }))
    }

    /// A client whose connection has room, for one request.
    pub(super) async fn place(&self) -> (C, Place) {
        let found = timeout(PATIENCE, self.found()).await;
        found.unwrap_or_else(|_elapsed| self.take(&mut self.lock()))
    }

    /// Waits while it may turn out that there is room.
    async fn found(&self) -> (C, Place) {
        loop {
            let changed = self.0.changed.notified();
            tokio::pin!(changed);
            // From here on no change is missed.
            changed.as_mut().enable();
            {
                let mut all = self.lock();
                let is_known = |one: &Counted<C>| one.room.most().is_some();
                if all.iter().any(Counted::has_room) || all.iter().all(is_known) {
                    return self.take(&mut all);
                }
            }
            changed.await;
        }
    }

    fn take(&self, all: &mut Vec<Counted<C>>) -> (C, Place) {
        if let Some(one) = all.iter().find(|one| one.has_room()) {
            return one.begin();
        }
        let room = Room::new(&self.0.changed);
        let one = Counted {
            client: (self.0.make)(room.clone()),
            room,
            running: Arc::default(),
        };
        let begun = one.begin();
        all.push(one);
        begun
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Counted<C>>> {
        self.0.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a request takes up on a connection, until it is dropped.
#[derive(Debug)]
pub(super) struct Place {
    running: Option<Arc<()>>,
    changed: Arc<Notify>,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.running = None;
        self.changed.notify_waiters();
    }
}

/// The body of an answer, which takes up a place until its end.
#[derive(Debug)]
pub(super) struct Placed<B> {
    body: B,
    place: Option<Place>,
}

impl<B> Placed<B> {
    pub(super) fn new(body: B, place: Place) -> Self {
        let place = Some(place);
        Self { body, place }
    }
}

impl<B: Body + Unpin> Body for Placed<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        if !matches!(frame, Some(Ok(_))) {
            self.place = None;
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

    /// Numbered clients, and what says how much room each has.
    fn numbered() -> (Spread<usize>, Arc<Mutex<Vec<Room>>>) {
        let rooms = Arc::new(Mutex::new(Vec::new()));
        let made = rooms.clone();
        let spread = Spread::new(move |room| {
            let mut made = made.lock().unwrap();
            made.push(room);
            made.len() - 1
        });
        (spread, rooms)
    }

    #[tokio::test(start_paused = true)]
    async fn a_further_connection_is_made_when_all_are_full_and_the_first_with_room_is_used() {
        let (spread, rooms) = numbered();
        let (first, one) = spread.place().await;
        rooms.lock().unwrap()[0].is_for(2);
        let (second, _two) = spread.place().await;
        let (third, three) = spread.place().await;
        rooms.lock().unwrap()[1].is_for(2);
        assert_eq!([first, second, third], [0, 0, 1]);
        drop(one);
        let (again, _one) = spread.place().await;
        let (beside, _four) = spread.place().await;
        assert_eq!([again, beside], [0, 1]);
        drop(three);
        assert_eq!(spread.place().await.0, 1);
        assert_eq!(rooms.lock().unwrap().len(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn what_comes_while_a_connection_is_made_waits_for_it_for_a_second() {
        let (spread, rooms) = numbered();
        let (_, first) = spread.place().await;
        let waiting = tokio::spawn({
            let spread = spread.clone();
            async move { spread.place().await }
        });
        tokio::time::sleep(S / 2).await;
        assert!(!waiting.is_finished());
        // The attempt failed: whoever waited makes the next.
        drop(first);
        let (second, _place) = waiting.await.unwrap();
        assert_eq!((second, rooms.lock().unwrap().len()), (0, 1));
        let before = tokio::time::Instant::now();
        let (third, _place) = spread.place().await;
        assert_eq!((third, before.elapsed()), (1, S));
        rooms.lock().unwrap()[0].is_for(usize::MAX);
        let (_, places): (Vec<_>, Vec<_>) =
            futures_util::future::join_all((0..100).map(|_| spread.place()))
                .await
                .into_iter()
                .unzip();
        assert_eq!((places.len(), rooms.lock().unwrap().len()), (100, 2));
    }
}
