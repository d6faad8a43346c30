//! The command line: the flags of livenessprobe, and the configuration that they result in.
//!
//! Pure, so that the order of the checks is a table in a test.

use std::time::Duration;

use sidecar::csi::connection::{Address, AddressError, OnLoss};
use sidecar::flags::standard::{AUTOMAXPROCS, CSI_ADDRESS, LOGGING, METRICS, VERSION};
use sidecar::flags::{Dialect, Exit, Flag, Kind, Note, Spec, Values, retired};

/// Default port of `/healthz`.
const HEALTH_PORT: &str = "9808";

static FLAGS: &[Flag] = &[
    Flag::new(
        "probe-timeout",
        Kind::Duration,
        "3s",
        "Timeout of one health request, including the connection to the driver and its Probe call.",
    ),
    Flag::new(
        "http-endpoint",
        Kind::String,
        "",
        "The TCP network address of the HTTP server with /healthz and metrics (example: :8080). \
         Empty means /healthz alone, on --health-port. Only one of this and --health-port can be \
         set.",
    ),
    Flag::new(
        "health-port",
        Kind::String,
        HEALTH_PORT,
        "(deprecated) TCP port of /healthz, on all IPv4 interfaces. Use --http-endpoint.",
    )
    .noted(Note::Deprecated("use --http-endpoint=:PORT instead")),
];

/// All flags, with the rules of Go's `flag` package.
pub static SPEC: Spec = Spec {
    dialect: Dialect::Go,
    tables: &[CSI_ADDRESS, FLAGS, METRICS, VERSION, AUTOMAXPROCS, LOGGING],
    retired: &retired::LIVENESSPROBE,
};

/// The configuration of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// `--csi-address`
    pub address: Address,
    /// `--probe-timeout`; zero has always been accepted.
    pub timeout: Duration,
    /// The server of `/healthz`.
    pub health: Listener,
    /// The server of the metrics.
    pub metrics: Metrics,
}

/// One HTTP server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listener {
    /// Address to listen on.
    pub address: String,
    /// The flag that set it, as it was given.
    pub flag: String,
}

/// Server and path of the metrics.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Metrics {
    /// No metrics are served.
    None,
    /// At this path of the server of `/healthz`.
    WithHealth(String),
    /// At this path, on a server of their own.
    Apart(Listener, String),
}

/// The configuration that the flags result in. The first check that fails determines the error.
///
/// # Errors
/// Exit code 1 and a line that names the flag.
pub fn decide(values: &Values) -> Result<Config, Exit> {
    let endpoint = values.string("http-endpoint");
    let port = values.string("health-port");
    let metrics = values.string("metrics-address");
    if !endpoint.is_empty() {
        // The default, given explicitly, is no conflict: manifests have both.
        if port != HEALTH_PORT {
            return Err(Exit::failure(
                1,
                "only one of --http-endpoint and --health-port can be set: remove --health-port",
            ));
        }
        if !metrics.is_empty() {
            return Err(Exit::failure(
                1,
                "only one of --http-endpoint and --metrics-address can be set: remove \
                 --metrics-address, --http-endpoint has the metrics as well",
            ));
        }
    }
    let path = values.string("metrics-path").to_owned();
    Ok(Config {
        address: address(values.string("csi-address"))?,
        timeout: values.duration("probe-timeout").to_timeout(),
        health: if endpoint.is_empty() {
            Listener {
                address: format!("0.0.0.0:{port}"),
                flag: format!("--health-port={port}"),
            }
        } else {
            Listener {
                address: endpoint.to_owned(),
                flag: format!("--http-endpoint={endpoint}"),
            }
        },
        metrics: match (endpoint.is_empty(), metrics.is_empty()) {
            (false, _) => Metrics::WithHealth(path),
            (true, true) => Metrics::None,
            (true, false) => Metrics::Apart(
                Listener {
                    address: metrics.to_owned(),
                    flag: format!("--metrics-address={metrics}"),
                },
                path,
            ),
        },
    })
}

fn address(text: &str) -> Result<Address, AddressError> {
    // All forms of an address that Go's gRPC knows: a lost connection does not end this program.
    Address::parse(text, OnLoss::Reconnect)
}

#[cfg(test)]
mod tests;
