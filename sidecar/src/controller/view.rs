//! One controller's view of the driver: the capabilities it uses, its timeout, its name in the log.
//! The connection is the [`Link`]'s.

use std::convert::Infallible;
use std::fmt;
use std::future::{pending, poll_fn};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::watch;
use tonic::Code;

use super::incompatible::IncompatibleDriver;
use super::link::{Calls, Capabilities, Link};
use crate::csi::Channel;
use crate::csi::observe::Observer;
use crate::election::Fence;
use crate::rpc_code::RpcError;
use crate::rt::Exit;

/// A driver, as a controller's decisions see it.
pub trait Driver: fmt::Debug + PartialEq + Send + Sync + 'static {
    /// Settings that decisions need together with the driver.
    type Settings: Send + Sync + 'static;

    /// The controller's name in messages.
    const CONTROLLER: &'static str;

    /// Whether to ask for the controller's capabilities even if the driver offers no such service,
    /// which then usually fails.
    const ASKS_ANY_CONTROLLER: bool;

    /// Whether to ask for the node service's capabilities too, given the other ones. If the socket
    /// serves no node service, that usually ends the process.
    fn asks_node(_known: &Capabilities) -> bool {
        false
    }

    /// Whether to ask for the group controller's capabilities.
    fn asks_group(_with: &Self::Settings) -> bool {
        false
    }

    /// The driver of this name with these capabilities.
    ///
    /// # Errors
    /// How the process ends if it has nothing to do for such a driver.
    fn new(
        name: &str,
        capabilities: &Capabilities,
        settings: &Self::Settings,
    ) -> Result<Self, Exit>
    where
        Self: Sized;

    /// Name from `GetPluginInfo`.
    fn name(&self) -> &str;

    /// Whether the process may go on with `now`, the driver of the same name after a restart.
    ///
    /// # Errors
    /// Why it may not; the process ends with that text.
    fn accept(&self, _now: &Self) -> Result<(), IncompatibleDriver> {
        Ok(())
    }
}

/// One controller's current view of the driver.
pub struct View<D: Driver> {
    pub(super) link: Arc<Link>,
    calls: Calls,
    with: D::Settings,
    current: Mutex<Arc<D>>,
    /// Holds calls back once another replica may have this controller's lease.
    fence: Fence,
    /// The controller's name in the log.
    controller: Option<&'static str>,
    /// How the controller ends, once the driver is incompatible with it.
    incompatible: watch::Sender<Option<Exit>>,
}

impl<D: Driver> fmt::Debug for View<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("View")
            .field("current", &self.current())
            .finish_non_exhaustive()
    }
}

impl<D: Driver> View<D> {
    /// A view of the driver behind `link`, which is kept up to date. The link must have asked for the capabilities
    /// that this view needs, and lets nothing out on its own account; `fence` holds back what only this
    /// controller must not send any more. Its calls are logged under `controller`, if there are several.
    ///
    /// # Errors
    /// How the process ends if it has nothing to do for such a driver.
    pub fn new(
        link: Arc<Link>,
        calls: Calls,
        with: D::Settings,
        (fence, controller): (Fence, Option<&'static str>),
    ) -> Result<Arc<Self>, Exit> {
        let shared = Arc::clone(&link);
        shared.admit(|capabilities| {
            let driver = D::new(link.name(), capabilities, &with)?;
            Ok(Arc::new(Self {
                link,
                calls,
                with,
                current: Mutex::new(Arc::new(driver)),
                fence,
                controller,
                incompatible: watch::Sender::new(None),
            }))
        })
    }

    /// The connection, shared with other views.
    pub fn link(&self) -> &Link {
        &self.link
    }

    /// The driver's last report.
    pub fn current(&self) -> Arc<D> {
        Arc::clone(&self.lock())
    }

    /// `--timeout`.
    pub fn timeout(&self) -> Duration {
        self.calls.timeout
    }

    /// Calls `wake` each time the driver is reachable again.
    pub async fn whenever_back(&self, wake: impl Fn()) -> Infallible {
        self.link.whenever_back(wake).await
    }

    /// A channel for a call. While the driver restarts, waits as long as the call itself may take; without
    /// this controller's lease, for ever.
    ///
    /// # Errors
    /// The driver is still away, or came back incompatible with this controller.
    pub async fn channel(&self) -> Result<Channel, RpcError> {
        let channel = self.link.channel(self.calls.timeout).await?;
        poll_fn(|_| self.fence.poll_send()).await;
        if let Some(exit) = &*self.incompatible.borrow() {
            return Err(RpcError {
                code: Code::Unavailable,
                message: exit.error.clone().unwrap_or_default(),
            });
        }
        let channel = channel.guarded_by(self.fence.clone());
        Ok(channel.observed_by(self.observer()))
    }

    /// Follows the driver through its restarts; ends when it does not come back, or comes back incompatible
    /// with this controller. Others may go on.
    pub async fn follow(&self) -> Exit {
        self.unless_incompatible(Box::pin(self.link.follow())).await
    }

    pub(super) async fn unless_incompatible(&self, lost: impl Future<Output = Exit>) -> Exit {
        let incompatible = async {
            let mut told = self.incompatible.subscribe();
            let told = told.wait_for(Option::is_some).await;
            match told.ok().and_then(|exit| exit.clone()) {
                Some(exit) => exit,
                // Unreachable: `self` holds the sender.
                None => pending().await,
            }
        };
        tokio::select! {
            biased;
            exit = incompatible => exit,
            // The view's reason is more precise than the link's.
            exit = lost => self.incompatible.borrow().clone().unwrap_or(exit),
        }
    }

    fn observer(&self) -> Observer {
        let operations = self.link.operations();
        self.calls.observer(self.controller, operations)
    }

    /// Whether this controller may go on with `now`.
    fn accept(&self, now: D) -> Result<(), Exit> {
        let mut current = self.lock();
        let accepted = if current.name() == now.name() {
            current.accept(&now)
        } else {
            Err(IncompatibleDriver::Renamed {
                controller: D::CONTROLLER,
                before: current.name().to_owned(),
                now: now.name().to_owned(),
            })
        };
        accepted.map_err(|unacceptable| Exit::failure(1, unacceptable))?;
        if **current != now {
            tracing::info!(before = ?*current, ?now, "The CSI driver's capabilities changed");
            *current = Arc::new(now);
        }
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, Arc<D>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Told the driver's name and capabilities after each restart.
pub(super) trait Follower: Send + Sync {
    /// Takes in the driver's report. Returns whether this controller goes on with it.
    fn learn(&self, name: &str, capabilities: &Capabilities) -> bool;
}

impl<D: Driver> Follower for View<D> {
    fn learn(&self, name: &str, capabilities: &Capabilities) -> bool {
        let now = D::new(name, capabilities, &self.with);
        let accepted = now.and_then(|now| self.accept(now));
        if let Err(exit) = accepted {
            self.incompatible.send_replace(Some(exit));
        }
        self.incompatible.borrow().is_none()
    }
}

/// A driver to follow, whatever the controller's view of it.
pub trait Followed {
    /// The driver's name.
    fn driver_name(&self) -> &str;

    /// The connection.
    fn connection(&self) -> Weak<Link>;

    /// As [`View::follow`].
    fn until_lost(&self) -> Pin<Box<dyn Future<Output = Exit> + '_>>;
}

impl<D: Driver> Followed for View<D> {
    fn driver_name(&self) -> &str {
        self.link.name()
    }

    fn connection(&self) -> Weak<Link> {
        Arc::downgrade(&self.link)
    }

    fn until_lost(&self) -> Pin<Box<dyn Future<Output = Exit> + '_>> {
        Box::pin(self.follow())
    }
}
