//! Requests to the API server: only reads, each one once.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream;
use http::{Request, StatusCode, header};
use http_body_util::{BodyExt as _, Limited};
use jiff::Timestamp;
use kube::Client;
use kube::client::Body;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;
use sidecar::error::Chain;

use crate::model::Kind;
use crate::plan::{Answer, Read, Seen, Want};

/// Objects per page.
const PAGE: usize = 500;
/// Concurrent requests.
const AT_ONCE: usize = 8;
/// Bytes that no page of `PAGE` objects exceeds.
const LARGEST: usize = 256 << 20;
/// Attempts at a request while the server is too busy.
const TRIES: u32 = 3;
/// Accept header that requests only the metadata of an object.
const METADATA: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";

/// Characters to escape in a URL: object names have none of them, continue tokens may.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_');

/// Failures that make an answer impossible.
#[derive(Debug, thiserror::Error)]
pub enum LookError {
    /// The API server did not respond.
    #[error("the API server does not answer: {0}")]
    Silent(String),
    /// The decision does not end: a bug of this program.
    #[error("{0} leads from object to object without an end; please report it with the objects")]
    Endless(String),
    /// The API server rejects the credentials.
    #[error(
        "the API server does not accept the credentials (401); see the user of the kubeconfig's context"
    )]
    Unknown,
}

/// An API server.
pub struct Cluster {
    client: Client,
    /// The API server's clock at its last response: timestamps in objects come from servers, and the
    /// local clock may be wrong.
    now: Cell<Option<Timestamp>>,
}

impl std::fmt::Debug for Cluster {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cluster").finish_non_exhaustive()
    }
}

/// The body of a response.
struct Bytes<'a>(&'a [u8]);

impl Read for Bytes<'_> {
    type Error = serde_json::Error;

    fn read<T: serde::de::DeserializeOwned>(self) -> Result<T, Self::Error> {
        serde_json::from_slice(self.0)
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Status {
    message: String,
    details: Option<Details>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Details {
    name: String,
}

/// The result of one request.
enum Reply {
    Bytes(Vec<u8>),
    /// The object does not exist.
    Absent,
    /// The API server does not serve the kind in this version.
    NotServed,
    /// The continue token has expired.
    Expired,
    Refused(String),
}

impl Cluster {
    /// Sends requests through `client`.
    pub fn new(client: Client) -> Self {
        Self {
            client,
            now: Cell::new(None),
        }
    }

    /// The namespace of the context.
    pub fn namespace(&self) -> &str {
        self.client.default_namespace()
    }

    /// The API server's time.
    pub fn now(&self) -> Timestamp {
        self.now.get().unwrap_or_else(Timestamp::now)
    }

    /// Carries out all of these requests.
    ///
    /// # Errors
    /// The cluster cannot be read.
    pub async fn look(&self, seen: &mut Seen, wants: Vec<Want>) -> Result<(), LookError> {
        let seen = RefCell::new(seen);
        let looks = wants.into_iter().map(|want| self.one(&seen, want));
        let mut looks = stream::iter(looks).buffer_unordered(AT_ONCE);
        while let Some(look) = looks.next().await {
            look?;
        }
        Ok(())
    }

    async fn one(&self, seen: &RefCell<&mut Seen>, want: Want) -> Result<(), LookError> {
        let mut answer = Answer::NotServed;
        for version in want.kind.versions() {
            answer = self.version(seen, &want, version).await?;
            if answer != Answer::NotServed {
                break;
            }
        }
        seen.borrow_mut().answer(want, answer);
        Ok(())
    }

    async fn version(
        &self,
        seen: &RefCell<&mut Seen>,
        want: &Want,
        version: &str,
    ) -> Result<Answer, LookError> {
        let (mut next, mut begun) = (String::new(), 0);
        loop {
            let bytes = match self.ask(want, version, &next).await? {
                Reply::Bytes(bytes) => bytes,
                Reply::Absent => return Ok(Answer::Whole),
                Reply::NotServed => return Ok(Answer::NotServed),
                Reply::Refused(why) => return Ok(Answer::Refused(why)),
                Reply::Expired if begun < TRIES => {
                    begun += 1;
                    next.clear();
                    continue;
                }
                Reply::Expired => {
                    return Ok(Answer::Refused(
                        "the list changes faster than it can be read".to_owned(),
                    ));
                }
            };
            let mut seen = seen.borrow_mut();
            let read = match want.name {
                Some(_) => seen.put(want.kind, Bytes(&bytes)).map(|()| String::new()),
                None => seen.put_page(want.kind, Bytes(&bytes)),
            };
            match read {
                Ok(more) => next = more,
                Err(error) => {
                    return Ok(Answer::Refused(format!(
                        "the answer cannot be read: {error}"
                    )));
                }
            }
            if next.is_empty() {
                return Ok(Answer::Whole);
            }
        }
    }

    /// Sends one request, and repeats it while the server is too busy.
    async fn ask(&self, want: &Want, version: &str, next: &str) -> Result<Reply, LookError> {
        let mut tried = 1;
        loop {
            let request = Request::get(path(want, version, next));
            let request = if matches!(want.kind, Kind::Secret | Kind::ConfigMap) {
                request.header(header::ACCEPT, METADATA)
            } else {
                request
            };
            let silent = |error: &dyn std::fmt::Display| LookError::Silent(error.to_string());
            let request = request
                .body(Body::empty())
                .map_err(|error| silent(&error))?;
            let response = self
                .client
                .send(request)
                .await
                .map_err(|error| silent(&Chain(&error)))?;
            let (head, body) = response.into_parts();
            let date = head
                .headers
                .get(header::DATE)
                .and_then(|date| date.to_str().ok());
            let date = date.and_then(|date| jiff::fmt::rfc2822::parse(date).ok());
            self.now
                .set(date.map(|date| date.timestamp()).or(self.now.get()));
            let wait = head.headers.get(header::RETRY_AFTER);
            let wait = wait
                .and_then(|wait| wait.to_str().ok()?.parse().ok())
                .unwrap_or(1)
                .min(5);
            let body = Limited::new(body, LARGEST).collect().await;
            let bytes = match body {
                Ok(body) => body.to_bytes().to_vec(),
                Err(error) => return Ok(Reply::Refused(format!("the answer broke off: {error}"))),
            };
            let busy =
                head.status == StatusCode::TOO_MANY_REQUESTS || head.status.is_server_error();
            if busy && tried < TRIES {
                tried += 1;
                tokio::time::sleep(Duration::from_secs(wait)).await;
                continue;
            }
            return reply(head.status, want, bytes);
        }
    }
}

fn reply(status: StatusCode, want: &Want, bytes: Vec<u8>) -> Result<Reply, LookError> {
    if status.is_success() {
        return Ok(Reply::Bytes(bytes));
    }
    let said: Status = serde_json::from_slice(&bytes).unwrap_or_default();
    Ok(match status {
        StatusCode::UNAUTHORIZED => return Err(LookError::Unknown),
        StatusCode::FORBIDDEN => Reply::Refused("no permission".to_owned()),
        StatusCode::GONE => Reply::Expired,
        StatusCode::NOT_FOUND => {
            let named = said.details.is_some_and(|details| !details.name.is_empty());
            if want.name.is_some() && named {
                Reply::Absent
            } else {
                Reply::NotServed
            }
        }
        _ if said.message.is_empty() => Reply::Refused(format!("the API server answers {status}")),
        _ => Reply::Refused(format!("the API server answers {status}: {}", said.message)),
    })
}

fn path(want: &Want, version: &str, next: &str) -> String {
    let escaped = |text: &str| utf8_percent_encode(text, ESCAPED).to_string();
    let mut path = match want.kind.group() {
        "" => format!("/api/{version}"),
        group => format!("/apis/{group}/{version}"),
    };
    if let Some(namespace) = &want.namespace {
        path.push_str(&format!("/namespaces/{}", escaped(namespace)));
    }
    path.push_str(&format!("/{}", want.kind.plural()));
    let Some(name) = &want.name else {
        path.push_str(&format!("?limit={PAGE}"));
        if !want.fields.is_empty() {
            let fields: Vec<_> = want
                .fields
                .iter()
                .map(|(name, value)| format!("{name}={value}"))
                .collect();
            path.push_str(&format!("&fieldSelector={}", escaped(&fields.join(","))));
        }
        if !next.is_empty() {
            path.push_str(&format!("&continue={}", escaped(next)));
        }
        return path;
    };
    path.push_str(&format!("/{}", escaped(name)));
    path
}
