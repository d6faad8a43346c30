//! Notices that the API server answers again, by probing it while it does not.
//!
//! Otherwise the first request would come from a controller at the end of its back-off, after half
//! a minute or five.

use std::convert::Infallible;
use std::time::Duration;

use ::kube::Client;
use ::kube::client::Body;
use http::Request;
use tokio::time::{sleep, timeout};

use crate::outage::Outage;
use crate::rt::unit_random;

/// Average pause between two requests. They do no harm to a server that is away, and the sidecars
/// probe a returning server at different times.
const PAUSE: Duration = Duration::from_secs(1);

/// Time limit of a response; a slower one does not count, and the next request uses a new
/// connection.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(5);

/// Probes while `server`, which `client` reports to, does not answer.
///
/// `/readyz`, which everybody may read, is served only once the server has loaded its authorization
/// rules.
pub async fn probe(client: Client, server: Outage) -> Infallible {
    loop {
        server.begins().await;
        sleep(PAUSE.mul_f64(0.5 + unit_random())).await;
        if !server.is_on() {
            continue;
        }
        if let Ok(request) = Request::get("/readyz").body(Body::empty()) {
            // The client reports the result.
            let _answer = timeout(RESPONSE_TIMEOUT, client.send(request)).await;
        }
    }
}
