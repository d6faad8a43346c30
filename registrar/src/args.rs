//! The command line: the flags of csi-node-driver-registrar, and the configuration that they result in.
//!
//! Pure, so that a table in a test holds the order of the checks, which determines the exit code.

use std::time::Duration;

use sidecar::flags::standard::{AUTOMAXPROCS, CSI_ADDRESS, LOGGING, VERSION};
use sidecar::flags::{Dialect, Exit, Flag, Kind, Note, Spec, Values, retired};

static FLAGS: &[Flag] = &[
    Flag::new(
        "kubelet-registration-path",
        Kind::String,
        "",
        "Path of the driver's socket on the host, which kubelet is told (required). \
         The registrar itself never opens it.",
    ),
    Flag::new(
        "plugin-registration-path",
        Kind::String,
        "/registration",
        "Directory of the registration socket: where the host's directory \
         /var/lib/kubelet/plugins_registry is mounted. It must exist.",
    ),
    Flag::new(
        "timeout",
        Kind::Duration,
        "1s",
        "Timeout of the GetPluginInfo call to the driver, and of the health check's call to the registration socket. Connecting to the driver may always take 30s.",
    ),
    Flag::new(
        "http-endpoint",
        Kind::String,
        "",
        "The TCP network address of the HTTP server with /healthz and /registration \
         (example: :8080). Empty means no server. Only one of this and --health-port can be set.",
    ),
    Flag::new(
        "health-port",
        Kind::Int,
        "0",
        "(deprecated) TCP port of the HTTP server, on all interfaces. Use --http-endpoint.",
    )
    .noted(Note::Deprecated("use --http-endpoint=:PORT instead")),
    Flag::new(
        "enable-pprof",
        Kind::Bool,
        "false",
        "Answer below /debug/pprof/ on the HTTP server. There are no Go profiles in this program; \
         the paths say so.",
    ),
    Flag::new(
        "remove-taint",
        Kind::Strings,
        "",
        "KEY[=VALUE][:EFFECT] of a start-up taint that is removed from the Node once kubelet has \
         confirmed the registration and CSINode lists the driver. Can be given several times. \
         csi-node-sidecars removes taints; this program has no client of the API server.",
    ),
    Flag::new(
        "node-name",
        Kind::String,
        "",
        "Name of the Node for --remove-taint. Empty: $NODE_NAME, $KUBE_NODE_NAME or $CSI_NODE_NAME.",
    ),
    Flag::new(
        "connection-timeout",
        Kind::Duration,
        "0",
        "(deprecated) Without effect.",
    )
    .noted(Note::Deprecated("it has no effect")),
    Flag::new(
        "mode",
        Kind::String,
        "",
        "(deprecated) With \"kubelet-registration-probe\" the program ends successfully at once, for \
         manifests that still have an exec probe. Anything else means normal operation.",
    )
    .noted(Note::Deprecated(
        "probe /healthz or /registration of --http-endpoint instead",
    )),
];

/// All flags, with the rules of Go's `flag` package.
pub static SPEC: Spec = Spec {
    dialect: Dialect::Go,
    tables: &[CSI_ADDRESS, FLAGS, VERSION, AUTOMAXPROCS, LOGGING],
    retired: &retired::REGISTRAR,
};

const PROBE_MODE: &str = "kubelet-registration-probe";

/// The command that the flags select.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// Print the version.
    Version,
    /// Succeed without doing anything: the exec probe of old manifests.
    Probe,
    /// Register the driver.
    Register(Box<Config>),
}

/// Configuration of the registration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// `--csi-address`
    pub csi_address: String,
    /// `--kubelet-registration-path`, passed on unchanged.
    pub endpoint: String,
    /// `--plugin-registration-path`
    pub directory: String,
    /// `--timeout`
    pub timeout: Duration,
    /// `--mode`, for the log only.
    pub mode: String,
    /// The HTTP server, if it is enabled.
    pub http: Option<Http>,
    /// The values of `--remove-taint`.
    pub remove_taint: Vec<String>,
    /// `--node-name`
    pub node_name: String,
    /// Whether `--connection-timeout` was given a value.
    pub connection_timeout: bool,
}

/// The HTTP server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Http {
    /// Address to listen on.
    pub address: String,
    /// The flag that set it, as it was given.
    pub flag: String,
    /// `--enable-pprof`
    pub pprof: bool,
}

/// The command that the flags select. The first check that fails determines the error.
///
/// # Errors
/// Exit code 1 and a line that names the flag.
pub fn decide(values: &Values) -> Result<Command, Exit> {
    if values.bool("version") {
        return Ok(Command::Version);
    }
    let endpoint = values.string("kubelet-registration-path");
    if endpoint.is_empty() {
        return Err(Exit::failure(
            1,
            "--kubelet-registration-path is required: the path of the driver's socket on the host, \
             for example /var/lib/kubelet/plugins/<driver>/csi.sock",
        ));
    }
    if values.string("mode") == PROBE_MODE {
        return Ok(Command::Probe);
    }
    Ok(Command::Register(Box::new(Config {
        csi_address: values.string("csi-address").to_owned(),
        endpoint: endpoint.to_owned(),
        directory: values.string("plugin-registration-path").to_owned(),
        timeout: values.duration("timeout").to_timeout(),
        mode: values.string("mode").to_owned(),
        http: http(values)?,
        remove_taint: values.strings("remove-taint"),
        node_name: values.string("node-name").to_owned(),
        connection_timeout: values.duration("connection-timeout") != Default::default(),
    })))
}

fn http(values: &Values) -> Result<Option<Http>, Exit> {
    let endpoint = values.string("http-endpoint");
    let port = values.int("health-port");
    let pprof = values.bool("enable-pprof");
    match (endpoint.is_empty(), port > 0) {
        (false, true) => Err(Exit::failure(
            1,
            "only one of --http-endpoint and --health-port can be set: remove --health-port",
        )),
        (false, false) => Ok(Some(Http {
            address: endpoint.to_owned(),
            flag: format!("--http-endpoint={endpoint}"),
            pprof,
        })),
        (true, true) => Ok(Some(Http {
            address: format!(":{port}"),
            flag: format!("--health-port={port}"),
            pprof,
        })),
        (true, false) => Ok(None),
    }
}

#[cfg(test)]
mod tests;
