//! livenessprobe's answer, in a process of controllers. Its connection to the driver is one of its own: it
//! stands for a caller that comes new.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use livenessprobe::args::{self, Config, Metrics};
use livenessprobe::driver::Driver;
use livenessprobe::{health, prober};
use sidecar::error::Chain;
use sidecar::flags::{Exit, Values};
use sidecar::http::{RouteError, Routes};
use sidecar::metrics::{CsiOperations, OperationsConfig, Registry};

/// What the command line asks of livenessprobe.
pub(super) struct Wanted {
    config: Config,
    /// Whether it has a listener of its own, for probes that were written for it.
    has_listener: bool,
}

impl Wanted {
    /// # Errors
    /// As livenessprobe.
    pub(super) fn new(values: &Values) -> Result<Self, Exit> {
        Ok(Self {
            config: args::decide(values)?,
            has_listener: values.is_set("http-endpoint") || values.is_set("health-port"),
        })
    }
}

/// The driver's answer on `/healthz`.
pub(super) struct Liveness {
    config: Config,
    has_listener: bool,
    registry: Registry,
    /// The driver is asked before it is known how calls to it are counted.
    driver: Arc<Mutex<Arc<Driver>>>,
}

impl Liveness {
    /// As livenessprobe's own flags say.
    ///
    /// # Errors
    /// The metrics contradict each other, which they do not.
    pub(super) fn new(wanted: Wanted, registry: &Registry) -> Result<Self, Exit> {
        let Wanted {
            config,
            has_listener,
        } = wanted;
        let operations = CsiOperations::unregistered(OperationsConfig::default())?;
        let driver = Arc::new(driver(&config, operations));
        Ok(Self {
            config,
            has_listener,
            registry: registry.clone(),
            driver: Arc::new(Mutex::new(driver)),
        })
    }

    /// Its calls are counted with those of the controllers from now on.
    pub(super) fn counted_by(&self, operations: &CsiOperations) {
        *lock(&self.driver) = Arc::new(driver(&self.config, operations.clone()));
    }

    /// Answers on the process' own server.
    ///
    /// # Errors
    /// The path is taken.
    pub(super) fn add_to(&self, routes: &mut Routes) -> Result<(), RouteError> {
        let driver = Arc::clone(&self.driver);
        let current = move || Arc::clone(&lock(&driver));
        health::add(routes, current, self.config.timeout)
    }

    /// Answers on the listener that old probes ask, if there is one, as long as `working`.
    ///
    /// # Errors
    /// As `working`, and nobody can listen there.
    pub(super) async fn beside(
        &self,
        working: impl Future<Output = Result<(), Exit>>,
    ) -> Result<(), Exit> {
        let asking = async {
            // As a caller that comes new it asks the name once, whatever the controllers know.
            let driver = Arc::clone(&lock(&self.driver));
            if let Err(error) = driver.name().await {
                tracing::error!(err = %Chain(&error), "livenessprobe cannot get the driver's name");
            }
            std::future::pending::<std::convert::Infallible>().await
        };
        let serving = async {
            if !self.has_listener {
                return std::future::pending::<Result<(), Exit>>().await;
            }
            let mut routes = Routes::new();
            let added = self.add_to(&mut routes);
            let added = added.and_then(|()| match &self.config.metrics {
                Metrics::WithHealth(path) => routes.add_metrics(path, &self.registry),
                Metrics::None | Metrics::Apart(_, _) => Ok(()),
            });
            added.map_err(|error| Exit::failure(2, format_args!("--metrics-path: {error}")))?;
            let server = prober::bind(&self.config.health, 1).await?;
            server.serve(routes).await;
            Err(Exit::failure(1, "the HTTP server of livenessprobe ended"))
        };
        tokio::select! {
            result = working => result,
            result = serving => result,
            never = asking => match never {},
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn driver(config: &Config, operations: CsiOperations) -> Driver {
    Driver::new(config.address.clone(), operations).among_controllers("livenessprobe")
}
