//! What the parts of the command line ask for, each read with its program's own table.
//!
//! Pure, as the programs' own.

use sidecar::flags::standard::http_address;
use sidecar::flags::{self, Exit, Spec, Values};
use sidecar::log;

use crate::plan::split::Part;
use crate::programs::PROCESS;

/// What to do.
#[derive(Debug)]
pub(super) enum Command {
    /// Nothing, successfully: the registrar's exec probe of old manifests.
    Probe,
    /// To run.
    Run(Box<Config>),
}

/// The process and what is in it.
#[derive(Debug, Default)]
pub(super) struct Config {
    pub(super) log: log::Config,
    /// The HTTP server of the process, if there is to be one.
    pub(super) http: Option<Http>,
    /// `--metrics-path`
    pub(super) metrics_path: String,
    pub(super) livenessprobe: Option<Livenessprobe>,
    pub(super) registrar: Option<registrar::args::Config>,
    /// `--enable-pprof` of the registrar, for both servers.
    pub(super) pprof: bool,
}

/// The HTTP server of the process.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Http {
    pub(super) address: String,
    /// The flag that says so, as it was given.
    pub(super) flag: String,
    /// It has health and all else beside the metrics.
    pub(super) has_health: bool,
}

/// livenessprobe.
#[derive(Debug)]
pub(super) struct Livenessprobe {
    pub(super) config: livenessprobe::args::Config,
    /// Its own listener is there, too.
    pub(super) listens: bool,
}

/// Reads the parts that the command line of `file` was cut into.
///
/// # Errors
/// As the program whose part it is.
pub(super) fn decide(file: &str, parts: Vec<Part>) -> Result<Command, Exit> {
    let mut config = Config::default();
    let mut warnings = Vec::new();
    let mut probe = None;
    let read = |spec: &Spec, arguments: Vec<String>| {
        flags::parse(spec, std::iter::once(file.to_owned()).chain(arguments))
    };
    for Part {
        name, arguments, ..
    } in parts
    {
        let values = match name {
            "livenessprobe" => {
                let values = read(&livenessprobe::args::SPEC, arguments)?;
                probe = Some(values.clone());
                values
            }
            "node-driver-registrar" => {
                let values = read(&registrar::args::SPEC, arguments)?;
                config.pprof = values.bool("enable-pprof");
                match registrar::args::decide(&values)? {
                    registrar::args::Command::Register(register) => {
                        config.registrar = Some(prefixed(*register));
                    }
                    registrar::args::Command::Version | registrar::args::Command::Probe => {
                        return Ok(Command::Probe);
                    }
                }
                values
            }
            _ => {
                let values = read(&PROCESS, arguments)?;
                config.log = log::Config::from_flags(&values)?;
                config.http = http(&values)?;
                config.metrics_path = values.string("metrics-path").to_owned();
                values
            }
        };
        for warning in values.warnings() {
            if !warnings.contains(warning) {
                warnings.push(warning.clone());
            }
        }
    }
    config.log.warnings = warnings;
    if let Some(values) = probe {
        config.livenessprobe = Some(livenessprobe(&values, &config)?);
    }
    Ok(Command::Run(Box::new(config)))
}

fn http(values: &Values) -> Result<Option<Http>, Exit> {
    let has_health = !values.string("http-endpoint").is_empty();
    let flag = match has_health {
        true => "http-endpoint",
        false => "metrics-address",
    };
    let address = http_address(values)?;
    Ok(address.map(|address| Http {
        address: address.to_owned(),
        flag: format!("--{flag}={address}"),
        has_health,
    }))
}

/// Somebody must be able to ask for the driver's health: if not the server of the process then the listener that
/// livenessprobe has as a program, by default.
fn livenessprobe(values: &Values, process: &Config) -> Result<Livenessprobe, Exit> {
    use livenessprobe::args::Metrics;

    let mut config = livenessprobe::args::decide(values)?;
    config.health.flag = prefix("livenessprobe", &config.health.flag);
    if let Metrics::WithHealth(path) = &mut config.metrics {
        path.clone_from(&process.metrics_path);
    }
    let is_asked_for = values.is_set("http-endpoint") || values.is_set("health-port");
    let has_health = process.http.as_ref().is_some_and(|http| http.has_health);
    Ok(Livenessprobe {
        config,
        listens: is_asked_for || !has_health,
    })
}

/// The same, with its flags as they are written here.
pub(crate) fn prefixed(mut config: registrar::args::Config) -> registrar::args::Config {
    if let Some(http) = &mut config.http {
        http.flag = prefix("node-driver-registrar", &http.flag);
    }
    config
}

/// A flag of `program` as it is written here.
fn prefix(program: &str, flag: &str) -> String {
    format!("--{program}-{}", flag.trim_start_matches('-'))
}
