//! What one controller makes of the driver: which of its capabilities count, how long calls may take,
//! how they are logged. The connection is the [`Link`]'s.

use std::convert::Infallible;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use super::link::{Calls, Capabilities, Link};
use crate::csi::Channel;
use crate::rpc_code::RpcError;
use crate::rt::Exit;

/// A driver as a controller's decisions see it.
pub trait Driver: fmt::Debug + PartialEq + Send + Sync + 'static {
    /// Settings that decisions need together with the driver.
    type Settings: Send + Sync + 'static;
    /// Why the process cannot go on with what the driver has become.
    type IncompatibleDriver: fmt::Display;

    /// Whether the controller is asked for its calls even if the driver offers no such service,
    /// which then usually fails.
    const ASKS_ANY_CONTROLLER: bool;

    /// Whether the node service is asked for its calls too, in view of the other capabilities.
    /// Where the socket has no such service, that usually ends the process.
    fn asks_node(_known: &Capabilities) -> bool {
        false
    }

    /// Whether the group controller is asked for its calls.
    fn asks_group(_with: &Self::Settings) -> bool {
        false
    }

    /// The driver of this name.
    ///
    /// # Errors
    /// How the process ends if there is nothing that it could do with such a driver.
    fn new(
        name: &str,
        capabilities: &Capabilities,
        settings: &Self::Settings,
    ) -> Result<Self, Exit>
    where
        Self: Sized;

    /// Name from `GetPluginInfo`.
    fn name(&self) -> &str;

    /// Whether the process may go on with `now`, what the driver came back as.
    ///
    /// # Errors
    /// Says why it may not; the process ends with that text.
    fn accept(&self, now: &Self) -> Result<(), Self::IncompatibleDriver>;
}

/// The driver, as it is known now.
pub struct View<D: Driver> {
    link: Arc<Link>,
    calls: Calls,
    with: D::Settings,
    current: Mutex<Arc<D>>,
}

impl<D: Driver> fmt::Debug for View<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("View")
            .field("current", &self.current())
            .finish_non_exhaustive()
    }
}

impl<D: Driver> View<D> {
    /// A view of the driver behind `link`, which is kept up to date.
    ///
    /// # Errors
    /// How the process ends if there is nothing that it could do with such a driver.
    pub fn new(link: Arc<Link>, calls: Calls, with: D::Settings) -> Result<Arc<Self>, Exit> {
        let driver = D::new(link.name(), &link.capabilities(), &with)?;
        let view = Arc::new(Self {
            link,
            calls,
            with,
            current: Mutex::new(Arc::new(driver)),
        });
        let weak: Weak<Self> = Arc::downgrade(&view);
        view.link.tell(weak);
        Ok(view)
    }

    /// The connection, which other views share.
    pub fn link(&self) -> &Link {
        &self.link
    }

    /// What is known of the driver.
    pub fn current(&self) -> Arc<D> {
        Arc::clone(&self.lock())
    }

    /// `--timeout`.
    pub fn timeout(&self) -> Duration {
        self.calls.timeout
    }

    /// Calls `wake` each time the driver can be asked again.
    pub async fn whenever_back(&self, wake: impl Fn()) -> Infallible {
        self.link.whenever_back(wake).await
    }

    /// A channel for a call. While the driver restarts this waits, though not longer than the call
    /// itself could have taken.
    ///
    /// # Errors
    /// The driver is still away.
    pub async fn channel(&self) -> Result<Channel, RpcError> {
        let channel = self.link.channel(self.calls.timeout).await?;
        Ok(channel.observed_by(self.calls.observer(self.link.operations())))
    }

    fn lock(&self) -> MutexGuard<'_, Arc<D>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Who has to know what the driver came back as.
pub(super) trait Follower: Send + Sync {
    /// The driver is back.
    ///
    /// # Errors
    /// How the process ends if it cannot go on with that.
    fn learn(&self, name: &str, capabilities: &Capabilities) -> Result<(), Exit>;
}

impl<D: Driver> Follower for View<D> {
    fn learn(&self, name: &str, capabilities: &Capabilities) -> Result<(), Exit> {
        let now = D::new(name, capabilities, &self.with)?;
        let mut current = self.lock();
        let accepted = current.accept(&now);
        accepted.map_err(|unacceptable| Exit::failure(1, unacceptable))?;
        if **current != now {
            tracing::info!(before = ?*current, ?now, "The CSI driver's capabilities changed");
            *current = Arc::new(now);
        }
        Ok(())
    }
}
