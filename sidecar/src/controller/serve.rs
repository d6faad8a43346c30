//! The HTTP server of a process: metrics and leader health.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::flags::Http;
use crate::clock;
use crate::election::Health;
use crate::error::Chain;
use crate::flags::Exit;
use crate::http::{Reply, Routes, Server};
use crate::metrics::Registry;
use crate::why::answer::Leadership;

/// Path of the health check of leader election.
pub const HEALTH: &str = "/healthz/leader-election";

/// Path of the readiness check.
pub const READY: &str = "/readyz";

/// Health of each lease, once there is an election; clones share it.
#[derive(Clone, Debug, Default)]
pub struct LeaderHealth(Arc<Mutex<BTreeMap<String, Health>>>);

impl LeaderHealth {
    /// Sets the health of this lease.
    pub fn set(&self, lease: &str, health: Health) {
        self.lock().insert(lease.to_owned(), health);
    }

    /// The problem of the first unhealthy lease.
    #[must_use]
    pub fn problem(&self) -> Option<String> {
        let now = clock::now();
        self.lock().values().find_map(|health| health.problem(now))
    }

    /// The leases that are held or asked for.
    #[must_use]
    pub fn leases(&self) -> Vec<String> {
        self.lock().keys().cloned().collect()
    }

    /// Who holds this lease, if it is held or asked for.
    #[must_use]
    pub fn leadership(&self, lease: &str) -> Option<Leadership> {
        let (seen, holder, leads) = self.lock().get(lease)?.seen();
        let (holder, since) = holder.unzip();
        Some(Leadership {
            leads,
            lease: Some(seen).filter(|seen| !seen.is_empty()),
            holder,
            since,
        })
    }

    /// Leases that the API server refuses, with the reason, a line each.
    #[must_use]
    pub fn refusals(&self) -> Vec<String> {
        let all = self.lock();
        let refused = all
            .iter()
            .filter_map(|(lease, health)| Some((lease, health.refusal()?)));
        refused
            .map(|(lease, refusal)| format!("the lease {lease} cannot be asked for: {refusal}"))
            .collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Health>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reasons why controllers cannot do some of their work, by controller or cause; clones share them.
#[derive(Clone, Debug, Default)]
pub struct Hindrances(Arc<Mutex<BTreeMap<&'static str, String>>>);

impl Hindrances {
    /// Sets the reason for `what`, a controller or a cause; `None` clears it.
    pub fn set(&self, what: &'static str, hindrance: Option<String>) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match hindrance {
            Some(text) => drop(all.insert(what, text)),
            None => drop(all.remove(what)),
        }
    }

    /// Sets the reason until the result is dropped.
    #[must_use]
    pub fn meanwhile(&self, what: &'static str, hindrance: String) -> Hindered {
        self.set(what, Some(hindrance));
        Hindered(self.clone(), what)
    }

    /// All reasons, each on its own line.
    #[must_use]
    pub fn problem(&self) -> Option<Arc<str>> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let lines: Vec<String> = { all.iter() }
            .map(|(what, text)| format!("{what}: {text}"))
            .collect();
        (!lines.is_empty()).then(|| lines.join("\n").into())
    }
}

/// Clears a reason when dropped.
#[derive(Debug)]
pub struct Hindered(Hindrances, &'static str);

impl Drop for Hindered {
    fn drop(&mut self) {
        self.0.set(self.1, None);
    }
}

/// The routes of a controller: its metrics, and its health if it takes part in an election.
///
/// # Errors
/// `--metrics-path` is no path (code 2).
pub fn routes(http: &Http, registry: &Registry, health: &LeaderHealth) -> Result<Routes, Exit> {
    let mut routes = Routes::new();
    let added = if http.health {
        let health = health.clone();
        let reply = move || Reply::leader_health(health.problem());
        routes.add(HEALTH, move || std::future::ready(reply()))
    } else {
        Ok(())
    };
    let metrics = |()| match &http.metrics_path {
        Some(path) => routes.add_metrics(path, registry),
        None => Ok(()),
    };
    added
        .and_then(metrics)
        .map_err(|error| Exit::failure(2, format_args!("--metrics-path: {error}")))?;
    Ok(routes)
}

/// Binds the address. `refused` is the exit code if that fails.
///
/// # Errors
/// The address cannot be bound.
pub async fn bind(http: &Http, refused: u8) -> Result<Server, Exit> {
    let server = Server::bind(&http.address).await;
    server.map_err(|error| {
        let (flag, error) = (http.flag, Chain(&error).to_string());
        Exit::failure(
            refused,
            format_args!("{flag}: cannot start the HTTP server: {error}"),
        )
    })
}
