//! The program csi-plugin-manager: flags, client, HTTP server and the loop.

use std::convert::Infallible;
use std::ffi::OsString;
use std::time::Duration;

use http::StatusCode;
use kube::Client;
use sidecar::error::Chain;
use sidecar::flags::{self, Exit};
use sidecar::http::{Reply, RouteError, Routes, Server};
use sidecar::kube::access::{self, Need, Rule};
use sidecar::kube::connect::{Options, Variable, connect};
use sidecar::log;
use sidecar::metrics::Registry;
use sidecar::rt::unit_random;
use sidecar::shutdown::{Shutdown, Signal};
use tokio::sync::watch;
use tokio::time::sleep;
use tracing::{info, warn};

use super::args::{self, Command};
use super::run::{Config, Kubelet};

/// Set by the build.
const VERSION: &str = match option_env!("CSI_SIDECARS_VERSION") {
    Some(version) => version,
    None => "unknown",
};

/// Between two attempts to ask the API server about permissions.
const ACCESS_RETRY: Duration = Duration::from_secs(5);

/// Runs csi-plugin-manager.
///
/// # Errors
/// How the process ends unless SIGTERM or SIGINT ends it in good order.
pub async fn run(argv: impl IntoIterator<Item = OsString>) -> Result<(), Exit> {
    let values = flags::parse(&args::SPEC, argv)?;
    let log = log::Config::from_flags(&values)?;
    let variable = std::env::var("NODE_NAME").ok();
    let (config, http) = match args::decide(&values, variable.as_deref())? {
        Command::Version => return Err(Exit::version(values.program(), VERSION)),
        Command::Run { config, http } => (config, http),
    };
    log::init(&log, &["registrar", "csi_plugin_manager"]);
    info!(version = VERSION, node = config.node, "Starting");
    let options = Options::from_flags(&values, Variable::Ignored, "csi-plugin-manager", VERSION)?;
    let client = connect(&options, None).await?;
    let shutdown = Shutdown::listen(&[Signal::Terminate, Signal::Interrupt])?;
    let registry = Registry::new();
    let rules = rules(&config);
    let kubelet = Kubelet::new(config, client.clone(), &registry, unit_random)?;
    let routes = routes(kubelet.initialized(), &registry)?;
    let server = async {
        match &http {
            Some(address) => serve(address, routes).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        biased;
        // Everything stays registered, as when a kubelet ends.
        () = shutdown.requested() => Ok(()),
        exit = server => Err(exit),
        exit = refuse_without_permission(&client, &rules) => Err(exit),
        ended = kubelet.run() => Ok(ended?),
    }
}

/// What the loop does on the API server.
fn rules(config: &Config) -> Vec<Rule> {
    let mut rules = vec![
        Rule::required("", "nodes", &["get"]),
        Rule::required("", "nodes/status", &["patch"]),
        Rule::required("storage.k8s.io", "csinodes", &["get", "create", "update"]),
        Rule::required("storage.k8s.io", "csinodes", &["delete"]).optional(
            "a CSINode that a former Node of the same name left behind cannot be replaced",
        ),
        Rule::required("storage.k8s.io", "csidrivers", &["list", "watch"])
            .optional("volume limits are not refreshed (nodeAllocatableUpdatePeriodSeconds)"),
    ];
    if config.register_node {
        rules.push(Rule::required("", "nodes", &["create"]));
    }
    rules
}

/// Ends only if the API server says that something is not allowed without which nothing works.
async fn refuse_without_permission(client: &Client, rules: &[Rule]) -> Exit {
    let mut report = access::check(client, rules).await;
    while report.missing.is_empty() && report.unknown.is_some() {
        // Whether it answers at all is the loop's business, which says so.
        sleep(ACCESS_RETRY).await;
        report = access::check(client, rules).await;
    }
    report.log();
    let required = report
        .missing
        .iter()
        .filter(|missing| missing.rule.need == Need::Required);
    let required: Vec<String> = required.map(ToString::to_string).collect();
    if required.is_empty() {
        return std::future::pending().await;
    }
    Exit::failure(
        1,
        format_args!(
            "the user of --kubeconfig, or the service account, lacks permissions; add the rules: {}",
            required.join("; ")
        ),
    )
}

fn routes(initialized: watch::Receiver<bool>, registry: &Registry) -> Result<Routes, RouteError> {
    let mut routes = Routes::new();
    routes.add("/healthz", move || {
        // What kubelet gives as the reason of its Node not being ready.
        let reply = if *initialized.borrow() {
            Reply::ok()
        } else {
            Reply::text(
                StatusCode::INTERNAL_SERVER_ERROR,
                "CSINode is not yet initialized",
            )
        };
        std::future::ready(reply)
    })?;
    routes.add_metrics("/metrics", registry)?;
    Ok(routes)
}

/// Ends only if it cannot listen.
async fn serve(address: &str, routes: Routes) -> Exit {
    match Server::bind(address).await {
        Ok(server) => {
            let actual = server.local_addr().map(|actual| actual.to_string());
            info!(
                address = actual.as_deref().unwrap_or(address),
                "HTTP server is listening"
            );
            server.serve(routes).await;
            warn!(address, "HTTP server has ended");
            std::future::pending::<Infallible>().await;
            Exit::default()
        }
        Err(error) => Exit::failure(
            1,
            format_args!(
                "--http-endpoint={address}: cannot start the HTTP server: {}",
                Chain(&error)
            ),
        ),
    }
}
