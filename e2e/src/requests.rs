//! What a program asked of the API server, counted from the audit log.
//!
//! Programs are told apart by their user, which for a sidecar is its service account: a user agent
//! is only what a program says of itself.

use std::fmt;

use anyhow::{Context, Result};
use serde::Deserialize;

use crate::cluster::Cluster;

/// Requests of one kind.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Request {
    /// Who asked.
    pub user: String,
    /// What the program calls itself.
    pub user_agent: String,
    /// `get`, `list`, `watch`, `patch`, …
    pub verb: String,
    /// Group of the resource; empty for the core group.
    pub api_group: String,
    /// Plural name of the resource; empty for a request that is about none.
    #[serde(default)]
    pub resource: String,
    /// `status`, `token`, …
    #[serde(default)]
    pub subresource: String,
    /// HTTP status of the answer.
    pub code: u16,
    /// How many there were.
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

/// The requests of some time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Requests {
    kinds: Vec<Request>,
}

impl Requests {
    /// Each kind.
    pub fn iter(&self) -> impl Iterator<Item = &Request> {
        self.kinds.iter()
    }

    /// How many requests `chosen` holds for.
    pub fn count(&self, chosen: impl Fn(&Request) -> bool) -> u64 {
        let kinds = self.kinds.iter().filter(|kind| chosen(kind));
        kinds.map(|kind| kind.count).sum()
    }

    /// Requests with that verb on `resource` or `resource/subresource`.
    pub fn on(&self, verb: &str, path: &str) -> u64 {
        self.count(|kind| kind.verb == verb && kind.path() == path)
    }

    /// Requests with that verb on everything but leases, which come by the clock.
    pub fn verb(&self, verb: &str) -> u64 {
        self.count(|kind| kind.verb == verb && kind.resource != "leases")
    }

    /// Requests on leases.
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

/// The audit log as far as it is about one user.
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
    /// Counts from now on what `user` asks, which may be a regular expression for whole names.
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

    /// Requests since the last call of this function, or since counting began.
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
