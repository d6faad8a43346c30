//! The registration with kubelet, in a process that contains other programs. It starts over when kubelet
//! refuses the registration or the driver's name changes, since the other programs keep serving the
//! driver meanwhile.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http::StatusCode;
use registrar::args::Config;
use registrar::health::RegistrationHealth;
use registrar::registrar::{Ended, Registrar};
use sidecar::flags::Exit;
use sidecar::http::{Reply, RouteError, Routes};
use sidecar::in_cluster::InCluster;
use sidecar::metrics::Registry;
use sidecar::shutdown::Requested;
use tokio::time::{Instant, sleep};

use crate::plan::ends::Life;
use crate::plan::paths;
use crate::startup_taint::StartupTaint;

/// Reply while the driver's name is unknown, before the registration socket exists.
const NO_NAME: &str = "not registered: the driver's name is not known yet";
/// Pause between attempts to meet the driver; each attempt may take thirty seconds.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// The observable state of a registration; clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Registration(Arc<Mutex<State>>);

#[derive(Debug, Default)]
enum State {
    /// The driver's name is not known yet.
    #[default]
    Unnamed,
    /// The registration socket exists.
    Begun(RegistrationHealth),
    /// The registration ended for this reason, and will start over.
    Ended(String),
}

/// Keeps a driver registered.
#[derive(Debug)]
pub(crate) struct Registering {
    config: Config,
    /// Whether the process contains no other program, so that it ends as the registrar does.
    is_alone: bool,
    registration: Registration,
    startup_taint: Option<StartupTaint>,
}

impl Registering {
    /// # Errors
    /// If `--remove-taint` cannot work with these flags and variables.
    pub(crate) fn new(
        config: Config,
        is_alone: bool,
        (api, registry): (InCluster, &Registry),
    ) -> Result<Self, Exit> {
        let variable = |name: &str| std::env::var(name).ok();
        Ok(Self {
            startup_taint: StartupTaint::new(&config, variable, api, registry)?,
            config,
            is_alone,
            registration: Registration::default(),
        })
    }

    /// The observable state of the registration.
    pub(crate) fn registration(&self) -> Registration {
        self.registration.clone()
    }

    /// Waits until the driver returns its name.
    ///
    /// # Errors
    /// As the program, if no other program runs in this process.
    pub(crate) async fn meet(&self) -> Result<Registrar, Exit> {
        let mut last = Exit::default();
        loop {
            match Registrar::meet_driver(self.config.clone()).await {
                Ok(registrar) => {
                    self.registration.set(State::Begun(registrar.health()));
                    return Ok(registrar);
                }
                Err(exit) if self.is_alone => return Err(exit),
                Err(exit) if exit == last => {}
                Err(exit) => {
                    say("Cannot register the driver yet", &exit);
                    last = exit;
                }
            }
            sleep(RETRY_INTERVAL).await;
        }
    }

    /// Registers the driver and keeps it registered until asked to end; then removes the socket.
    ///
    /// # Errors
    /// As the program: always if it is alone, otherwise only for errors that a restart of the container
    /// can fix.
    pub(crate) async fn keep(
        &self,
        mut registrar: Registrar,
        ending: &Requested,
    ) -> Result<(), Exit> {
        let mut life = Life::default();
        loop {
            life.begin(Instant::now().into_std());
            let exit = match self.run(registrar, ending).await {
                Ok(()) => return Ok(()),
                Err(Ended::ForNow(exit)) if !self.is_alone => exit,
                Err(ended) => return Err(ended.into()),
            };
            say("The registration ended, restarting it", &exit);
            let pause = life.pause(Instant::now().into_std());
            let reason = exit.error.unwrap_or_default();
            self.registration.set(State::Ended(reason));
            let again = async {
                sleep(pause).await;
                self.meet().await
            };
            registrar = tokio::select! {
                biased;
                () = ending.requested() => return Ok(()),
                met = again => met?,
            };
        }
    }
}

impl Registering {
    async fn run(&self, registrar: Registrar, ending: &Requested) -> Result<(), Ended> {
        let health = registrar.health();
        let running = registrar.run(ending);
        let Some(taint) = &self.startup_taint else {
            return running.await;
        };
        tokio::select! {
            biased;
            ended = running => ended,
            never = taint.remove(health.driver(), health.follow()) => match never {},
        }
    }
}

fn say(what: &str, exit: &Exit) {
    let (controller, reason) = ("node-driver-registrar", exit.error.as_deref());
    tracing::error!(controller, reason, "{what}");
}

impl Registration {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, state: State) {
        *self.lock() = state;
    }

    /// Whether the registrar knows the driver's name.
    pub(crate) fn has_begun(&self) -> bool {
        !matches!(*self.lock(), State::Unnamed)
    }

    /// The registrar's reply about its socket, while it has one.
    pub(crate) async fn socket(&self) -> Option<Reply> {
        let health = match &*self.lock() {
            State::Begun(health) => health.clone(),
            State::Unnamed | State::Ended(_) => return None,
        };
        Some(health.health().await)
    }

    /// The reply for `/healthz`.
    pub(crate) async fn health(&self) -> Reply {
        let socket = self.socket().await;
        socket.unwrap_or_else(|| match &*self.lock() {
            State::Ended(reason) => Reply::text(StatusCode::INTERNAL_SERVER_ERROR, reason.clone()),
            State::Unnamed | State::Begun(_) => Reply::text(StatusCode::NOT_FOUND, NO_NAME),
        })
    }

    /// Why kubelet has not registered the driver; `None` if it has, or before the driver's name is
    /// known.
    pub(crate) fn unregistered(&self) -> Option<String> {
        match &*self.lock() {
            State::Unnamed => None,
            State::Begun(health) => health.unregistered(),
            State::Ended(reason) => Some(format!("not registered: {reason}")),
        }
    }

    /// Adds the registration's own path.
    ///
    /// # Errors
    /// If the path is in use.
    pub(crate) fn add_to(&self, routes: &mut Routes) -> Result<(), RouteError> {
        let this = self.clone();
        routes.add(paths::REGISTRATION, move || {
            let unavailable = |text: String| Reply::text(StatusCode::SERVICE_UNAVAILABLE, text);
            std::future::ready(match &*this.lock() {
                State::Begun(health) => health.registration(),
                State::Unnamed => unavailable(NO_NAME.to_owned()),
                State::Ended(reason) => unavailable(format!("not registered: {reason}")),
            })
        })
    }
}
