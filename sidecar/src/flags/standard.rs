//! Flags that the sidecars share.
//!
//! Each program lists its tables in its [`super::Spec`]; a flag that only some programs have is in a
//! table of its own.

use super::Note::Deprecated;
use super::{Exit, Flag, Kind, Values};

/// Log output. `crate::log::Config::from_flags` reads and validates it.
pub static LOGGING: &[Flag] = &[
    Flag::new(
        "v",
        Kind::Verbosity,
        "0",
        "Number for the log level verbosity.",
    ),
    Flag::new(
        "vmodule",
        Kind::Vmodule,
        "",
        "Comma-separated list of pattern=N settings for file-filtered logging (text format only).",
    ),
    Flag::new(
        "logging-format",
        Kind::String,
        "text",
        "Format of the log: \"text\" or \"json\". Both go to stderr.",
    ),
    Flag::new(
        "log-flush-frequency",
        Kind::Duration,
        "5s",
        "Must be positive. Log output is not buffered, so nothing is ever waiting to be flushed.",
    ),
    Flag::new(
        "log-text-split-stream",
        Kind::Bool,
        "false",
        "Not available: alpha upstream, and its feature gate cannot be enabled.",
    ),
    Flag::new(
        "log-text-info-buffer-size",
        Kind::Quantity,
        "0",
        "Not available: alpha upstream, and its feature gate cannot be enabled.",
    ),
    Flag::new(
        "log-json-split-stream",
        Kind::Bool,
        "false",
        "Not available: alpha upstream, and its feature gate cannot be enabled.",
    ),
    Flag::new(
        "log-json-info-buffer-size",
        Kind::Quantity,
        "0",
        "Not available: alpha upstream, and its feature gate cannot be enabled.",
    ),
];

/// `--automaxprocs`: accepted without effect, since the programs run on a single thread.
pub static AUTOMAXPROCS: &[Flag] = &[Flag::new(
    "automaxprocs",
    Kind::BoolFunc,
    "",
    "Accepted for compatibility. The program runs on one thread, whatever the CPU quota.",
)];

/// `--version`.
pub static VERSION: &[Flag] = &[Flag::new(
    "version",
    Kind::Bool,
    "false",
    "Print the version and exit.",
)];

/// `--csi-address`.
pub static CSI_ADDRESS: &[Flag] = &[Flag::new(
    "csi-address",
    Kind::String,
    "/run/csi/socket",
    "Address of the CSI driver's socket: an absolute path, or unix:// and a path.",
)];

/// `--http-endpoint`.
pub static HTTP_ENDPOINT: &[Flag] = &[Flag::new(
    "http-endpoint",
    Kind::String,
    "",
    "The TCP network address where the HTTP server for diagnostics, including metrics and health \
     checks, listens (example: :8080). Empty means no server.",
)];

/// The HTTPS server that authenticates its clients: for programs that link TLS anyway.
pub static SECURE_HTTP: &[Flag] = &[
    Flag::new(
        "secure-http-endpoint",
        Kind::String,
        "",
        "The TCP network address where the HTTP server listens with TLS (example: :8443). It shows what the one of \
         --http-endpoint shows, and /statusz and /flagz, to clients that may get the path as a nonResourceURL. Empty \
         means no such server.",
    ),
    Flag::new(
        "tls-cert-file",
        Kind::String,
        "",
        "PEM file with the certificate of --secure-http-endpoint, and those of the authorities above it. A new one \
         is used without a restart.",
    ),
    Flag::new(
        "tls-private-key-file",
        Kind::String,
        "",
        "PEM file with the key of --tls-cert-file.",
    ),
    Flag::new(
        "tls-min-version",
        Kind::String,
        "",
        "Lowest version of TLS: VersionTLS12 or VersionTLS13. Empty means VersionTLS12.",
    ),
    Flag::new(
        "client-ca-file",
        Kind::String,
        "",
        "PEM file with the authorities that sign certificates of clients, which stand for the user CN in the groups \
         O. Empty means that clients need a token.",
    ),
    Flag::new(
        "authorization-always-allow-paths",
        Kind::String,
        "/healthz,/healthz/leader-election,/livez,/readyz",
        "Comma-separated paths of --secure-http-endpoint that are for everybody. One that ends in * stands for all \
         that begin so.",
    ),
];

/// The endpoint that answers questions about objects: for controllers.
pub static WHY: &[Flag] = &[Flag::new(
    "why-endpoint",
    Kind::String,
    "",
    "The TCP network address where the program says what it does for one object, and why not yet (example: \
     localhost:8090). Without authentication: whoever reaches the address can ask. With --secure-http-endpoint it \
     answers there as well, below /why/. Empty means that it does not answer.",
)];

const PATH: Flag = Flag::new(
    "metrics-path",
    Kind::String,
    "/metrics",
    "The HTTP path where metrics are served.",
);

/// `--metrics-path`.
pub static METRICS_PATH: &[Flag] = &[PATH];

/// `--metrics-address` and `--metrics-path`.
pub static METRICS: &[Flag] = &[
    Flag::new(
        "metrics-address",
        Kind::String,
        "",
        "(deprecated) The TCP network address where the metrics endpoint listens. \
         Use --http-endpoint; only one of the two can be set.",
    )
    .noted(Deprecated("use --http-endpoint instead")),
    PATH,
];

/// The listen address of a program with [`HTTP_ENDPOINT`] and [`METRICS`], if any.
///
/// # Errors
/// Exit code 1 if both flags are set: both name the same listener.
pub fn http_address(values: &Values) -> Result<Option<&str>, Exit> {
    let endpoint = values.string("http-endpoint");
    let metrics = values.string("metrics-address");
    match (endpoint.is_empty(), metrics.is_empty()) {
        (true, true) => Ok(None),
        (false, true) => Ok(Some(endpoint)),
        (true, false) => Ok(Some(metrics)),
        (false, false) => Err(Exit::failure(
            1,
            "only one of --metrics-address and --http-endpoint can be set, use --http-endpoint",
        )),
    }
}

/// Access to the API server. [`super::Values::is_set`] distinguishes a rate limit that was given
/// from none.
pub static KUBE_API: &[Flag] = &[
    Flag::new(
        "kubeconfig",
        Kind::String,
        "",
        "Absolute path to a kubeconfig file. Empty means the cluster that the pod runs in.",
    ),
    Flag::new(
        "kube-api-qps",
        Kind::Float,
        "5",
        "QPS limit for the API server, a hard cap if given here or with --kube-api-burst. \
         Negative means no limit.",
    ),
    Flag::new(
        "kube-api-burst",
        Kind::Int,
        "10",
        "Burst for the API server, on top of --kube-api-qps.",
    ),
];

/// `--master`, which overrides the server in a kubeconfig.
pub static MASTER: &[Flag] = &[Flag::new(
    "master",
    Kind::String,
    "",
    "URL of the API server. Overrides the one in the kubeconfig.",
)];

const ELECTION: [Flag; 5] = [
    Flag::new(
        "leader-election",
        Kind::Bool,
        "false",
        "Enable leader election.",
    ),
    Flag::new(
        "leader-election-namespace",
        Kind::String,
        "",
        "Namespace of the Lease. Defaults to the pod's namespace.",
    ),
    Flag::new(
        "leader-election-lease-duration",
        Kind::Duration,
        "15s",
        "How long non-leaders wait before they try to take the Lease.",
    ),
    Flag::new(
        "leader-election-renew-deadline",
        Kind::Duration,
        "10s",
        "How long the leader tries to renew the Lease before it gives up.",
    ),
    Flag::new(
        "leader-election-retry-period",
        Kind::Duration,
        "5s",
        "How long to wait between attempts.",
    ),
];

/// Leader election.
pub static LEADER_ELECTION: &[Flag] = &[
    ELECTION[0],
    ELECTION[1],
    ELECTION[2],
    ELECTION[3],
    ELECTION[4],
    Flag::new(
        "leader-election-labels",
        Kind::Pairs,
        "",
        "Labels of the Lease: comma-separated key:value pairs.",
    ),
];

/// Leader election without labels of the lease.
pub static UNLABELLED_ELECTION: &[Flag] = &ELECTION;

/// `--feature-gates`. The gates themselves are in the program's table, see [`crate::gates`].
pub static FEATURE_GATES: &[Flag] = &[Flag::new(
    "feature-gates",
    Kind::Gates,
    "",
    "Comma-separated Name=bool pairs that switch features.",
)];

/// `--enable-otel-tracing`, which `crate::trace` reads. Drivers use the same name.
pub static TRACING: &[Flag] = &[Flag::new(
    "enable-otel-tracing",
    Kind::Bool,
    "false",
    "Export traces with OpenTelemetry's protocol. Variables OTEL_* say where to, and what.",
)];
