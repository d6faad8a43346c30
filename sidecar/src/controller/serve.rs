//! The HTTP server of a process: metrics, and the health of its leadership.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::flags::Http;
use crate::clock;
use crate::election::Health;
use crate::error::Chain;
use crate::flags::Exit;
use crate::http::{Reply, Routes, Server};
use crate::metrics::Registry;

/// Path of the health check.
pub const HEALTH: &str = "/healthz/leader-election";

/// Path of the answer whether the process can do its work at all.
pub const READY: &str = "/readyz";

/// Where the health of leadership is found once there is an election; clones are the same.
#[derive(Clone, Debug, Default)]
pub struct LeaderHealth(Arc<Mutex<BTreeMap<String, Health>>>);

impl LeaderHealth {
    /// From now on `health` is what counts for this lease.
    pub fn set(&self, lease: &str, health: Health) {
        self.lock().insert(lease.to_owned(), health);
    }

    /// What is wrong with the first of the leases with which something is.
    #[must_use]
    pub fn problem(&self) -> Option<String> {
        let now = clock::now();
        self.lock().values().find_map(|health| health.problem(now))
    }

    /// Why leases cannot be asked for, a line each.
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

/// What keeps controllers from their work or some of it, by controller or cause; clones are the same.
#[derive(Clone, Debug, Default)]
pub struct Hindrances(Arc<Mutex<BTreeMap<&'static str, String>>>);

impl Hindrances {
    /// From now on this hinders, `what` being a controller or a cause; `None` if nothing does.
    pub fn set(&self, what: &'static str, hindrance: Option<String>) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match hindrance {
            Some(text) => drop(all.insert(what, text)),
            None => drop(all.remove(what)),
        }
    }

    /// This hinders until the result is dropped.
    #[must_use]
    pub fn meanwhile(&self, what: &'static str, hindrance: String) -> Hindered {
        self.set(what, Some(hindrance));
        Hindered(self.clone(), what)
    }

    /// All of them, each on a line of its own.
    #[must_use]
    pub fn problem(&self) -> Option<Arc<str>> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let lines: Vec<String> = { all.iter() }
            .map(|(what, text)| format!("{what}: {text}"))
            .collect();
        (!lines.is_empty()).then(|| lines.join("\n").into())
    }
}

/// As long as something hinders.
#[derive(Debug)]
pub struct Hindered(Hindrances, &'static str);

impl Drop for Hindered {
    fn drop(&mut self) {
        self.0.set(self.1, None);
    }
}

/// What a controller shows: its metrics, and its health if it may lead.
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

/// Listens. `refused` is the exit code for an address that cannot be listened on.
///
/// # Errors
/// Nobody can listen there.
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
