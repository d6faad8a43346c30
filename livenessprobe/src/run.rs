//! Assembles the program, in upstream's order.

use std::ffi::OsString;

use sidecar::build;
use sidecar::flags::{self, Exit};
use sidecar::log;
use sidecar::metrics::{Process, Registry};
use sidecar::shutdown::Shutdown;

use crate::args::{self, Config};
pub use crate::prober::bind;
use crate::prober::{Listeners, Prober};

const NAME: &str = "livenessprobe";

/// The upstream program that it replaces.
pub const REPLACES: &str = "livenessprobe v2.19.0-31-ge60f18af";

/// Runs livenessprobe.
///
/// # Errors
/// The exit of the process; only a signal or an error ends it.
pub async fn run(argv: impl IntoIterator<Item = OsString>) -> Result<(), Exit> {
    let values = flags::parse(&args::SPEC, argv)?;
    let log = log::Config::from_flags(&values)?;
    if values.bool("version") {
        return Err(Exit::version(values.program()));
    }
    let config = args::decide(&values)?;
    log::init(&log, &["livenessprobe"]);
    build::announce(NAME);
    // Every signal kills, except for process 1, which the kernel spares.
    let _signals = Shutdown::listen(&[])?;
    serve(config).await
}

async fn serve(config: Config) -> Result<(), Exit> {
    let registry = Registry::with_process(Process::StartTime);
    build::register(&registry, NAME, REPLACES)?;
    let prober = Prober::new(&config, &registry)?;
    let listeners = Listeners::new(&config, &prober, &registry)?;
    // No listener yet: until the driver has answered, health requests cannot connect.
    prober.meet_driver().await?;
    listeners.serve().await
}
