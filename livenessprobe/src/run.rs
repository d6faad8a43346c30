//! Puts the parts together, in the order in which upstream does things.

use std::ffi::OsString;
use std::sync::Arc;

use sidecar::error::Chain;
use sidecar::flags::{self, Exit};
use sidecar::http::{RouteError, Routes, Server};
use sidecar::log;
use sidecar::metrics::{CsiOperations, OperationsConfig, Process, Registry};
use sidecar::shutdown::Shutdown;

use crate::args::{self, Config, Listener, Metrics};
use crate::driver::Driver;
use crate::health;

/// Set by the build.
const VERSION: &str = match option_env!("CSI_SIDECARS_VERSION") {
    Some(version) => version,
    None => "unknown",
};

/// Runs livenessprobe.
///
/// # Errors
/// How the process ends; it does so by a signal or because something is wrong.
pub async fn run(argv: impl IntoIterator<Item = OsString>) -> Result<(), Exit> {
    let values = flags::parse(&args::SPEC, argv)?;
    let log = log::Config::from_flags(&values)?;
    let config = args::decide(&values)?;
    log::init(&log, &["livenessprobe"]);
    // There is no --version.
    tracing::info!(version = VERSION, "Starting");
    // Every signal kills, but for process 1, which the kernel spares.
    let _signals = Shutdown::listen(&[])?;
    serve(config).await
}

async fn serve(config: Config) -> Result<(), Exit> {
    let registry = Registry::with_process(Process::StartTime);
    let operations = CsiOperations::new(&registry, OperationsConfig::default())?;
    let driver = Arc::new(Driver::new(config.address, operations.clone()));
    let mut routes = health::routes(&driver, config.timeout)?;
    let mut apart = None;
    match config.metrics {
        Metrics::None => {}
        Metrics::WithHealth(path) => routes.add_metrics(&path, &registry).map_err(bad_path)?,
        Metrics::Apart(listener, path) => {
            apart = Some((
                listener,
                health::metrics(&path, &registry).map_err(bad_path)?,
            ));
        }
    }
    // No listener yet: until the driver has answered, a health request finds nobody.
    let name = driver.name().await?;
    // The question itself is on record under no name, as upstream has it.
    operations.set_driver_name(&name);
    tracing::info!(driver = name, "The driver has told its name");
    let metrics = match apart {
        Some((listener, routes)) => Some((bind(&listener, 1).await?, routes)),
        None => None,
    };
    // Upstream logs that this listener failed, and ends without an error.
    let health = bind(&config.health, 0).await?;
    tokio::join!(health.serve(routes), serve_if_any(metrics));
    Ok(())
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

async fn bind(listener: &Listener, code: u8) -> Result<Server, Exit> {
    match Server::bind(&listener.address).await {
        Ok(server) => {
            // The port may have been left to the system.
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
