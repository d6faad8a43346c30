//! livenessprobe in a process of controllers. It uses its own connection to the driver, to test whether
//! a new caller can connect.

use std::sync::{Arc, Mutex};

use livenessprobe::args::{self, Config, Metrics};
use livenessprobe::driver::Driver;
use livenessprobe::{health, prober};
use sidecar::error::Chain;
use sidecar::flags::{Exit, Values};
use sidecar::http::{RouteError, Routes};
use sidecar::metrics::{CsiOperations, OperationsConfig, Registry};
use sidecar::mutex::lock;

/// The configuration of livenessprobe.
pub(super) struct Wanted {
    config: Config,
    /// Whether it has its own listener, for probes written for the single program.
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

/// Serves the driver's health on `/healthz`.
pub(super) struct Liveness {
    config: Config,
    has_listener: bool,
    registry: Registry,
    /// Replaced once the metrics of driver calls exist, since the driver may be probed earlier.
    driver: Arc<Mutex<Arc<Driver>>>,
}

impl Liveness {
    /// Configured by livenessprobe's own flags.
    ///
    /// # Errors
    /// If the metrics contradict each other, which does not happen.
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

    /// From now on, counts its calls in the controllers' metrics.
    pub(super) fn counted_by(&self, operations: &CsiOperations) {
        *lock(&self.driver) = Arc::new(driver(&self.config, operations.clone()));
    }

    /// Adds `/healthz` to the process's own server.
    ///
    /// # Errors
    /// If the path is in use.
    pub(super) fn add_to(&self, routes: &mut Routes) -> Result<(), RouteError> {
        let driver = Arc::clone(&self.driver);
        let current = move || Arc::clone(&lock(&driver));
        health::add(routes, current, self.config.timeout)
    }

    /// Also serves the listener for old probes, if configured, as long as `working` runs.
    ///
    /// # Errors
    /// As `working`, or if the listener cannot be opened.
    pub(super) async fn beside(
        &self,
        working: impl Future<Output = Result<(), Exit>>,
    ) -> Result<(), Exit> {
        let asking = async {
            // Gets the name once, as a new caller would, whatever the controllers know.
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

fn driver(config: &Config, operations: CsiOperations) -> Driver {
    Driver::new(config.address.clone(), operations).among_controllers("livenessprobe")
}
