//! The command line: the flags of csi-snapshot-metadata, and the configuration they add up to.
//!
//! Pure, so that the order of the checks is a table in a test.

use std::path::PathBuf;
use std::time::Duration;

use sidecar::controller::flags::at_least_one;
use sidecar::controller::{self, Http};
use sidecar::csi::connection::{Address, OnLoss};
use sidecar::flags::standard::{
    AUTOMAXPROCS, CSI_ADDRESS, KUBE_API, LOGGING, METRICS_PATH, VERSION,
};
use sidecar::flags::{Dialect, Exit, Flag, Kind, Note, Spec, Values, retired};
use sidecar::kube::rate::Rate;
use sidecar::secure::settings::Tls;

static FLAGS: &[Flag] = &[
    Flag::new(
        "timeout",
        Kind::Duration,
        "1m",
        "Timeout of each call for the driver's readiness, name and capabilities. For streams see \
         --max-streaming-duration-min.",
    ),
    Flag::new(
        "port",
        Kind::Int,
        "50051",
        "TCP port of the gRPC server for backup clients, on all addresses.",
    ),
    Flag::new(
        "tls-cert",
        Kind::String,
        "",
        "PEM file with the server's certificate. Defaults to the environment variable TLS_CERT_PATH. \
         A new certificate is used without a restart.",
    ),
    Flag::new(
        "tls-key",
        Kind::String,
        "",
        "PEM file with the key of the certificate. Defaults to the environment variable TLS_KEY_PATH.",
    ),
    Flag::new(
        "tls-min-version",
        Kind::String,
        "",
        "Lowest version of TLS: VersionTLS12 or VersionTLS13. Empty means VersionTLS12.",
    ),
    Flag::new(
        "tls-cipher-suites",
        Kind::String,
        "",
        "Comma-separated cipher suites of TLS 1.2, by Go's names. Empty means all.",
    ),
    Flag::new(
        "tls-curve-preferences",
        Kind::String,
        "",
        "Comma-separated groups for the exchange of keys: CurveP256, CurveP384, X25519. Empty means \
         all.",
    ),
    Flag::new(
        "audience",
        Kind::String,
        "",
        "Audience that clients' tokens must be for. Empty means spec.audience of the \
         SnapshotMetadataService that is named like the driver.",
    ),
    Flag::new(
        "max-streaming-duration-min",
        Kind::Int,
        "10",
        "Longest duration of one call, in minutes. Zero or less means 10.",
    ),
    Flag::new(
        "max-streams",
        Kind::Int,
        "64",
        "Maximum number of calls that run in the driver at the same time. One client gets at most half of them.",
    ),
    Flag::new(
        "shutdown-grace",
        Kind::Duration,
        "25s",
        "After SIGTERM: how long calls may still run. Must be less than the pod's \
         terminationGracePeriodSeconds.",
    ),
    Flag::new(
        "http-endpoint",
        Kind::String,
        ":8080",
        "The TCP network address of the HTTP server with /health and metrics. Empty means no server.",
    ),
    Flag::new(
        "disable-metrics",
        Kind::Bool,
        "false",
        "Do not serve metrics. /health stays.",
    ),
    Flag::new(
        "metrics-snapshot-labels",
        Kind::Bool,
        "false",
        "Fill in the labels target_snapshot and base_snapshot of the metric of calls, as upstream does: \
         each snapshot then adds 16 series, which stay.",
    ),
];

const STDERR: Note =
    Note::Deprecated("leave it out: it has no effect, the log always goes to stderr");

const fn klog(name: &'static str, kind: Kind) -> Flag {
    Flag::new(
        name,
        kind,
        "",
        "(deprecated) Accepted for compatibility, without effect.",
    )
    .noted(STDERR)
}

/// Flags of klog that upstream's program inherits.
static KLOG: &[Flag] = &[
    klog("logtostderr", Kind::Bool),
    klog("alsologtostderr", Kind::Bool),
    klog("alsologtostderrthreshold", Kind::String),
    klog("stderrthreshold", Kind::String),
    klog("legacy_stderr_threshold_behavior", Kind::Bool),
    klog("log_dir", Kind::String),
    klog("log_file", Kind::String),
    klog("log_file_max_size", Kind::String),
    klog("log_backtrace_at", Kind::String),
    klog("add_dir_header", Kind::Bool),
    klog("skip_headers", Kind::Bool),
    klog("skip_log_headers", Kind::Bool),
    klog("one_output", Kind::Bool),
];

/// All flags, with the rules of Go's `flag` package.
pub static SPEC: Spec = Spec {
    dialect: Dialect::Go,
    tables: &[
        FLAGS,
        CSI_ADDRESS,
        KUBE_API,
        METRICS_PATH,
        VERSION,
        AUTOMAXPROCS,
        LOGGING,
        KLOG,
    ],
    retired: &retired::NONE,
};

/// The command that the flags select.
pub type Command = controller::Command<Config>;

/// Configuration of csi-snapshot-metadata.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// `--csi-address`
    pub address: Address,
    /// `--timeout`
    pub timeout: Duration,
    /// `--port`
    pub port: u16,
    /// `--tls-cert`
    pub certificate: PathBuf,
    /// `--tls-key`
    pub key: PathBuf,
    /// `--tls-min-version`, `--tls-cipher-suites`, `--tls-curve-preferences`
    pub tls: Tls,
    /// `--audience`; `None` if the flag is empty.
    pub audience: Option<String>,
    /// `--max-streaming-duration-min`
    pub longest: Duration,
    /// `--max-streams`
    pub streams: usize,
    /// `--shutdown-grace`
    pub grace: Duration,
    /// `--kube-api-qps`, `--kube-api-burst`
    pub rate: Rate,
    /// The HTTP server; `None` without `--http-endpoint`.
    pub http: Option<Http>,
    /// `--metrics-snapshot-labels`
    pub snapshot_labels: bool,
}

/// Environment variables that the program reads.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Environment {
    /// `TLS_CERT_PATH`
    pub certificate: Option<String>,
    /// `TLS_KEY_PATH`
    pub key: Option<String>,
}

/// Builds the configuration from the flags, and the warnings to log. Reports the first check that fails.
///
/// # Errors
/// Exit code 1 and a line that names the flag.
pub fn decide(values: &Values, environment: &Environment) -> Result<(Command, Vec<String>), Exit> {
    if values.bool("version") {
        return Ok((Command::Version, Vec::new()));
    }
    let file = |flag, variable: &Option<String>, missing| {
        let given = values.string(flag);
        let path = if given.is_empty() {
            variable.as_deref().unwrap_or_default()
        } else {
            given
        };
        if path.is_empty() {
            return Err(Exit::failure(1, missing));
        }
        Ok(PathBuf::from(path))
    };
    let certificate = file(
        "tls-cert",
        &environment.certificate,
        "missing TLSCertFile: --tls-cert or TLS_CERT_PATH must name the certificate's file",
    )?;
    let key = file(
        "tls-key",
        &environment.key,
        "missing TLSKeyFile: --tls-key or TLS_KEY_PATH must name the key's file",
    )?;
    let number = values.int("port");
    let port = u16::try_from(number).ok().filter(|port| *port > 0);
    let port = port.ok_or_else(|| {
        let line = format!("invalid GRPCPort: --port={number} must be 1 to 65535");
        Exit::failure(1, line)
    })?;
    let timeout = values.duration("timeout").to_timeout();
    if timeout.is_zero() {
        let line = "CSITimeout is required: --timeout must be greater than zero";
        return Err(Exit::failure(1, line));
    }
    let address = values.string("csi-address");
    if address.is_empty() {
        let line = "CSIAddress is required: --csi-address must name the driver's socket";
        return Err(Exit::failure(1, line));
    }
    let (tls, warnings) = Tls::from_flags(
        values.string("tls-min-version"),
        values.string("tls-cipher-suites"),
        values.string("tls-curve-preferences"),
    )?;
    let config = Config {
        address: Address::parse(address, OnLoss::Stop)?,
        timeout,
        port,
        certificate,
        key,
        tls,
        audience: Some(values.string("audience").to_owned()).filter(|it| !it.is_empty()),
        longest: longest(values.int("max-streaming-duration-min")),
        streams: at_least_one(values, "max-streams")?,
        grace: values.duration("shutdown-grace").to_timeout(),
        rate: Rate::from_flags(values)?,
        http: http(values),
        snapshot_labels: values.bool("metrics-snapshot-labels"),
    };
    Ok((Command::Run(Box::new(config)), warnings))
}

/// Longest duration of a call, from `--max-streaming-duration-min`: at most the longest gRPC deadline that is
/// written in milliseconds. A longer one is written in seconds, and the call would end too early.
fn longest(minutes: i64) -> Duration {
    const DEFAULT: u64 = 10;
    const MOST: u64 = 99_999_999 / 60_000;
    let minutes = u64::try_from(minutes).ok().filter(|minutes| *minutes > 0);
    Duration::from_mins(minutes.map_or(DEFAULT, |minutes| minutes.min(MOST)))
}

fn http(values: &Values) -> Option<Http> {
    let address = values.string("http-endpoint");
    let metrics = (!values.bool("disable-metrics")).then(|| values.string("metrics-path"));
    (!address.is_empty()).then(|| Http {
        address: address.to_owned(),
        flag: "--http-endpoint",
        metrics_path: metrics.map(str::to_owned),
        health: false,
    })
}

#[cfg(test)]
mod tests;
