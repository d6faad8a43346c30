//! One unary response, read to its end.

use bytes::{BufMut, Bytes, BytesMut};
use http::{HeaderMap, Response, StatusCode};
use http_body_util::BodyExt;
use tonic::body::Body;
use tonic::{Code, Status};

use crate::error::Chain;

/// Largest message accepted, as in Go's gRPC.
const LARGEST: usize = 4 << 20;
/// Largest ListVolumes or ListSnapshots response: a driver without pagination returns all its volumes or
/// snapshots, some 200 bytes each, and one without filters does so even when asked about a single one.
pub(super) const LARGEST_LIST: usize = 32 << 20;
/// Length of a gRPC message's prefix: a compression flag and a length.
const PREFIX: usize = 5;

/// A response with status OK.
pub(super) struct Answer {
    head: http::response::Parts,
    /// The message with its prefix.
    pub(super) frame: Bytes,
    trailers: HeaderMap,
}

impl Answer {
    pub(super) fn into_response(self) -> Response<Body> {
        Response::from_parts(self.head, full(self.frame, self.trailers))
    }
}

/// The largest message accepted as response of a method.
pub(super) fn largest(path: &str) -> usize {
    match path {
        "/csi.v1.Controller/ListVolumes"
        | "/csi.v1.Controller/ListSnapshots"
        | "/csi.v1.Controller/ControllerListVolumeHealth" => LARGEST_LIST,
        _ => LARGEST,
    }
}

/// Reads the response, of at most `largest` bytes; `is_lost` reports whether the connection is gone.
pub(super) async fn read(
    response: Response<Body>,
    largest: usize,
    is_lost: impl Fn() -> bool,
) -> Result<Answer, Status> {
    let (head, mut body) = response.into_parts();
    if let Some(status) = Status::from_header_map(&head.headers) {
        return ok(status).map(|()| Answer {
            head,
            frame: Bytes::new(),
            trailers: HeaderMap::new(),
        });
    }
    if head.status != StatusCode::OK {
        return Err(Status::new(
            code_of_http(head.status),
            format!(
                "unexpected HTTP status code received from server: {}",
                head.status
            ),
        ));
    }
    let mut frame = BytesMut::new();
    let mut trailers = HeaderMap::new();
    while let Some(part) = body.frame().await {
        let part = part.map_err(|status| transport_status(status.into(), is_lost()))?;
        match part.into_data() {
            Ok(data) if frame.len() + data.len() > largest + PREFIX => {
                return Err(Status::resource_exhausted(format!(
                    "grpc: received message larger than max ({largest})"
                )));
            }
            Ok(data) => frame.put(data),
            Err(part) => trailers = part.into_trailers().unwrap_or_default(),
        }
    }
    let status = Status::from_header_map(&trailers)
        .unwrap_or_else(|| Status::internal("server closed the stream without sending trailers"));
    ok(status).map(|()| Answer {
        head,
        frame: frame.freeze(),
        trailers,
    })
}

fn ok(status: Status) -> Result<(), Status> {
    if status.code() == Code::Ok {
        Ok(())
    } else {
        Err(status)
    }
}

/// gRPC's table of status codes for HTTP responses that do not come from a gRPC server.
fn code_of_http(status: StatusCode) -> Code {
    match status {
        StatusCode::BAD_REQUEST => Code::Internal,
        StatusCode::UNAUTHORIZED => Code::Unauthenticated,
        StatusCode::FORBIDDEN => Code::PermissionDenied,
        StatusCode::NOT_FOUND => Code::Unimplemented,
        StatusCode::TOO_MANY_REQUESTS
        | StatusCode::BAD_GATEWAY
        | StatusCode::SERVICE_UNAVAILABLE
        | StatusCode::GATEWAY_TIMEOUT => Code::Unavailable,
        _ => Code::Unknown,
    }
}

/// The status of a call that failed below gRPC.
///
/// A lost connection is `Unavailable`, as in Go; tonic would return `Unknown` or `Cancelled`.
pub(super) fn transport_status(
    error: Box<dyn std::error::Error + Send + Sync>,
    is_lost: bool,
) -> Status {
    let text = Chain(&*error).to_string();
    let status = Status::from_error(error);
    if is_lost {
        return Status::unavailable(format!("error reading from server: EOF ({text})"));
    }
    if status.code() == Code::Unknown {
        Status::unavailable(text)
    } else {
        status
    }
}

/// Collects a body that is in memory.
pub(super) async fn collect(body: Body) -> Result<Bytes, Status> {
    Ok(body.collect().await?.to_bytes())
}

/// The message inside a frame.
pub(super) fn message(frame: &Bytes) -> &[u8] {
    frame.get(PREFIX..).unwrap_or_default()
}

/// A body of one message and its trailers.
pub(super) fn full(frame: Bytes, trailers: HeaderMap) -> Body {
    if trailers.is_empty() {
        return Body::new(http_body_util::Full::new(frame));
    }
    let trailers = std::future::ready(Some(Ok(trailers)));
    Body::new(http_body_util::Full::new(frame).with_trailers(trailers))
}
