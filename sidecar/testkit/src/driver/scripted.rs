//! A driver that responds by script, call by call: for tests of the connection itself, over any byte stream.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use http::{HeaderMap, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::UnixListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tonic::body::Body;

/// The driver's response to a call.
#[derive(Clone, Debug)]
pub enum Answer {
    /// Responds with a message.
    Message(Bytes),
    /// Responds with a status and its text.
    Status(tonic::Code, &'static str),
    /// Responds later.
    Late(Duration, Box<Answer>),
    /// Never responds.
    Never,
    /// Responds with an HTTP error without gRPC status.
    Http(u16),
    /// Responds with a message without trailers.
    Truncated(Bytes),
}

/// Responds with this message, encoded.
pub fn message(message: &impl prost::Message) -> Answer {
    Answer::Message(message.encode_to_vec().into())
}

/// A received call.
#[derive(Clone, Debug)]
pub struct Call {
    /// Time of arrival.
    pub at: Instant,
    /// The path of its method.
    pub path: String,
    /// Its headers.
    pub headers: HeaderMap,
    /// Its `:authority`.
    pub authority: String,
}

/// A driver that listens on a socket.
pub struct Listening {
    task: JoinHandle<()>,
    stopping: watch::Sender<bool>,
}

impl Listening {
    /// Stops the driver and its connections.
    pub fn stop(&self) {
        self.task.abort();
    }

    /// Ends connections with a GOAWAY, as Go's `GracefulStop` does.
    pub fn stop_gracefully(&self) {
        self.stopping.send_replace(true);
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.stop();
    }
}

type Script = Arc<dyn Fn(&str, usize) -> Answer + Send + Sync>;

/// The driver.
#[derive(Clone)]
pub struct Driver {
    script: Script,
    calls: Arc<Mutex<Vec<Call>>>,
}

impl Driver {
    /// The script gets the path and the number of earlier calls of it.
    pub fn new(script: impl Fn(&str, usize) -> Answer + Send + Sync + 'static) -> Self {
        Self {
            script: Arc::new(script),
            calls: Arc::default(),
        }
    }

    /// The calls so far.
    pub fn calls(&self) -> Vec<Call> {
        self.calls.lock().expect("nobody panicked").clone()
    }

    /// Serves a socket until stopped or dropped; connections end with it.
    pub fn listen(&self, path: &Path) -> Listening {
        let _ = std::fs::remove_file(path);
        let listener = UnixListener::bind(path).expect("the socket can be made");
        let driver = self.clone();
        let (stopping, stopped) = watch::channel(false);
        let task = tokio::spawn(async move {
            let mut connections = tokio::task::JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await.expect("the socket stays open");
                connections.spawn(driver.clone().converse(stream, stopped.clone()));
            }
        });
        Listening { task, stopping }
    }

    /// Serves one connection until it ends, or ends it with a GOAWAY once `stopped`.
    pub async fn converse(
        self,
        io: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        mut stopped: watch::Receiver<bool>,
    ) {
        let service = service_fn(move |request: Request<Incoming>| {
            let driver = self.clone();
            async move { Ok::<_, Infallible>(driver.reply(request).await) }
        });
        let server = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
        let mut connection = std::pin::pin!(server.serve_connection(TokioIo::new(io), service));
        tokio::select! {
            _ = connection.as_mut() => return,
            _ = stopped.wait_for(|stopped| *stopped) => connection.as_mut().graceful_shutdown(),
        }
        let _ = connection.await;
    }

    async fn reply(&self, request: Request<Incoming>) -> Response<Body> {
        let path = request.uri().path().to_owned();
        let earlier = {
            let mut calls = self.calls.lock().expect("nobody panicked");
            let earlier = calls.iter().filter(|call| call.path == path).count();
            calls.push(Call {
                at: Instant::now(),
                path: path.clone(),
                headers: request.headers().clone(),
                authority: request
                    .uri()
                    .authority()
                    .map(ToString::to_string)
                    .unwrap_or_default(),
            });
            earlier
        };
        let _ = request.into_body().collect().await;
        let mut answer = (self.script)(&path, earlier);
        while let Answer::Late(delay, later) = answer {
            tokio::time::sleep(delay).await;
            answer = *later;
        }
        match answer {
            Answer::Message(bytes) => {
                let trailers = BTreeMap::from([("grpc-status", "0".to_owned())]);
                respond(&bytes, &trailers)
            }
            Answer::Status(code, text) => {
                let code = (code as i32).to_string();
                let trailers = [("grpc-status", code), ("grpc-message", text.to_owned())];
                respond(&[], &BTreeMap::from(trailers))
            }
            Answer::Truncated(bytes) => respond(&bytes, &BTreeMap::new()),
            Answer::Http(status) => Response::builder()
                .status(status)
                .body(Body::empty())
                .expect("a status"),
            Answer::Never | Answer::Late(..) => std::future::pending().await,
        }
    }
}

fn respond(bytes: &[u8], trailers: &BTreeMap<&'static str, String>) -> Response<Body> {
    let mut frame = BytesMut::new();
    frame.put_u8(0);
    frame.put_u32(u32::try_from(bytes.len()).expect("a short message"));
    frame.put_slice(bytes);
    let mut map = HeaderMap::new();
    for (name, value) in trailers {
        map.insert(*name, value.parse().expect("a header"));
    }
    let trailers = std::future::ready((!map.is_empty()).then_some(Ok(map)));
    let body = Full::new(frame.freeze()).with_trailers(trailers);
    let response = Response::builder().header("content-type", "application/grpc");
    response.body(Body::new(body)).expect("a header")
}
