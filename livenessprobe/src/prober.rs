//! The work of livenessprobe, in a process of its own or in one that it shares with other programs.

use std::sync::Arc;
use std::time::Duration;

use sidecar::error::Chain;
use sidecar::flags::Exit;
use sidecar::http::{Reply, RouteError, Routes, Server};
use sidecar::metrics::{CsiOperations, OperationsConfig, Registry};

use crate::args::{Config, Listener, Metrics};
use crate::driver::Driver;
use crate::health;

/// Turns health requests into Probes of the driver; clones share the connection.
#[derive(Clone, Debug)]
pub struct Prober {
    driver: Arc<Driver>,
    operations: CsiOperations,
    timeout: Duration,
}

impl Prober {
    /// A prober that is not connected yet, with the metrics of its calls in `registry`.
    ///
    /// # Errors
    /// The registry has these metrics already.
    pub fn new(config: &Config, registry: &Registry) -> Result<Self, Exit> {
        let operations = CsiOperations::new(registry, OperationsConfig::default())?;
        let driver = Driver::new(config.address.clone(), operations.clone());
        Ok(Self {
            driver: Arc::new(driver),
            operations,
            timeout: config.timeout,
        })
    }

    /// Waits until the driver has returned its name, without limit.
    ///
    /// # Errors
    /// The driver's answer is an error, or contains no name.
    pub async fn meet_driver(&self) -> Result<(), Exit> {
        let name = self.driver.name().await?;
        // As in upstream, the call for the name itself has no driver name in the metrics.
        self.operations.set_driver_name(&name);
        tracing::info!(driver = name, "Got the driver's name");
        Ok(())
    }

    /// The answer to one health request.
    pub async fn health(&self) -> Reply {
        health::of(&self.driver, self.timeout).await
    }
}

/// The HTTP servers of livenessprobe as a program.
#[derive(Debug)]
pub struct Listeners {
    health: (Listener, Routes),
    metrics: Option<(Listener, Routes)>,
}

impl Listeners {
    /// The servers of `config`; they do not listen yet.
    ///
    /// # Errors
    /// `--metrics-path` is no path (code 2).
    pub fn new(config: &Config, prober: &Prober, registry: &Registry) -> Result<Self, Exit> {
        let mut routes = health::routes(&prober.driver, prober.timeout)?;
        let mut apart = None;
        match &config.metrics {
            Metrics::None => {}
            Metrics::WithHealth(path) => routes.add_metrics(path, registry).map_err(bad_path)?,
            Metrics::Apart(listener, path) => {
                let routes = health::metrics(path, registry).map_err(bad_path)?;
                apart = Some((listener.clone(), routes));
            }
        }
        Ok(Self {
            health: (config.health.clone(), routes),
            metrics: apart,
        })
    }

    /// Listens and answers.
    ///
    /// # Errors
    /// The address cannot be bound.
    pub async fn serve(self) -> Result<(), Exit> {
        let metrics = match self.metrics {
            Some((listener, routes)) => Some((bind(&listener, 1).await?, routes)),
            None => None,
        };
        let (listener, routes) = self.health;
        // Upstream logs that this listener failed, and ends without an error.
        let health = bind(&listener, 0).await?;
        tokio::join!(health.serve(routes), serve_if_any(metrics));
        Ok(())
    }
}

async fn serve_if_any(server: Option<(Server, Routes)>) {
    if let Some((server, routes)) = server {
        server.serve(routes).await;
    }
}

/// Go's HTTP library panics, which is exit code 2.
fn bad_path(error: RouteError) -> Exit {
    Exit::failure(2, format_args!("--metrics-path: {}", Chain(&error)))
}

/// Listens on an address; an error ends the process with `code`.
///
/// # Errors
/// The address cannot be bound.
pub async fn bind(listener: &Listener, code: u8) -> Result<Server, Exit> {
    match Server::bind(&listener.address).await {
        Ok(server) => {
            // The system may have chosen the port.
            let address = server
                .local_addr()
                .map_or_else(|_| listener.address.clone(), |address| address.to_string());
            tracing::info!(address, flag = listener.flag, "HTTP server is listening");
            Ok(server)
        }
        Err(error) => Err(Exit::failure(
            code,
            format_args!(
                "{}: cannot start the HTTP server: {}",
                listener.flag,
                Chain(&error)
            ),
        )),
    }
}
