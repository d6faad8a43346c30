//! csi-node-agent under exactly the permissions that are shipped with it.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::api::Api;
use crate::cluster::Cluster;
use crate::node::Seat;
use crate::process::{self, Process};
use crate::{chart, manifest, program, wait};

/// The service account of all agents in a cluster, with its ClusterRole.
#[derive(Debug)]
pub struct NodeAgent {
    kubeconfig: PathBuf,
    role: Value,
}

impl NodeAgent {
    /// The user name on the API server.
    pub const USER: &str = "system:serviceaccount:default:node-agent";

    /// Creates account, role and binding unless they exist, and waits until the authorizer knows
    /// them.
    pub fn install(cluster: &Cluster, api: &Api) -> Result<Self> {
        let kubeconfig = cluster.dir().join("run/node-agent.kubeconfig");
        let shipped = program::root().join("node-agent/deploy/rbac.yaml");
        let role = chart::objects(&fs::read_to_string(shipped)?)?;
        let role = role.into_iter().next().context("no ClusterRole")?;
        let agent = Self { kubeconfig, role };
        if !agent.kubeconfig.exists() {
            let path = agent.kubeconfig.to_string_lossy();
            let account = ["--serviceaccount", "default/node-agent", "--create"];
            cluster.run(&[&["kubeconfig"], &account[..], &["-o", &path]].concat())?;
            manifest::create(api, &agent.role)?;
            manifest::create(api, &binding())?;
        }
        wait::until_true(Duration::from_secs(40), "agents may get nodes", || {
            let mut kubectl = Command::new(program::cluster()?);
            kubectl.args(["kubectl", "--dir"]).arg(cluster.dir());
            kubectl.args(["auth", "can-i", "get", "nodes", "--as", Self::USER]);
            Ok(process::output(&mut kubectl).is_ok())
        })?;
        Ok(agent)
    }

    /// The ClusterRole.
    pub fn role(&self) -> &Value {
        &self.role
    }

    /// Starts the agent of a node.
    pub fn start(&self, seat: &Seat<'_>, flags: &[&str]) -> Result<Process> {
        let mut command = seat.command(program::node_agent()?);
        command
            .arg(format!("--node-name={}", seat.node))
            .arg(format!(
                "--kubelet-root-dir={}",
                seat.kubelet_dir().display()
            ))
            .arg(format!("--kubeconfig={}", self.kubeconfig.display()))
            .args(flags);
        Process::start("node-agent", command, &seat.dir)
    }
}

fn binding() -> Value {
    let group = "rbac.authorization.k8s.io";
    json!({
        "apiVersion": format!("{group}/v1"), "kind": "ClusterRoleBinding",
        "metadata": { "name": "node-agent" },
        "subjects": [{ "kind": "ServiceAccount", "name": "node-agent", "namespace": "default" }],
        "roleRef": { "apiGroup": group, "kind": "ClusterRole", "name": "csi-node-agent" },
    })
}
