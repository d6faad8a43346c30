//! The connection to the driver: the first handshake, and following the driver through restarts. One per
//! process; each controller has its own [`View`](super::View) of the driver.
//!
//! A restart of the driver's container does not end this process: calls wait, the driver is probed
//! and asked again, and work goes on. If an incompatible driver returns, the process exits with the reason.

mod ask;
mod handshake;

use std::convert::Infallible;
use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout};
use tonic::Code;

use super::view::Follower;
use crate::csi::connection::{Connection, Losses};
use crate::csi::identity::{
    self, ControllerCapabilities, GroupCapabilities, IdentityError, NodeCapabilities, Plugin,
    PluginCapabilities,
};
use crate::csi::loss::{RETRY_INTERVAL, until_answered};
use crate::csi::{Channel, loss};
use crate::error::Chain;
use crate::metrics::CsiOperations;
use crate::mutex::lock;
use crate::rpc_code::RpcError;
use crate::rt::Exit;

pub use ask::{Calls, Identity, Questions, Settings};
pub use handshake::DriverHandshake;

/// The driver's capabilities.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Capabilities {
    /// Services that the plugin offers.
    pub plugin: PluginCapabilities,
    /// Capabilities of its controller service.
    pub controller: ControllerCapabilities,
    /// Capabilities of its node service; empty if not asked.
    pub node: NodeCapabilities,
    /// Capabilities of its group controller; empty if it has none or was not asked.
    pub group: GroupCapabilities,
}

impl Capabilities {
    /// The names of all capabilities, as in the CSI specification.
    pub fn names(&self) -> impl Iterator<Item = String> {
        let calls = self.controller.names().chain(self.node.names());
        self.plugin.names().chain(calls).chain(self.group.names())
    }
}

/// The connection to the driver.
pub struct Link {
    connection: Connection,
    settings: Settings,
    operations: CsiOperations,
    questions: Questions,
    name: String,
    known: Mutex<Known>,
    away: watch::Sender<bool>,
    /// Since when it is away, or there.
    turned: Mutex<Instant>,
    /// Position after the last loss from which the driver came back. The following task may be dropped at
    /// any point, as at the end of a campaign, and the next one continues from here.
    recovered: Mutex<Losses>,
    /// Held by the task that follows. Once it gives the driver up, the outcome for all.
    following: tokio::sync::Mutex<Option<(Lost, Exit)>>,
}

/// Why a driver is no longer followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lost {
    /// The driver did not come back in time.
    StaysAway,
    /// Another driver came back: leases and finalizers carry the first one's name.
    Renamed,
}

/// The driver's last report and the views informed of it, under one lock, so that no view misses a report.
#[derive(Default)]
struct Known {
    capabilities: Capabilities,
    views: Vec<Weak<dyn Follower>>,
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl Link {
    /// The driver's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Counts calls under the driver's name from now on.
    pub fn name_calls(&self) {
        self.operations.set_driver_name(&self.name);
    }

    /// Adds a view of the driver's last report. After a restart it learns of the new report before calls
    /// go on.
    ///
    /// # Errors
    /// As returned by `make`.
    pub(super) fn admit<V: Follower + 'static>(
        &self,
        make: impl FnOnce(&Capabilities) -> Result<Arc<V>, Exit>,
    ) -> Result<Arc<V>, Exit> {
        let mut known = lock(&self.known);
        let view = make(&known.capabilities)?;
        known.views.retain(|view| view.strong_count() > 0);
        let weak: Weak<V> = Arc::downgrade(&view);
        known.views.push(weak);
        Ok(view)
    }

    /// Whether the driver can be asked, and since when that is so.
    pub fn state(&self) -> (bool, std::time::Instant) {
        (!*self.away.borrow(), lock(&self.turned).into_std())
    }

    fn turn(&self, is_away: bool) {
        *lock(&self.turned) = Instant::now();
        self.away.send_replace(is_away);
    }

    /// The metrics of calls to the driver.
    pub fn operations(&self) -> &CsiOperations {
        &self.operations
    }

    /// Calls `wake` each time the driver is reachable again.
    pub async fn whenever_back(&self, wake: impl Fn()) -> Infallible {
        let mut away = self.away.subscribe();
        while away.changed().await.is_ok() {
            if !*away.borrow_and_update() {
                wake();
            }
        }
        // Unreachable: `self` holds the sender.
        std::future::pending().await
    }

    /// A channel for a call. While the driver restarts, waits up to `limit`.
    ///
    /// # Errors
    /// The driver is still unreachable.
    pub async fn channel(&self, limit: Duration) -> Result<Channel, RpcError> {
        let mut away = self.away.subscribe();
        let back = timeout(limit, away.wait_for(|away| !away));
        match back.await {
            Ok(_) => Ok(self.connection.channel()),
            Err(_elapsed) => Err(RpcError {
                code: Code::Unavailable,
                message: "the connection to the CSI driver is lost".to_owned(),
            }),
        }
    }

    /// Follows the driver through its restarts; ends when it does not come back. Each controller's view decides
    /// what a driver that came back means for the controller.
    ///
    /// If several tasks call this, one of them follows, and another one takes over if that is dropped. All of
    /// them get the outcome.
    pub async fn follow(&self) -> Exit {
        self.follow_to_the_end().await.1
    }

    /// As [`follow`](Self::follow), for callers that look for the driver again.
    pub async fn lost(&self) -> (Lost, Exit) {
        self.follow_to_the_end().await
    }

    async fn follow_to_the_end(&self) -> (Lost, Exit) {
        let log = Path::new(loss::TERMINATION_LOG);
        let log = self.settings.is_last_word.then_some(log);
        self.follow_noting(log).await
    }

    pub(super) async fn follow_noting(&self, termination_log: Option<&Path>) -> (Lost, Exit) {
        let mut ended = self.following.lock().await;
        if let Some(ended) = &*ended {
            return ended.clone();
        }
        let lost = self.keep_up().await;
        let exit = match (lost, termination_log) {
            (Lost::StaysAway, Some(log)) => loss::lost(&self.connection, log).await,
            (Lost::StaysAway, None) => Exit::failure(1, loss::LAST_WORDS),
            (Lost::Renamed, _) => Exit::failure(
                1,
                format_args!("the CSI driver is another one than {}", self.name),
            ),
        };
        *ended = Some((lost, exit.clone()));
        (lost, exit)
    }

    async fn keep_up(&self) -> Lost {
        let mut losses = lock(&self.recovered).clone();
        let driver = self.name();
        // A driver that soon closes each connection is asked no more often than one that is down.
        let mut next = Instant::now();
        loop {
            losses.next().await;
            self.turn(true);
            let lost = Instant::now();
            sleep_until(next).await;
            next = Instant::now() + RETRY_INTERVAL;
            let at_once = loss::back_at_once(&losses, self.ask()).await;
            let is_told = at_once.is_none();
            let (plugin, capabilities) = match at_once {
                Some(answer) => answer,
                None => {
                    tracing::error!(
                        driver,
                        "Lost the connection to the CSI driver, waiting for it to come back"
                    );
                    let address = &self.settings.address;
                    let away = format!("{driver} does not answer at {address}, waiting for it");
                    let _hindered = self.settings.hindrances.meanwhile("CSI driver", away);
                    let limit = self.settings.patience.unwrap_or(Duration::MAX);
                    let asking = until_answered(|| self.ask());
                    let Ok(answer) = timeout(limit, asking).await else {
                        return Lost::StaysAway;
                    };
                    answer
                }
            };
            self.settings.info.set(&plugin, &capabilities);
            let is_taken = self.tell(&plugin.name, capabilities);
            if plugin.name != self.name {
                let name = plugin.name;
                tracing::error!(driver, name, "Another CSI driver came back");
                return Lost::Renamed;
            }
            *lock(&self.recovered) = losses.clone();
            self.turn(false);
            let seconds = lost.elapsed().as_secs_f32();
            if is_taken && is_told {
                tracing::info!(driver, seconds, "The CSI driver is back");
            } else if !is_taken {
                tracing::error!(
                    driver,
                    seconds,
                    "The CSI driver restarted with capabilities that no controller here can work with"
                );
            }
        }
    }

    /// Reports the driver that came back to all views. Returns whether any view goes on with it, or begins to.
    fn tell(&self, name: &str, capabilities: Capabilities) -> bool {
        let mut known = lock(&self.known);
        let (mut told, mut going_on) = (0_usize, 0_usize);
        known.views.retain(|view| {
            let view = view.upgrade();
            if let Some(view) = &view {
                told += 1;
                going_on += usize::from(view.learn(name, &capabilities));
            }
            view.is_some()
        });
        known.capabilities = capabilities;
        told == 0 || going_on > 0
    }

    /// Each call reconnects if it has to.
    async fn ask(&self) -> Result<(Plugin, Capabilities), String> {
        let text = |error: IdentityError| Chain(&error).to_string();
        let channel = self.connection.channel();
        match identity::probe(channel.clone(), self.settings.calls.timeout).await {
            Ok(true) => {}
            Ok(false) => return Err("CSI driver is not ready".to_owned()),
            Err(status) => return Err(text(IdentityError::Probe(status))),
        }
        let plugin = self.settings.plugin(channel.clone()).await;
        let capabilities = self.settings.capabilities(channel, &self.questions).await;
        Ok((plugin.map_err(text)?, capabilities.map_err(text)?))
    }
}

#[cfg(test)]
mod tests;
