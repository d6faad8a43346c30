//! What is known of the registration with kubelet, from before there is a socket for it.

use std::sync::{Arc, OnceLock};

use http::StatusCode;
use registrar::health::RegistrationHealth;
use sidecar::http::{Reply, RouteError, Routes};

use crate::plan::paths;

/// Before there is a registration socket.
const NO_NAME: &str = "not registered: the driver has not told its name yet";

/// A registration, which may not have begun; clones are the same.
#[derive(Clone, Debug, Default)]
pub(crate) struct Registration(Arc<OnceLock<RegistrationHealth>>);

impl Registration {
    /// There is something to be looked at from now on.
    pub(crate) fn begins(&self, health: RegistrationHealth) {
        let _ = self.0.set(health);
    }

    /// The driver has told the registrar its name.
    pub(crate) fn has_begun(&self) -> bool {
        self.0.get().is_some()
    }

    /// What the registrar says of its socket, once it has one.
    pub(crate) async fn socket(&self) -> Option<Reply> {
        match self.0.get() {
            Some(health) => Some(health.health().await),
            None => None,
        }
    }

    /// For `/healthz`.
    pub(crate) async fn health(&self) -> Reply {
        let none = || Reply::text(StatusCode::NOT_FOUND, NO_NAME);
        self.socket().await.unwrap_or_else(none)
    }

    /// Why kubelet has not registered the driver, unless it has.
    pub(crate) fn unregistered(&self) -> Option<String> {
        let health = self.0.get();
        health.and_then(RegistrationHealth::unregistered)
    }

    /// Adds the path that is about it alone.
    ///
    /// # Errors
    /// The path is taken.
    pub(crate) fn add_to(&self, routes: &mut Routes) -> Result<(), RouteError> {
        let this = self.clone();
        routes.add(paths::REGISTRATION, move || {
            let none = || Reply::text(StatusCode::SERVICE_UNAVAILABLE, NO_NAME);
            let reply = this.0.get().map(RegistrationHealth::registration);
            std::future::ready(reply.unwrap_or_else(none))
        })
    }
}
