//! The program csi-plugin-manager: flags, client, HTTP server and the loop.

use std::convert::Infallible;
use std::ffi::OsString;
use std::time::Duration;

use http::StatusCode;
use kube::Client;
use sidecar::build;
use sidecar::error::Chain;
use sidecar::flags::{self, Exit, Values};
use sidecar::http::{Reply, RouteError, Routes, Server};
use sidecar::kube::access::{self, Need, Report, Rule};
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

/// Pause between two checks of permissions.
const ACCESS_RETRY: Duration = Duration::from_secs(5);

/// Runs csi-plugin-manager.
///
/// # Errors
/// The exit of the process, unless SIGTERM or SIGINT stops it in good order.
pub async fn run(argv: impl IntoIterator<Item = OsString>) -> Result<(), Exit> {
    let values = flags::parse(&args::SPEC, argv)?;
    let log = log::Config::from_flags(&values)?;
    let variable = std::env::var("NODE_NAME").ok();
    let (config, http) = match args::decide(&values, variable.as_deref())? {
        Command::Version => return Err(Exit::version(values.program())),
        Command::Run { config, http } => (config, http),
    };
    log::init(&log, &["registrar", "csi_plugin_manager"]);
    build::announce("csi-plugin-manager");
    info!(node = config.node, "Starting");
    let rules = rules(&config);
    Box::pin(stand_in(
        &values,
        "csi-plugin-manager",
        http,
        &rules,
        |client, registry| {
            let kubelet = Kubelet::new(config, client, registry, unit_random)?;
            let initialized = kubelet.initialized();
            Ok((initialized, async { Ok(kubelet.run().await?) }))
        },
    ))
    .await
}

/// Stands in for a kubelet until the process has to end: then everything stays registered and mounted, as when a
/// kubelet ends. `make` returns the work, and the receiver that shows whether the CSINode is initialized.
pub async fn stand_in<W: Future<Output = Result<(), Exit>>>(
    values: &Values,
    name: &str,
    http: Option<String>,
    rules: &[Rule],
    make: impl FnOnce(Client, &Registry) -> Result<(watch::Receiver<bool>, W), Exit>,
) -> Result<(), Exit> {
    let options = Options::from_flags(values, Variable::Ignored, name, build::VERSION)?;
    let client = connect(&options, None).await?;
    let shutdown = Shutdown::listen(&[Signal::Terminate, Signal::Interrupt])?;
    let registry = Registry::new();
    build::register(&registry, name, "")?;
    let (initialized, working) = make(client.clone(), &registry)?;
    let routes = routes(initialized, &registry)?;
    let server = async {
        match &http {
            Some(address) => serve(address, routes).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        biased;
        () = shutdown.requested() => Ok(()),
        exit = server => Err(exit),
        ended = permitted(working, &client, rules) => ended,
    }
}

/// Does the work, unless the API server denies a permission without which nothing works. That is checked first, so that
/// nothing is started that cannot be finished; an API server that does not answer is checked again while the work waits
/// for it.
async fn permitted(
    working: impl Future<Output = Result<(), Exit>>,
    client: &Client,
    rules: &[Rule],
) -> Result<(), Exit> {
    let report = access::check(client, rules).await;
    report.log();
    if let Some(exit) = refusal(&report) {
        return Err(exit);
    }
    let is_known = report.unknown.is_none();
    tokio::select! {
        ended = working => ended,
        exit = ask_again(client, rules), if !is_known => Err(exit),
    }
}

/// The RBAC rules of the loop.
pub fn rules(config: &Config) -> Vec<Rule> {
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

/// Ends only if a required permission is denied.
async fn ask_again(client: &Client, rules: &[Rule]) -> Exit {
    loop {
        sleep(ACCESS_RETRY).await;
        let report = access::check(client, rules).await;
        if let Some(exit) = refusal(&report) {
            report.log();
            return exit;
        }
        if report.unknown.is_none() {
            report.log();
            return std::future::pending().await;
        }
    }
}

fn refusal(report: &Report) -> Option<Exit> {
    let required = report
        .missing
        .iter()
        .filter(|missing| missing.rule.need == Need::Required);
    let required: Vec<String> = required.map(ToString::to_string).collect();
    if required.is_empty() {
        return None;
    }
    Some(Exit::failure(
        1,
        format_args!(
            "the user of --kubeconfig, or the service account, lacks permissions; add the rules: {}",
            required.join("; ")
        ),
    ))
}

fn routes(initialized: watch::Receiver<bool>, registry: &Registry) -> Result<Routes, RouteError> {
    let mut routes = Routes::new();
    routes.add("/healthz", move || {
        // kubelet's reason for a Node that is not ready.
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
