//! The process's own HTTP paths and metrics, besides those of the controllers: liveness, readiness, and
//! which controllers are up.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sidecar::controller::Process;
use sidecar::controller::serve::{Hindrances, LeaderHealth};
use sidecar::flags::Exit;
use sidecar::http::{Reply, RouteError, Routes};
use sidecar::kube::access::Findings;
use sidecar::metrics::{ControllerMetrics, Registry};
use sidecar::outage::Outage;
use tokio::sync::watch;

use crate::plan::paths::{self, Missing, Off, Readiness};
use crate::registration::Registration;

/// The state that paths and metrics show; clones share it.
#[derive(Clone)]
pub(super) struct Shown {
    up: ControllerMetrics,
    health: LeaderHealth,
    missing: Findings,
    server: Outage,
    hindrances: Hindrances,
    /// Set if the registrar runs.
    registration: Option<Registration>,
    ending: watch::Receiver<bool>,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    /// Whether the driver's name is known.
    is_named: bool,
    /// Whether a lease is held or requested.
    is_campaigning: bool,
    /// Controllers that are off, and why.
    off: Vec<(&'static str, String)>,
}

impl Shown {
    /// # Errors
    /// If the metrics contradict each other, which does not happen.
    pub(super) fn new(process: &Process, registration: Option<Registration>) -> Result<Self, Exit> {
        let (health, missing) = (process.health.clone(), process.missing.clone());
        let hindrances = process.hindrances.clone();
        let about = (health, missing, process.server.clone(), hindrances);
        let ending = process.shutdown.watch();
        Self::of(&process.registry, about, ending, registration)
    }

    pub(super) fn of(
        registry: &Registry,
        (health, missing, server, hindrances): (LeaderHealth, Findings, Outage, Hindrances),
        ending: watch::Receiver<bool>,
        registration: Option<Registration>,
    ) -> Result<Self, Exit> {
        Ok(Self {
            up: ControllerMetrics::new(registry)?,
            health,
            missing,
            server,
            hindrances,
            registration,
            ending,
            state: Arc::default(),
        })
    }

    /// The driver's name is known.
    pub(super) fn driver_is_named(&self) {
        self.lock().is_named = true;
    }

    /// Sets whether a lease is held or requested; without leader election, whether the driver is
    /// reachable.
    pub(super) fn campaigns(&self, is_campaigning: bool) {
        self.lock().is_campaigning = is_campaigning;
    }

    /// This controller is working or waiting for its lease.
    pub(super) fn is_up(&self, controller: &'static str) {
        self.lock().off.retain(|(name, _)| *name != controller);
        self.up.set_up(controller, true);
    }

    /// This controller has ended and will restart.
    pub(super) fn is_down(&self, controller: &'static str) {
        self.up.set_up(controller, false);
    }

    /// This controller is off for good.
    pub(super) fn is_off(&self, controller: &'static str, reason: &str) {
        self.up.set_up(controller, false);
        self.lock().off.push((controller, reason.to_owned()));
    }

    /// Adds the paths of the process.
    ///
    /// # Errors
    /// If a path is in use.
    pub(super) fn add_to(&self, routes: &mut Routes) -> Result<(), RouteError> {
        let shown = self.clone();
        routes.add(paths::LIVE, move || {
            let shown = shown.clone();
            async move { shown.live().await }
        })?;
        let shown = self.clone();
        routes.add(paths::READY, move || std::future::ready(shown.ready()))
    }

    async fn live(&self) -> Reply {
        let socket = match &self.registration {
            Some(registration) => registration.socket().await,
            None => None,
        };
        paths::live(self.health.problem(), socket)
    }

    pub(super) fn ready(&self) -> Reply {
        let registration = self.registration.as_ref();
        let unregistered = registration.and_then(Registration::unregistered);
        let missing = self.missing.missing();
        let missing: Vec<_> = { missing.iter() }
            .map(|(rule, controllers)| Missing { rule, controllers })
            .collect();
        let refused = self.health.refusals();
        let state = self.lock();
        let off: Vec<_> = { state.off.iter() }
            .map(|(controller, reason)| Off { controller, reason })
            .collect();
        paths::ready(&Readiness {
            is_named: state.is_named && registration.is_none_or(Registration::has_begun),
            missing: &missing,
            off: &off,
            is_idle: state.is_named && !state.is_campaigning,
            unregistered: unregistered.as_deref(),
            unreachable: self.server.problem().as_deref(),
            refused: &refused,
            hindered: self.hindrances.problem().as_deref(),
            is_ending: *self.ending.borrow(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
