//! The controllers that the command line selects, each configured by its own program's rules.

use sidecar::controller::zpages::FlagTable;
use sidecar::controller::{AnyController, Command, Controller, Program, Seat};
use sidecar::flags::{Exit, Values};

use super::liveness::Wanted;
use crate::node;
use crate::plan::split::{Part, name_in_process};
use crate::programs;

/// A part of the command line, and its parsed flags.
pub(super) struct Read {
    pub(super) part: Part,
    pub(super) values: Values,
}

/// A controller and its configuration.
pub(super) struct Chosen<'a> {
    pub(super) name: &'static str,
    pub(super) is_named: bool,
    pub(super) values: &'a Values,
    pub(super) decided: Decided,
}

/// The configuration of a controller.
pub(super) enum Decided {
    Provisioner(Box<provisioner::args::Config>),
    Attacher(Box<attacher::args::Config>),
    Resizer(Box<resizer::args::Config>),
    Snapshotter(Box<snapshotter::args::Config>),
    HealthMonitor(Box<health_monitor::args::Config>),
}

/// Parses each part with its program's flag table.
///
/// # Errors
/// As the program.
pub(super) fn read(parts: Vec<Part>) -> Result<Vec<Read>, Exit> {
    parts.into_iter().map(Read::new).collect()
}

/// The flags of all parts; `list` is the value of `--controllers`.
pub(super) fn flags(read: &[Read], list: &str) -> FlagTable {
    let mut table = FlagTable::default();
    table.insert("controllers", list);
    for Read { part, values } in read {
        if let Some(program) = programs::named(part.name) {
            table.add(values, |flag| name_in_process(program, flag));
        }
    }
    table
}

/// All parts that should run.
#[derive(Default)]
pub(super) struct Selection<'a> {
    /// Controllers, in the order of the parts.
    pub(super) chosen: Vec<Chosen<'a>>,
    /// The configuration of livenessprobe.
    pub(super) liveness: Option<Wanted>,
    pub(super) registrar: Option<registrar::args::Config>,
}

/// Evaluates the flags of all parts.
///
/// # Errors
/// As the programs.
pub(super) fn decide(read: &[Read]) -> Result<Selection<'_>, Exit> {
    let mut selection = Selection::default();
    for Read { part, values } in read {
        let decided = match part.name {
            "provisioner" => Decided::Provisioner(config(provisioner::run::decide(values))?),
            "attacher" => Decided::Attacher(config(attacher::run::decide(values))?),
            "resizer" => Decided::Resizer(config(resizer::run::decide(values))?),
            "snapshotter" => Decided::Snapshotter(config(snapshotter::run::decide(values))?),
            "health-monitor" => {
                Decided::HealthMonitor(config(health_monitor::run::decide(values))?)
            }
            "livenessprobe" => {
                selection.liveness = Some(Wanted::new(values)?);
                continue;
            }
            _ => match registrar::args::decide(values)? {
                registrar::args::Command::Register(config) => {
                    selection.registrar = Some(node::prefixed(*config));
                    continue;
                }
                // As in the single program: there is nothing to run, which is a success.
                registrar::args::Command::Version | registrar::args::Command::Probe => {
                    return Err(Exit::with_code(0));
                }
            },
        };
        selection.chosen.push(Chosen {
            name: part.name,
            is_named: part.is_named,
            values,
            decided,
        });
    }
    Ok(selection)
}

fn config<C>(decided: Result<(Command<C>, Vec<String>), Exit>) -> Result<Box<C>, Exit> {
    let (command, warnings) = decided?;
    for warning in warnings {
        tracing::warn!("{warning}");
    }
    match command {
        Command::Run(config) => Ok(config),
        // `split` has already handled `--version`.
        Command::Version => Err(Exit::version(super::NAME)),
    }
}

impl Decided {
    pub(super) fn program(&self) -> Program {
        match self {
            Self::Provisioner(_) => provisioner::run::Provisioner::PROGRAM,
            Self::Attacher(_) => attacher::run::Attacher::PROGRAM,
            Self::Resizer(_) => resizer::run::Resizer::PROGRAM,
            Self::Snapshotter(_) => snapshotter::run::Snapshotter::PROGRAM,
            Self::HealthMonitor(_) => health_monitor::run::HealthMonitor::PROGRAM,
        }
    }

    /// The controller; `is_named` if `--controllers` lists its name, and not only `*`.
    ///
    /// # Errors
    /// As the program.
    pub(super) fn make(self, seat: &Seat, is_named: bool) -> Result<Box<dyn AnyController>, Exit> {
        Ok(match self {
            Self::Provisioner(config) => {
                Box::new(provisioner::run::Provisioner::new(seat, *config)?)
            }
            Self::Attacher(config) => Box::new(attacher::run::Attacher::new(*config)?),
            Self::Resizer(config) => Box::new(resizer::run::Resizer::new(*config)),
            Self::Snapshotter(config) => Box::new(snapshotter::run::Snapshotter::new(*config)),
            Self::HealthMonitor(config) => {
                Box::new(health_monitor::run::HealthMonitor::new(*config, is_named))
            }
        })
    }
}
