//! The program csi-node-agent: flags, API client, HTTP server, registration and volumes.

use std::ffi::OsString;

use registrar::kubelet::program::{rules, stand_in};
use sidecar::build;
use sidecar::flags::{self, Exit};
use sidecar::kube::access::Rule;
use sidecar::log;
use sidecar::rt::unit_random;
use tracing::info;

use crate::args::{self, Command};
use crate::run::{Agent, Config};

/// Runs csi-node-agent.
///
/// # Errors
/// The process's exit, unless SIGTERM or SIGINT ends it in an orderly way.
pub async fn run(argv: impl IntoIterator<Item = OsString>) -> Result<(), Exit> {
    let values = flags::parse(&args::SPEC, argv)?;
    let log = log::Config::from_flags(&values)?;
    let variable = std::env::var("NODE_NAME").ok();
    let (config, http) = match args::decide(&values, variable.as_deref())? {
        Command::Version => return Err(Exit::version(values.program())),
        Command::Run { config, http } => (config, http),
    };
    log::init(&log, &["registrar", "node_agent"]);
    build::announce("csi-node-agent");
    let node = config.registration.node.as_str();
    info!(node, "Starting");
    let rules = needs(&config);
    Box::pin(stand_in(
        &values,
        "csi-node-agent",
        http,
        &rules,
        |client, registry| {
            let agent = Agent::new(config, client, registry, unit_random)?;
            let initialized = agent.initialized();
            Ok((initialized, async { Ok(Box::pin(agent.run()).await?) }))
        },
    ))
    .await
}

/// The agent's permissions on the API server; `node-agent/deploy/rbac.yaml` grants them.
pub fn needs(config: &Config) -> Vec<Rule> {
    const STORAGE: &str = "storage.k8s.io";
    let mut all = rules(&config.registration);
    all.extend([
        Rule::required("", "nodes", &["list", "watch"]),
        Rule::required("", "pods", &["list", "watch"]),
        Rule::required("", "persistentvolumeclaims", &["get"]),
        Rule::required("", "persistentvolumes", &["get"]),
        Rule::required(STORAGE, "csidrivers", &["get"]),
        Rule::required(STORAGE, "volumeattachments", &["get"]),
        Rule::required("", "secrets", &["get"])
            .optional("volumes whose driver needs a Secret on the node are not mounted"),
        Rule::required("", "serviceaccounts/token", &["create"])
            .optional("volumes whose driver asks for tokens are not mounted"),
        Rule::required("", "persistentvolumeclaims/status", &["patch"])
            .optional("claims are not told that their file system has grown"),
        Rule::required("", "events", &["create", "patch"])
            .optional("pods do not show why they wait for volumes"),
    ]);
    if config.run_pods {
        all.extend([
            Rule::required("", "pods/status", &["patch"])
                .optional("pods stay Pending (--run-pods)"),
            Rule::required("", "pods", &["delete"])
                .optional("deleted pods stay Terminating (--run-pods)"),
        ]);
    }
    all
}
