//! Assembles the program, in upstream's order.

use std::ffi::OsString;

use sidecar::build;
use sidecar::flags::{self, Exit};
use sidecar::log;
use sidecar::shutdown::{Shutdown, Signal};

use crate::args::{self, Command, Config};
use crate::registrar::Registrar;

/// The upstream program that it replaces.
pub const REPLACES: &str = "csi-node-driver-registrar v2.17.0-40-g3482d444";

const NO_CLIENT: &str = "--remove-taint: csi-node-driver-registrar has no client of the API server: run \
                         csi-node-sidecars --controllers=node-driver-registrar with the same flags instead";

/// Runs csi-node-driver-registrar.
///
/// # Errors
/// The exit of the process, unless SIGTERM stops it in good order.
pub async fn run(argv: impl IntoIterator<Item = OsString>) -> Result<(), Exit> {
    let values = flags::parse(&args::SPEC, argv)?;
    let log = log::Config::from_flags(&values)?;
    match args::decide(&values)? {
        Command::Version => Err(Exit::version(values.program())),
        Command::Probe => Ok(()),
        Command::Register(config) if !config.remove_taint.is_empty() => {
            Err(Exit::failure(1, NO_CLIENT))
        }
        Command::Register(config) => {
            log::init(&log, &["registrar", "csi_node_driver_registrar"]);
            build::announce("csi-node-driver-registrar");
            tracing::info!(mode = config.mode, "Starting");
            register(*config).await
        }
    }
}

async fn register(config: Config) -> Result<(), Exit> {
    // SIGTERM still kills here, except for process 1, which the kernel spares.
    let early = Shutdown::listen(&[])?;
    let registrar = Registrar::meet_driver(config).await?;
    // Before the socket exists, so that none is left behind.
    let shutdown = Shutdown::listen(&[Signal::Terminate])?;
    drop(early);
    registrar.run(&shutdown.request()).await?;
    Ok(())
}
