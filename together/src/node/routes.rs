//! The HTTP server of the process.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use livenessprobe::prober::Prober;
use registrar::health::add_pprof;
use sidecar::error::Chain;
use sidecar::flags::Exit;
use sidecar::http::{Reply, RouteError, Routes};
use sidecar::metrics::Registry;

use super::args::Config;
use crate::plan::paths::{self, Readiness};
use crate::registration::Registration;

/// The state that the HTTP paths report.
#[derive(Debug)]
pub(super) struct Node {
    prober: Option<Prober>,
    /// Whether livenessprobe knows the driver's name, or does not run.
    probes: AtomicBool,
    /// Set if the registrar runs.
    registration: Option<Registration>,
}

impl Node {
    pub(super) fn new(prober: Option<Prober>, registration: Option<Registration>) -> Self {
        Self {
            probes: AtomicBool::new(prober.is_none()),
            prober,
            registration,
        }
    }

    /// livenessprobe has got the driver's name.
    pub(super) fn probes(&self) {
        self.probes.store(true, Ordering::Relaxed);
    }

    async fn health(&self) -> Reply {
        match (&self.prober, &self.registration) {
            (Some(prober), _) => paths::health(Some(prober.health().await), None),
            (None, Some(registration)) => paths::health(None, Some(registration.health().await)),
            (None, None) => paths::health(None, None),
        }
    }

    async fn live(&self) -> Reply {
        match &self.registration {
            Some(registration) => paths::live(None, registration.socket().await),
            None => paths::live(None, None),
        }
    }

    fn ready(&self) -> Reply {
        let registration = self.registration.as_ref();
        let unregistered = registration.and_then(Registration::unregistered);
        let is_named = self.probes.load(Ordering::Relaxed);
        paths::ready(&Readiness {
            is_named: is_named && registration.is_none_or(Registration::has_begun),
            unregistered: unregistered.as_deref(),
            ..Readiness::default()
        })
    }
}

/// All paths of the server.
///
/// # Errors
/// Exit code 2 if `--metrics-path` is not a path or is already in use.
pub(super) fn of(node: &Arc<Node>, config: &Config, registry: &Registry) -> Result<Routes, Exit> {
    let add = || -> Result<Routes, RouteError> {
        let mut routes = Routes::new();
        if config.http.as_ref().is_some_and(|http| http.has_health) {
            add_health(&mut routes, node, config)?;
        }
        routes.add_metrics(&config.metrics_path, registry)?;
        Ok(routes)
    };
    add().map_err(|error| Exit::failure(2, format_args!("--metrics-path: {}", Chain(&error))))
}

fn add_health(routes: &mut Routes, node: &Arc<Node>, config: &Config) -> Result<(), RouteError> {
    let this = Arc::clone(node);
    routes.add(paths::HEALTH, move || {
        let node = Arc::clone(&this);
        async move { node.health().await }
    })?;
    let this = Arc::clone(node);
    routes.add(paths::LIVE, move || {
        let node = Arc::clone(&this);
        async move { node.live().await }
    })?;
    let this = Arc::clone(node);
    routes.add(paths::READY, move || std::future::ready(this.ready()))?;
    routes.add(paths::LEADER_ELECTION, || {
        std::future::ready(paths::leader_election(None))
    })?;
    if let Some(registration) = &node.registration {
        registration.add_to(routes)?;
    }
    if config.pprof {
        add_pprof(routes)?;
    }
    Ok(())
}
