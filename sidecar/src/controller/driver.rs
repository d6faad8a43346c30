//! The driver behind its socket: how it is met, and how it is followed through its restarts.
//!
//! A restart of the driver's container does not end this process: calls wait, the driver is probed
//! and asked anew, and work goes on. What it must not come back as ends the process with one line.

mod ask;

use std::convert::Infallible;
use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};
use tonic::Code;

use crate::csi::connection::{self, Address, Connection, Losses, OnLoss, Options};
use crate::csi::identity::{
    self, ControllerCapabilities, IdentityError, NodeCapabilities, PluginCapabilities,
};
use crate::csi::observe::Observer;
use crate::csi::{Channel, loss};
use crate::error::Chain;
use crate::metrics::{CsiOperations, OperationsConfig, Registry};
use crate::rpc_code::RpcError;
use crate::rt::Exit;

pub use ask::{Identity, Settings};

/// Pause between attempts to find the driver again.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// What a driver says it can do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Capabilities {
    /// Services it offers.
    pub plugin: PluginCapabilities,
    /// Calls of its controller.
    pub controller: ControllerCapabilities,
    /// Calls of its node service; empty if it was not asked.
    pub node: NodeCapabilities,
}

/// A driver as a program's decisions see it.
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

/// A driver that is ready and has told its name, but not yet what it can do.
#[derive(Debug)]
pub struct Met {
    connection: Connection,
    settings: Settings,
    name: String,
}

impl Met {
    /// As [`meet`](Self::meet), with calls counted in `registry`, where they have the label `migrated`
    /// if volumes of an in-tree plugin were moved to a driver of this name: such a driver is
    /// connected and probed once more, since its name is not known before.
    ///
    /// # Errors
    /// How the process ends.
    pub async fn meet_counted(
        settings: Settings,
        registry: &Registry,
        is_migrated: impl FnOnce(&str) -> bool,
    ) -> Result<(Self, CsiOperations), Exit> {
        let operations = CsiOperations::unregistered(OperationsConfig::default())?;
        let met = Self::meet(settings, &operations).await?;
        let (met, operations) = match is_migrated(&met.name) {
            false => (met, operations),
            true => {
                let migrated = CsiOperations::unregistered(OperationsConfig {
                    migrated: true,
                    ..OperationsConfig::default()
                })?;
                let connection = connect(&met.settings, &migrated).await?;
                (Self { connection, ..met }, migrated)
            }
        };
        operations.register(registry)?;
        Ok((met, operations))
    }

    /// Connects, waits until the driver is ready and asks its name.
    ///
    /// # Errors
    /// How the process ends.
    pub async fn meet(settings: Settings, operations: &CsiOperations) -> Result<Self, Exit> {
        let connection = connect(&settings, operations).await?;
        let name = settings.name(connection.channel()).await;
        let name = name.map_err(|error| settings.refused(&error))?;
        Ok(Self {
            connection,
            settings,
            name,
        })
    }

    /// The driver's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Asks what the driver can do.
    ///
    /// # Errors
    /// How the process ends.
    pub async fn know<D: Driver>(self, with: D::Settings) -> Result<Arc<DriverLink<D>>, Exit> {
        let channel = self.connection.channel();
        let answer = self.settings.capabilities::<D>(channel);
        let capabilities = { answer.await }.map_err(|error| self.settings.refused(&error))?;
        let driver = D::new(&self.name, &capabilities, &with)?;
        Ok(Arc::new(DriverLink {
            recovered: Mutex::new(self.connection.losses()),
            connection: self.connection,
            settings: self.settings,
            with,
            current: Mutex::new(Arc::new(driver)),
            away: watch::Sender::new(false),
        }))
    }
}

/// Connects and waits until the driver is ready.
async fn connect(settings: &Settings, operations: &CsiOperations) -> Result<Connection, Exit> {
    let address = Address::parse(&settings.address, OnLoss::Stop)?;
    let options = Options {
        observer: Observer {
            methods: settings.methods,
            response_limit: settings.response_limit,
            operations: Some(operations.clone()),
        },
        fence: settings.fence.clone(),
        ..Options::new(OnLoss::Reconnect)
    };
    let connection = connection::connect(&address, options).await?;
    identity::probe_until_ready(connection.channel(), settings.timeout).await?;
    Ok(connection)
}

/// The driver, as it is known now.
pub struct DriverLink<D: Driver> {
    connection: Connection,
    settings: Settings,
    with: D::Settings,
    current: Mutex<Arc<D>>,
    away: watch::Sender<bool>,
    /// Behind the last loss after which the driver was found again. Who follows may be dropped at
    /// any point, as at the end of a campaign, and the next one goes on from here.
    recovered: Mutex<Losses>,
}

impl<D: Driver> fmt::Debug for DriverLink<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DriverLink")
            .field("current", &self.current())
            .finish_non_exhaustive()
    }
}

impl<D: Driver> DriverLink<D> {
    /// What is known of the driver.
    pub fn current(&self) -> Arc<D> {
        let current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(&current)
    }

    /// `--timeout`.
    pub fn timeout(&self) -> Duration {
        self.settings.timeout
    }

    /// Calls `wake` each time the driver can be asked again.
    pub async fn whenever_back(&self, wake: impl Fn()) -> Infallible {
        let mut away = self.away.subscribe();
        while away.changed().await.is_ok() {
            if !*away.borrow_and_update() {
                wake();
            }
        }
        // Cannot be: `self` holds the sender.
        std::future::pending().await
    }

    /// A channel for a call. While the driver restarts this waits, though not longer than the call
    /// itself could have taken.
    ///
    /// # Errors
    /// The driver is still away.
    pub async fn channel(&self) -> Result<Channel, RpcError> {
        let mut away = self.away.subscribe();
        let back = timeout(self.settings.timeout, away.wait_for(|away| !away));
        match back.await {
            Ok(_) => Ok(self.connection.channel()),
            Err(_elapsed) => Err(RpcError {
                code: Code::Unavailable,
                message: "the connection to the CSI driver is lost".to_owned(),
            }),
        }
    }

    /// Follows the driver through its restarts; ends when it came back as something else, or not.
    pub async fn follow(&self) -> Exit {
        self.follow_noting(Path::new(loss::TERMINATION_LOG)).await
    }

    async fn follow_noting(&self, termination_log: &Path) -> Exit {
        let mut losses = self.recovered().clone();
        loop {
            losses.next().await;
            self.away.send_replace(true);
            let name = self.current().name().to_owned();
            tracing::error!(
                driver = name,
                "Lost the connection to the CSI driver, waiting for it to come back"
            );
            let lost = Instant::now();
            let limit = self.settings.patience.unwrap_or(Duration::MAX);
            let now = match timeout(limit, self.ask_again()).await {
                Ok(Ok(now)) => now,
                Ok(Err(exit)) => return exit,
                Err(_elapsed) => return loss::lost(&self.connection, termination_log).await,
            };
            if let Err(unacceptable) = self.current().accept(&now) {
                return Exit::failure(1, unacceptable);
            }
            self.learn(now);
            *self.recovered() = losses.clone();
            self.away.send_replace(false);
            let seconds = lost.elapsed().as_secs_f32();
            tracing::info!(driver = name, seconds, "The CSI driver is back");
        }
    }

    fn recovered(&self) -> MutexGuard<'_, Losses> {
        self.recovered
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn learn(&self, now: D) {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if **current != now {
            tracing::info!(before = ?*current, ?now, "The CSI driver's capabilities changed");
            *current = Arc::new(now);
        }
    }

    /// Asks until there is an answer. Each call connects anew if it has to.
    async fn ask_again(&self) -> Result<D, Exit> {
        let mut last = String::new();
        loop {
            match self.ask().await {
                Ok(answer) => return answer,
                Err(reason) if reason == last => {}
                Err(reason) => {
                    tracing::warn!(reason, "The CSI driver is not back yet");
                    last = reason;
                }
            }
            sleep(RETRY_INTERVAL).await;
        }
    }

    async fn ask(&self) -> Result<Result<D, Exit>, String> {
        let text = |error: IdentityError| Chain(&error).to_string();
        let channel = self.connection.channel();
        match identity::probe(channel.clone(), self.settings.timeout).await {
            Ok(true) => {}
            Ok(false) => return Err("CSI driver is not ready".to_owned()),
            Err(status) => return Err(text(IdentityError::Probe(status))),
        }
        let name = self.settings.name(channel.clone()).await;
        let capabilities = self.settings.capabilities::<D>(channel).await;
        let name = name.map_err(text)?;
        Ok(D::new(&name, &capabilities.map_err(text)?, &self.with))
    }
}

#[cfg(test)]
mod tests {
    use sidecar_testkit::FakeDriver;

    use super::*;
    use crate::election::Fence;
    use crate::metrics::{OperationsConfig, Registry};

    const SOON: Duration = Duration::from_secs(20);

    #[derive(Debug, PartialEq)]
    struct Named(String);

    impl Driver for Named {
        type Settings = ();
        type IncompatibleDriver = String;

        const ASKS_ANY_CONTROLLER: bool = false;

        fn new(name: &str, _: &Capabilities, (): &()) -> Result<Self, Exit> {
            Ok(Self(name.to_owned()))
        }

        fn name(&self) -> &str {
            &self.0
        }

        fn accept(&self, now: &Self) -> Result<(), String> {
            match self == now {
                true => Ok(()),
                false => Err(format!("{} became {}", self.0, now.0)),
            }
        }
    }

    fn settings(driver: &FakeDriver, identity: Identity) -> Settings {
        use csi_proto::csi::methods;
        Settings {
            address: driver.address(),
            timeout: Duration::from_millis(300),
            identity,
            methods: &[methods::IDENTITY],
            response_limit: None,
            patience: None,
            mute: 1,
            fence: Fence::default(),
        }
    }

    async fn meet(settings: Settings) -> Arc<DriverLink<Named>> {
        let operations = CsiOperations::new(&Registry::new(), OperationsConfig::default());
        let met = Met::meet(settings, &operations.unwrap()).await;
        met.unwrap().know(()).await.unwrap()
    }

    async fn link(driver: &FakeDriver, patience: Option<Duration>) -> Arc<DriverLink<Named>> {
        driver.start();
        let settings = Settings {
            patience,
            ..settings(driver, Identity::Each(SOON))
        };
        meet(settings).await
    }

    #[tokio::test]
    async fn time_in_which_the_process_stood_still_is_not_the_drivers() {
        let limit = Duration::from_millis(300);
        let driver = FakeDriver::new("test.csi.driver");
        driver.start();
        // The runtime has one thread: while it sleeps nothing here runs.
        let stand_still_in = async |method: &str| {
            while driver.calls_to(method).is_empty() {
                tokio::task::yield_now().await;
            }
            std::thread::sleep(limit * 3);
        };
        let still = async {
            stand_still_in("GetPluginInfo").await;
            stand_still_in("GetPluginCapabilities").await;
        };
        let met = meet(settings(&driver, Identity::Together(limit)));
        let (link, ()) = tokio::join!(met, still);
        assert_eq!(link.current().name(), "test.csi.driver");
    }

    #[tokio::test]
    async fn a_leader_whose_driver_stays_away_makes_room() {
        let driver = FakeDriver::new("test.csi.driver");
        let link = link(&driver, Some(Duration::from_millis(300))).await;
        let note = driver.directory().join("termination-log");
        driver.stop();
        let start = Instant::now();
        let exit = timeout(SOON, link.follow_noting(&note)).await.unwrap();
        assert!(start.elapsed() >= Duration::from_millis(300));
        assert_eq!(
            (exit.code, exit.error.as_deref()),
            (1, Some(loss::LAST_WORDS))
        );
        assert_eq!(std::fs::read_to_string(note).unwrap(), loss::LAST_WORDS);
    }

    #[tokio::test]
    async fn without_replicas_the_driver_is_waited_for() {
        let driver = FakeDriver::new("test.csi.driver");
        let link = link(&driver, None).await;
        let followed = link.follow();
        tokio::pin!(followed);
        driver.stop();
        let away = timeout(Duration::from_secs(1), &mut followed).await;
        assert!(away.is_err(), "it waits");
        let error = link.channel().await.expect_err("there is none meanwhile");
        assert_eq!(error.code, Code::Unavailable);
        driver.start();
        let back = async { while link.channel().await.is_err() {} };
        tokio::select! {
            exit = &mut followed => panic!("{exit:?}"),
            back = timeout(SOON, back) => back.unwrap(),
        }
    }

    #[tokio::test]
    async fn who_follows_next_takes_over_where_the_last_one_was_dropped() {
        let log = crate::log::capture();
        let said = |text: &str| {
            log.lines()
                .iter()
                .filter(|line| line.contains(text))
                .count()
        };
        let driver = FakeDriver::new("test.csi.driver");
        let link = link(&driver, None).await;
        driver.stop();
        let brief = Duration::from_millis(200);
        assert!(timeout(brief, link.follow()).await.is_err());
        assert_eq!(said("Lost the connection"), 1);
        driver.start();
        let back = async {
            while said("The CSI driver is back") == 0 {
                sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::select! {
            exit = link.follow() => panic!("{exit:?}"),
            back = timeout(SOON, back) => back.unwrap(),
        }
        assert_eq!(said("Lost the connection"), 2, "found again only then");
        assert!(timeout(brief, link.follow()).await.is_err());
        assert_eq!(said("Lost the connection"), 2, "that one is over");
        assert!(link.channel().await.is_ok());
    }

    #[tokio::test]
    async fn a_driver_that_comes_back_as_another_ends_the_process() {
        let driver = FakeDriver::new("test.csi.driver");
        let link = link(&driver, None).await;
        driver.stop();
        driver.configure(|model| model.name = "other".to_owned());
        driver.start();
        let exit = timeout(SOON, link.follow()).await.unwrap();
        let text = "test.csi.driver became other";
        assert_eq!((exit.code, exit.error.as_deref()), (1, Some(text)));
    }
}
