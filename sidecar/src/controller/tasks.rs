//! What a controller does while it leads, and how that ends: nothing is begun any more, and what runs
//! is given time.

use std::convert::Infallible;
use std::time::Duration;

use tokio::time::sleep;

use super::engine::{Engine, Shell};
use super::reactor::Reactor;
use crate::flags::Exit;
use crate::shutdown::Shutdown;

/// How long running attempts may go on after a signal: less than the thirty seconds that a pod has
/// by default.
pub const GRACE: Duration = Duration::from_secs(25);

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
    /// Works until a signal comes, then finishes what is under way.
    ///
    /// # Errors
    /// How the process ends: as `lost` says.
    pub async fn run<R, E>(self, engine: &Engine<R, E>, shutdown: &Shutdown) -> Result<(), Exit>
    where
        R: Reactor,
        E: Shell<R>,
    {
        let (mut lost, mut serving) = (Box::pin(self.lost), Box::pin(self.serving));
        let mut background = Box::pin(self.background);
        tokio::select! {
            biased;
            exit = &mut lost => return Err(exit),
            () = shutdown.requested() => {}
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
                tracing::warn!(running, "Ending with operations still running");
            }
            never = &mut background => match never {},
        }
        Ok(())
    }
}
