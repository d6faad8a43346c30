//! The registration with kubelet, in a process that others are in: it begins anew when kubelet has refused or
//! the driver has another name, since they answer for the driver meanwhile.

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

/// Before there is a registration socket.
const NO_NAME: &str = "not registered: the driver's name is not known yet";
/// Between attempts to meet the driver, each of which may take thirty seconds.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// What is seen of a registration; clones are the same.
#[derive(Clone, Debug, Default)]
pub(crate) struct Registration(Arc<Mutex<State>>);

#[derive(Debug, Default)]
enum State {
    /// The driver has not told its name.
    #[default]
    Unnamed,
    /// There is a socket to be looked at.
    Begun(RegistrationHealth),
    /// Why it has ended. It begins anew.
    Ended(String),
}

/// Keeps a driver registered.
#[derive(Debug)]
pub(crate) struct Registering {
    config: Config,
    /// Nobody else is in this process: it ends as the program does.
    is_alone: bool,
    registration: Registration,
    startup_taint: Option<StartupTaint>,
}

impl Registering {
    /// # Errors
    /// The start-up taint that is to be removed cannot be.
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

    /// How far it has come.
    pub(crate) fn registration(&self) -> Registration {
        self.registration.clone()
    }

    /// Waits for the driver to tell its name.
    ///
    /// # Errors
    /// As the program, if it is alone.
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

    /// Registers the driver and keeps it registered until it is to end; then removes the socket.
    ///
    /// # Errors
    /// As the program: always if it is alone, else for what only another start of the container mends.
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

    /// The driver has told the registrar its name.
    pub(crate) fn has_begun(&self) -> bool {
        !matches!(*self.lock(), State::Unnamed)
    }

    /// What the registrar says of its socket, as long as it has one.
    pub(crate) async fn socket(&self) -> Option<Reply> {
        let health = match &*self.lock() {
            State::Begun(health) => health.clone(),
            State::Unnamed | State::Ended(_) => return None,
        };
        Some(health.health().await)
    }

    /// For `/healthz`.
    pub(crate) async fn health(&self) -> Reply {
        let socket = self.socket().await;
        socket.unwrap_or_else(|| match &*self.lock() {
            State::Ended(reason) => Reply::text(StatusCode::INTERNAL_SERVER_ERROR, reason.clone()),
            State::Unnamed | State::Begun(_) => Reply::text(StatusCode::NOT_FOUND, NO_NAME),
        })
    }

    /// Why kubelet has not registered the driver, unless it has.
    pub(crate) fn unregistered(&self) -> Option<String> {
        match &*self.lock() {
            State::Unnamed => None,
            State::Begun(health) => health.unregistered(),
            State::Ended(reason) => Some(format!("not registered: {reason}")),
        }
    }

    /// Adds the path that is about it alone.
    ///
    /// # Errors
    /// The path is taken.
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
