//! A controller's tasks while it leads, and their end: nothing new starts, and running attempts get
//! time to finish.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::sleep;

use super::engine::{Engine, Shell};
use super::reactor::Reactor;
use crate::flags::Exit;
use crate::shutdown::Requested;

/// How long running attempts may go on after a signal: less than the default termination grace period
/// of a pod, 30 seconds.
pub const GRACE: Duration = Duration::from_secs(25);

/// Work that can be shut down: one engine, or several.
pub trait Drain {
    /// Starts nothing any more.
    fn shut_down(&self);

    /// Waits until nothing runs.
    fn drained(&self) -> impl Future<Output = ()>;

    /// Number of attempts that are running.
    fn running(&self) -> usize;
}

impl<R: Reactor, S: Shell<R>> Drain for Engine<R, S> {
    fn shut_down(&self) {
        self.shut_down();
    }

    async fn drained(&self) {
        self.drained().await;
    }

    fn running(&self) -> usize {
        self.running()
    }
}

impl<T: Drain> Drain for Arc<T> {
    fn shut_down(&self) {
        (**self).shut_down();
    }

    async fn drained(&self) {
        (**self).drained().await;
    }

    fn running(&self) -> usize {
        (**self).running()
    }
}

impl<T: Drain> Drain for [T] {
    fn shut_down(&self) {
        self.iter().for_each(Drain::shut_down);
    }

    async fn drained(&self) {
        join_all(self.iter().map(Drain::drained)).await;
    }

    fn running(&self) -> usize {
        self.iter().map(Drain::running).sum()
    }
}

/// A controller's concurrent tasks while it leads.
pub struct Tasks<L, S, B> {
    /// Resolves when work cannot continue, as without the driver.
    pub lost: L,
    /// The work. Ends by itself once the engine is shut down.
    pub serving: S,
    /// Tasks that run beside it until the end, such as watches.
    pub background: B,
    /// Time for running attempts after a signal; usually [`GRACE`].
    pub grace: Duration,
}

impl<L, S, B> Tasks<L, S, B>
where
    L: Future<Output = Exit>,
    S: Future<Output = ()>,
    B: Future<Output = Infallible>,
{
    /// Works until it must end, then finishes running attempts.
    ///
    /// # Errors
    /// How the process ends, from `lost`.
    pub async fn run(self, engine: &(impl Drain + ?Sized), ending: &Requested) -> Result<(), Exit> {
        let (mut lost, mut serving) = (Box::pin(self.lost), Box::pin(self.serving));
        let mut background = Box::pin(self.background);
        tokio::select! {
            biased;
            exit = &mut lost => return Err(exit),
            () = ending.requested() => {}
            () = &mut serving => {}
            never = &mut background => match never {},
        }
        engine.shut_down();
        tokio::select! {
            biased;
            () = engine.drained() => tracing::info!("All running operations have ended"),
            () = &mut serving => {}
            exit = &mut lost => return Err(exit),
            () = sleep(self.grace) => {
                let running = engine.running();
                tracing::warn!(running, "Exiting with operations still running");
            }
            never = &mut background => match never {},
        }
        Ok(())
    }
}
