//! gRPC's health check. It knows the server as a whole, no single services.

use csi_proto::health::health_check_response::ServingStatus;
use csi_proto::health::{HealthCheckRequest, HealthCheckResponse};
use h2::RecvStream;
use prost::Message as _;
use tokio::sync::watch;
use tokio::time::timeout;
use tonic::Status;

use super::grpc::{self, Answer};

/// Answers `Check`.
pub async fn check(mut body: RecvStream, mut answer: Answer, ready: &watch::Receiver<bool>) {
    let asked = asked(&mut body).await;
    let now = encoded(*ready.borrow());
    let status = match asked {
        Ok(()) => match timeout(grpc::CLIENT_TIMEOUT, answer.send(&now, &[])).await {
            Ok(Ok(())) => Status::new(tonic::Code::Ok, ""),
            Ok(Err(_)) | Err(_) => return,
        },
        Err(status) => status,
    };
    answer.end(&status);
}

/// Answers `Watch`: now and at each change.
pub async fn watch(mut body: RecvStream, mut answer: Answer, mut ready: watch::Receiver<bool>) {
    if let Err(status) = asked(&mut body).await {
        return answer.end(&status);
    }
    loop {
        let now = *ready.borrow_and_update();
        if answer.send(&encoded(now), &[]).await.is_err() {
            return;
        }
        match answer.unless_gone(ready.changed()).await {
            Ok(Ok(())) => {}
            Ok(Err(_)) => return answer.end(&Status::unavailable("shutting down")),
            Err(_gone) => return,
        }
    }
}

async fn asked(body: &mut RecvStream) -> Result<(), Status> {
    let request: HealthCheckRequest = grpc::request(body).await?;
    if request.service.is_empty() {
        return Ok(());
    }
    Err(Status::not_found("unknown service"))
}

fn encoded(is_ready: bool) -> Vec<u8> {
    let status = if is_ready {
        ServingStatus::Serving
    } else {
        ServingStatus::NotServing
    };
    HealthCheckResponse {
        status: status.into(),
    }
    .encode_to_vec()
}
