//! Answers of the HTTP servers.

use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use sidecar::http::{Reply, RouteError, Routes};
use sidecar::metrics::Registry;
use sidecar::{rpc_code, verbose};

use crate::driver::{Driver, Health};

/// Answers `/healthz` with a Probe of the driver that may take `timeout`.
///
/// # Errors
/// None with this fixed path.
pub fn routes(driver: &Arc<Driver>, timeout: Duration) -> Result<Routes, RouteError> {
    let mut routes = Routes::new();
    let driver = Arc::clone(driver);
    add(&mut routes, move || Arc::clone(&driver), timeout)?;
    Ok(routes)
}

/// The same on a server that has other routes. Each request calls `driver`.
///
/// # Errors
/// The path is taken.
pub fn add(
    routes: &mut Routes,
    driver: impl Fn() -> Arc<Driver> + Send + Sync + 'static,
    timeout: Duration,
) -> Result<(), RouteError> {
    routes.add("/healthz", move || {
        let driver = driver();
        async move { of(&driver, timeout).await }
    })
}

/// The answer to one health request.
pub(crate) async fn of(driver: &Driver, timeout: Duration) -> Reply {
    let health = driver.probe(timeout).await;
    log(&health);
    reply(&health)
}

/// Routes for a server that only answers `path`, with the metrics.
///
/// # Errors
/// `path` is not a path.
pub fn metrics(path: &str, registry: &Registry) -> Result<Routes, RouteError> {
    let mut routes = Routes::new();
    routes.add_metrics(path, registry)?;
    Ok(routes)
}

/// The reply for a result; status codes and texts are upstream's.
fn reply(health: &Health) -> Reply {
    let error = |text| Reply::text(StatusCode::INTERNAL_SERVER_ERROR, text);
    match health {
        Health::Ready => Reply::ok(),
        Health::NotReady => error("driver responded but is not ready".to_owned()),
        Health::Failed(status) => error(rpc_code::text(status)),
        Health::Unreachable(_) => error("context deadline exceeded".to_owned()),
    }
}

fn log(health: &Health) {
    match health {
        Health::Ready => verbose!(5, "Health check succeeded"),
        Health::NotReady => tracing::error!("Health check failed: the driver is not ready"),
        Health::Failed(status) => {
            let err = rpc_code::text(status);
            tracing::error!(err = err.as_str(), "Health check failed: Probe failed");
        }
        Health::Unreachable(reason) => {
            tracing::error!(%reason, "Health check failed: no connection to the driver");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tonic::Status;

    #[test]
    fn every_health_has_upstreams_answer() {
        let internal = "rpc error: code = Internal desc = x";
        for (row, health, status, body) in [
            ("L-14", Health::Ready, 200, "ok"),
            (
                "L-13",
                Health::NotReady,
                500,
                "driver responded but is not ready",
            ),
            ("L-15", Health::Failed(Status::internal("x")), 500, internal),
            (
                "L-16",
                Health::Unreachable("refused".to_owned()),
                500,
                "context deadline exceeded",
            ),
        ] {
            let reply = reply(&health);
            assert_eq!(
                (reply.status.as_u16(), &*reply.body),
                (status, body),
                "{row}"
            );
            assert_eq!(reply.content_type, "text/plain; charset=utf-8", "{row}");
        }
    }
}
