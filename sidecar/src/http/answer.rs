//! Renders the response of a path, and bounds the memory of unread responses.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, HOST, HeaderName, HeaderValue, WWW_AUTHENTICATE};
use http::request::Parts;
use http::{Response, StatusCode};
use http_body_util::Full;
use tokio::sync::{Mutex, OwnedSemaphorePermit, Semaphore, TryAcquireError};
use tokio::time::sleep;

use super::accept::takes_text;
use super::admission::Phase;
use super::open::{Member, OpenConnections};
use super::{Handler, PathRequest, Reply, Route, Routes};

const PROCESS_START: HeaderName = HeaderName::from_static("process-start-time-unix");
/// Maximum bytes of large responses held for clients at the same time; a larger response may be
/// held alone.
const UNREAD: usize = 2 << 20;
/// A client that has not read a large response for this long loses it once another client wants
/// one.
const SLOW: Duration = Duration::from_secs(1);
/// Pause between two attempts to get room.
const LOOK: Duration = Duration::from_millis(50);

/// Renders the responses of all connections.
#[derive(Debug)]
pub(super) struct Answers {
    routes: Routes,
    /// Large responses are rendered one after the other, so that health checks come between them.
    turn: Mutex<()>,
    unread: Arc<Semaphore>,
}

/// A large response's text; its room is free again when its last byte has been sent.
struct Held {
    text: String,
    _room: Option<OwnedSemaphorePermit>,
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        self.text.as_bytes()
    }
}

impl Answers {
    pub(super) fn new(routes: Routes) -> Self {
        Self {
            routes,
            turn: Mutex::new(()),
            unread: Arc::new(Semaphore::new(UNREAD)),
        }
    }

    /// Renders the response of `path` for a connection; other connections may be closed to make
    /// room.
    pub(super) async fn answer(&self, head: &Parts, member: &Member) -> Response<Full<Bytes>> {
        let Some((route, rest)) = self.routes.find(head.uri.path()) else {
            return small(Reply::not_found());
        };
        if !route.is_large {
            member.enter(Phase::Answering);
            return small(handled(route, head, rest).await);
        }
        member.enter(Phase::Queued);
        let _turn = self.turn.lock().await;
        let mut reply = handled(route, head, rest).await;
        let text = std::mem::take(&mut reply.body);
        let room = self.room(text.len(), &member.open).await;
        let body = Bytes::from_owner(Held { text, _room: room });
        response(&reply, body)
    }

    async fn room(&self, bytes: usize, open: &OpenConnections) -> Option<OwnedSemaphorePermit> {
        let bytes = u32::try_from(bytes.min(UNREAD)).unwrap_or(u32::MAX);
        loop {
            match Arc::clone(&self.unread).try_acquire_many_owned(bytes) {
                Ok(room) => return Some(room),
                Err(TryAcquireError::Closed) => return None,
                Err(TryAcquireError::NoPermits) => {}
            }
            open.close_those_not_reading(SLOW);
            sleep(LOOK).await;
        }
    }
}

async fn handled(route: &Route, head: &Parts, rest: &str) -> Reply {
    match &route.handler {
        Handler::Fixed(handler) => handler().await,
        Handler::Below(handler) => {
            let host = head.headers.get(HOST);
            let request = PathRequest {
                method: head.method.clone(),
                host: host.map(|host| String::from_utf8_lossy(host.as_bytes()).into_owned()),
                rest: rest.to_owned(),
            };
            handler(request).await
        }
        Handler::Text(text) if takes_text(head.headers.get(ACCEPT)) => {
            Reply::text(StatusCode::OK, text())
        }
        Handler::Text(_) => {
            let text = "only text/plain is served here\n";
            Reply::text(StatusCode::NOT_ACCEPTABLE, text)
        }
    }
}

pub(super) fn small(mut reply: Reply) -> Response<Full<Bytes>> {
    let body = Bytes::from(std::mem::take(&mut reply.body));
    response(&reply, body)
}

fn response(reply: &Reply, body: Bytes) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body));
    *response.status_mut() = reply.status;
    let content_type = HeaderValue::from_static(reply.content_type);
    response.headers_mut().insert(CONTENT_TYPE, content_type);
    if reply.status == StatusCode::UNAUTHORIZED {
        let bearer = HeaderValue::from_static("Bearer");
        response.headers_mut().insert(WWW_AUTHENTICATE, bearer);
    }
    if let Some(seconds) = reply.process_start {
        response
            .headers_mut()
            .insert(PROCESS_START, HeaderValue::from(seconds));
    }
    response
}
