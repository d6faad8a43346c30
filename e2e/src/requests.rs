//! A program's requests to the API server, counted from the audit log.
//!
//! The user identifies a program, for a sidecar its service account: a user agent is only a claim.

use std::fmt;

use anyhow::{Context, Result};
use serde::Deserialize;

use crate::cluster::Cluster;

/// Requests of one kind.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Request {
    /// The user.
    pub user: String,
    /// The user agent.
    pub user_agent: String,
    /// `get`, `list`, `watch`, `patch`, …
    pub verb: String,
    /// Group of the resource; empty for the core group.
    pub api_group: String,
    /// Plural name of the resource; empty for a request without one.
    #[serde(default)]
    pub resource: String,
    /// `status`, `token`, …
    #[serde(default)]
    pub subresource: String,
    /// HTTP status of the response.
    pub code: u16,
    /// Number of requests.
    pub count: u64,
}

impl Request {
    /// `resource` or `resource/subresource`.
    pub fn path(&self) -> String {
        match self.subresource.as_str() {
            "" => self.resource.clone(),
            subresource => format!("{}/{subresource}", self.resource),
        }
    }
}

/// The requests of a period.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Requests {
    kinds: Vec<Request>,
}

impl Requests {
    /// All kinds of requests.
    pub fn iter(&self) -> impl Iterator<Item = &Request> {
        self.kinds.iter()
    }

    /// Number of requests that `chosen` selects.
    pub fn count(&self, chosen: impl Fn(&Request) -> bool) -> u64 {
        let kinds = self.kinds.iter().filter(|kind| chosen(kind));
        kinds.map(|kind| kind.count).sum()
    }

    /// Number of requests with this verb on `resource` or `resource/subresource`.
    pub fn on(&self, verb: &str, path: &str) -> u64 {
        self.count(|kind| kind.verb == verb && kind.path() == path)
    }

    /// Number of requests with this verb, except on leases, which depend on the clock.
    pub fn verb(&self, verb: &str) -> u64 {
        self.count(|kind| kind.verb == verb && kind.resource != "leases")
    }

    /// Number of requests on leases.
    pub fn leases(&self) -> u64 {
        self.count(|kind| kind.resource == "leases")
    }

    fn add(&mut self, more: &Self) {
        self.kinds.extend(more.kinds.iter().cloned());
    }
}

impl fmt::Display for Requests {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, kind) in self.kinds.iter().enumerate() {
            let separator = if index == 0 { "" } else { ", " };
            let (verb, path) = (&kind.verb, kind.path());
            write!(f, "{separator}{} {verb} {path} → {}", kind.count, kind.code)?;
        }
        Ok(())
    }
}

/// The audit log of one user.
#[derive(Debug)]
pub struct AuditLog<'a> {
    cluster: &'a Cluster,
    user: String,
    mark: String,
    total: Requests,
}

#[derive(Deserialize)]
struct Counted {
    until: String,
    #[serde(default)]
    counts: Vec<Request>,
}

impl<'a> AuditLog<'a> {
    /// Starts to count the requests of `user`, a regular expression that matches whole names.
    pub fn of(cluster: &'a Cluster, user: &str) -> Result<Self> {
        let mark: String = user
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
            .collect();
        cluster.run(&["mark", &mark])?;
        Ok(Self {
            cluster,
            user: user.to_owned(),
            mark,
            total: Requests::default(),
        })
    }

    /// Requests since the last call of this function, or since the start.
    pub fn phase(&mut self) -> Result<Requests> {
        let user = self.user.replace('.', "\\.");
        let verb = [
            "requests",
            "--since",
            &self.mark,
            "--user",
            &user,
            "--by-user-agent",
        ];
        let counted: Counted = serde_json::from_str(&self.cluster.run(&verb)?)
            .context("counted requests cannot be read")?;
        let phase = Requests {
            kinds: counted.counts,
        };
        self.mark = counted.until;
        self.total.add(&phase);
        Ok(phase)
    }

    /// All requests of the phases so far.
    pub fn total(&self) -> &Requests {
        &self.total
    }
}
