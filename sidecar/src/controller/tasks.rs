//! What a controller does while it leads, and how that ends: nothing is begun any more, and what runs
//! is given time.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::sleep;

use super::engine::{Engine, Shell};
use super::reactor::Reactor;
use crate::flags::Exit;
use crate::shutdown::Requested;

/// How long running attempts may go on after a signal: less than the thirty seconds that a pod has
/// by default.
pub const GRACE: Duration = Duration::from_secs(25);

/// What works until it is told to stop: an engine, or several.
pub trait Drain {
    /// Nothing is begun from now on.
    fn shut_down(&self);

    /// Waits until nothing runs.
    fn drained(&self) -> impl Future<Output = ()>;

    /// What runs.
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

/// What a controller does at the same time while it leads.
pub struct Tasks<L, S, B> {
    /// Resolves when there is nothing to work with any more, such as the driver.
    pub lost: L,
    /// The work. It ends by itself once the engine is shut down.
    pub serving: S,
    /// What goes on beside it until the end, such as watching.
    pub background: B,
    /// For running attempts after a signal; usually [`GRACE`].
    pub grace: Duration,
}

impl<L, S, B> Tasks<L, S, B>
where
    L: Future<Output = Exit>,
    S: Future<Output = ()>,
    B: Future<Output = Infallible>,
{
    /// Works until it is to end, then finishes what is under way.
    ///
    /// # Errors
    /// How the process ends: as `lost` says.
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
