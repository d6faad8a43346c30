//! The fault proxy between a program and the API server.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::cluster::Cluster;
use crate::node::http;

/// The proxy's control address. Dropping it removes all rules, so that a failed scenario does not
/// affect the next one.
#[derive(Debug)]
pub struct FaultProxy {
    address: String,
}

impl FaultProxy {
    /// The proxy of a cluster that was started with `--proxy on`.
    pub fn of(cluster: &Cluster) -> Result<Self> {
        let url = cluster.state("/proxyControl")?;
        let address = url.trim_start_matches("http://").trim_end_matches('/');
        Ok(Self {
            address: address.to_owned(),
        })
    }

    fn ask(&self, method: &str, path: &str, body: &str) -> Result<String> {
        let (status, answer) = http(&self.address, method, path, body)?;
        ensure!(
            (200..300).contains(&status),
            "fault proxy: {method} {path}: {status} {answer}"
        );
        Ok(answer)
    }

    /// Replaces all rules; the first one that matches and is not used up applies.
    pub fn replace(&self, rules: &[Value]) -> Result<()> {
        self.ask("PUT", "/rules", &json!(rules).to_string())
            .map(drop)
    }

    /// Adds a rule after the existing ones.
    pub fn add(&self, rule: &Value) -> Result<()> {
        self.ask("POST", "/rules", &rule.to_string()).map(drop)
    }

    /// Number of requests that the rules of that name applied to.
    pub fn hits(&self, name: &str) -> Result<u64> {
        let rules: Vec<Value> = serde_json::from_str(&self.ask("GET", "/rules", "")?)
            .context("the fault proxy's rules cannot be read")?;
        let named = rules
            .iter()
            .filter(|rule| rule.get("name").and_then(Value::as_str) == Some(name));
        Ok(named
            .filter_map(|rule| rule.get("hits").and_then(Value::as_u64))
            .sum())
    }
}

impl Drop for FaultProxy {
    fn drop(&mut self) {
        // Without a proxy there are no rules to remove.
        let _ = self.ask("DELETE", "/rules", "");
    }
}
