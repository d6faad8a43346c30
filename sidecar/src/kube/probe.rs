//! Notices that the API server answers again, by asking it while it does not.
//!
//! Otherwise whoever waits out a back-off would ask first, after half a minute or five.

use std::convert::Infallible;
use std::time::Duration;

use ::kube::Client;
use ::kube::client::Body;
use http::Request;
use tokio::time::{sleep, timeout};

use crate::outage::Outage;
use crate::rt::unit_random;

/// Between two requests, on average. A server that is not there is not hurt by them, and one that
/// comes back is asked by each sidecar at a time of its own.
const PAUSE: Duration = Duration::from_secs(1);

/// For an answer; one that takes longer is none, and the next request goes over a new connection.
const PATIENCE: Duration = Duration::from_secs(5);

/// Asks while `server`, which `client` reports to, does not answer.
///
/// `/readyz`, which everybody may read, is served only once the server has loaded who may do what.
pub async fn probe(client: Client, server: Outage) -> Infallible {
    loop {
        server.begins().await;
        sleep(PAUSE.mul_f64(0.5 + unit_random())).await;
        if !server.is_on() {
            continue;
        }
        if let Ok(request) = Request::get("/readyz").body(Body::empty()) {
            // The client tells what became of it.
            let _answer = timeout(PATIENCE, client.send(request)).await;
        }
    }
}
