//! Serves the control socket.

use std::convert::Infallible;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;

use super::routes::{Control, Reply};
use crate::server::listener::{Error, bind};

/// Serves until the process ends.
pub fn start(path: &Path, control: Arc<Control>) -> Result<(), Error> {
    let listener = bind(path)?;
    tokio::spawn(async move {
        loop {
            match listener.accept().await {
                Ok((stream, _)) => drop(tokio::spawn(serve(stream, Arc::clone(&control)))),
                Err(error) => {
                    tracing::error!("control socket: cannot accept: {error}");
                    tokio::time::sleep(std::time::Duration::from_millis(50)).await;
                }
            }
        }
    });
    Ok(())
}

async fn serve(stream: UnixStream, control: Arc<Control>) {
    let service = service_fn(|request| {
        let control = Arc::clone(&control);
        async move { Ok::<_, Infallible>(answer(&control, request).await) }
    });
    let served =
        hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service);
    if let Err(error) = served.await {
        tracing::debug!("control socket: {error}");
    }
}

async fn answer(
    control: &Control,
    request: http::Request<Incoming>,
) -> http::Response<Full<Bytes>> {
    let (head, body) = request.into_parts();
    let reply = match body.collect().await {
        Ok(body) => control.route(&head.method, head.uri.path(), &body.to_bytes()),
        Err(error) => Reply::bad_request(format!("broken request: {error}")),
    };
    let mut text = serde_json::to_vec_pretty(&reply.body).unwrap_or_default();
    text.push(b'\n');
    let mut response = http::Response::new(Full::new(Bytes::from(text)));
    *response.status_mut() = reply.status;
    let json = http::HeaderValue::from_static("application/json");
    response
        .headers_mut()
        .insert(http::header::CONTENT_TYPE, json);
    response
}
