//! The configuration that the parts of the command line produce, each parsed with its program's flag
//! table.
//!
//! Pure, like the programs' own modules.

use sidecar::flags::standard::http_address;
use sidecar::flags::{self, Exit, Spec, Values};
use sidecar::log;

use crate::plan::split::Part;
use crate::programs::PROCESS;

/// The command to run.
#[derive(Debug)]
pub(super) enum Command {
    /// Exit successfully at once: the registrar's exec probe from old manifests.
    Probe,
    /// Run the process.
    Run(Box<Config>),
}

/// Configuration of the process and of the programs in it.
#[derive(Debug, Default)]
pub(super) struct Config {
    pub(super) log: log::Config,
    /// The HTTP server of the process, if one is configured.
    pub(super) http: Option<Http>,
    /// `--metrics-path`
    pub(super) metrics_path: String,
    pub(super) livenessprobe: Option<Livenessprobe>,
    pub(super) registrar: Option<registrar::args::Config>,
    /// The registrar's `--enable-pprof`, for both servers.
    pub(super) pprof: bool,
}

/// The HTTP server of the process.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Http {
    pub(super) address: String,
    /// The flag that set the address, as given.
    pub(super) flag: String,
    /// Whether it serves health and the other paths, and not only metrics.
    pub(super) has_health: bool,
}

/// Configuration of livenessprobe.
#[derive(Debug)]
pub(super) struct Livenessprobe {
    pub(super) config: livenessprobe::args::Config,
    /// Whether it also opens its own listener.
    pub(super) listens: bool,
}

/// Parses the parts into which the command line of `file` was split.
///
/// # Errors
/// As the program that the part belongs to.
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

/// The driver's health must be served somewhere: if not by the server of the process, then by the
/// listener that livenessprobe opens by default as a program.
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

/// The configuration with its flags as they are spelled on this command line.
pub(crate) fn prefixed(mut config: registrar::args::Config) -> registrar::args::Config {
    if let Some(http) = &mut config.http {
        http.flag = prefix("node-driver-registrar", &http.flag);
    }
    config
}

/// The flag of `program` as it is spelled on this command line.
fn prefix(program: &str, flag: &str) -> String {
    format!("--{program}-{}", flag.trim_start_matches('-'))
}
