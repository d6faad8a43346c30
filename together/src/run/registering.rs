//! The registrar, in a process of controllers that serves one node.

use sidecar::flags::Exit;
use sidecar::http::{RouteError, Routes};
use sidecar::shutdown::Requested;

use crate::plan::paths;
use crate::registration::{Registering, Registration};

/// Keeps the driver registered as long as `working` runs: kubelet would take a missing socket for a
/// driver that is gone, while calls may still be running.
///
/// # Errors
/// As `working`, or for errors that only a restart of the container can fix.
pub(super) async fn beside(
    registering: Registering,
    working: impl Future<Output = Result<(), Exit>>,
) -> Result<(), Exit> {
    let (ending, requested) = Requested::channel();
    let registration = registering.registration();
    let mut registering = Box::pin(async move {
        let registrar = registering.meet().await?;
        Box::pin(registering.keep(registrar, &requested)).await
    });
    let worked = tokio::select! {
        biased;
        worked = working => worked,
        failed = &mut registering => return failed,
    };
    if !registration.has_begun() {
        return worked;
    }
    ending.send_replace(true);
    worked.and(registering.await)
}

/// Adds the registration's paths to the process's own server, and `/healthz` unless livenessprobe serves
/// it.
///
/// # Errors
/// If a path is in use.
pub(super) fn add_to(
    routes: &mut Routes,
    registration: &Registration,
    is_probed: bool,
) -> Result<(), RouteError> {
    registration.add_to(routes)?;
    if is_probed {
        return Ok(());
    }
    let registration = registration.clone();
    routes.add(paths::HEALTH, move || {
        let registration = registration.clone();
        async move { paths::health(None, Some(registration.health().await)) }
    })
}
