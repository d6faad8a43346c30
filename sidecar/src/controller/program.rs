//! From the command line to the start of a program that runs one controller.

use std::ffi::OsString;

use super::process::{Process, Program};
use super::seat::Seat;
use crate::build;
use crate::flags::{self, Exit, Spec, Values};
use crate::log;

/// What the command line asks for.
#[derive(Debug, Clone, PartialEq)]
pub enum Command<C> {
    /// Print the version.
    Version,
    /// Run the controller with these settings.
    Run(Box<C>),
}

/// Reads the command line, starts the log, and passes on to `start`.
///
/// `decide` turns the flags into a command, with warnings to log.
///
/// # Errors
/// How the process ends; without error if a signal ends it in good order.
pub async fn run<C>(
    program: Program,
    spec: &Spec,
    argv: impl IntoIterator<Item = OsString>,
    decide: impl FnOnce(&Values) -> Result<(Command<C>, Vec<String>), Exit>,
    start: impl AsyncFnOnce(Seat, C) -> Result<(), Exit>,
) -> Result<(), Exit> {
    let values = flags::parse(spec, argv)?;
    let config = log::Config::from_flags(&values)?;
    log::init(&config, program.crates);
    let (command, warnings) = decide(&values)?;
    if matches!(command, Command::Run(_)) {
        build::announce(program.name);
    }
    for warning in warnings {
        tracing::warn!("{warning}");
    }
    let config = match command {
        Command::Version => return Err(Exit::version(values.program())),
        Command::Run(config) => *config,
    };
    let process = Process::new(&values, program).await?;
    Box::pin(start(Seat::sole(process, program), config)).await
}
