//! The recorded requests in order, with all that tests may assert.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::Value;
use tokio::time::Instant;

use super::FakeApi;
use super::route::parameters;

/// The client of a connection: its certificate and protocol.
#[derive(Clone, Debug, Default)]
pub(super) struct Peer {
    pub(super) certificate: Option<Vec<u8>>,
    pub(super) http2: bool,
}

/// One request as it arrived.
#[derive(Clone, Debug)]
pub struct Request {
    /// Position in the order of arrival, from 0, never reused.
    pub number: usize,
    /// Time of arrival.
    pub at: Instant,
    /// HTTP method.
    pub method: String,
    /// Path without the query.
    pub path: String,
    /// Query parameters, decoded.
    pub query: BTreeMap<String, String>,
    /// `Content-Type`, empty when absent.
    pub content_type: String,
    /// `Accept`, empty when absent.
    pub accept: String,
    /// `User-Agent`, empty when absent.
    pub user_agent: String,
    /// `Authorization`, empty when absent.
    pub authorization: String,
    /// The caller's span (`traceparent`); empty when absent.
    pub traceparent: String,
    /// The client's certificate in DER, if it presented one.
    pub certificate: Option<Vec<u8>>,
    /// Whether it came over HTTP/2.
    pub http2: bool,
    /// The body as JSON; `Null` when there is none or it is not JSON.
    pub body: Value,
    /// HTTP status of the response; `None` while there is none, and for ever if the connection
    /// broke.
    pub status: Option<u16>,
}

impl Request {
    pub(super) fn new(
        number: usize,
        parts: &http::request::Parts,
        peer: &Peer,
        body: &[u8],
    ) -> Self {
        let header = |name: http::header::HeaderName| {
            let value = parts.headers.get(name).map(|value| value.to_str());
            value.and_then(Result::ok).unwrap_or_default().to_owned()
        };
        Self {
            number,
            at: Instant::now(),
            method: parts.method.to_string(),
            path: parts.uri.path().to_owned(),
            query: parameters(parts.uri.query().unwrap_or_default()),
            content_type: header(http::header::CONTENT_TYPE),
            accept: header(http::header::ACCEPT),
            user_agent: header(http::header::USER_AGENT),
            authorization: header(http::header::AUTHORIZATION),
            traceparent: header(http::header::HeaderName::from_static("traceparent")),
            certificate: peer.certificate.clone(),
            http2: peer.http2,
            body: serde_json::from_slice(body).unwrap_or_default(),
            status: None,
        }
    }

    /// Whether the request opens a watch.
    #[must_use]
    pub fn is_watch(&self) -> bool {
        matches!(
            self.query.get("watch").map(String::as_str),
            Some("true" | "1")
        )
    }

    /// Whether the request changes anything; access reviews do not.
    #[must_use]
    pub fn is_write(&self) -> bool {
        let is_review = self.fits("*", "/apis/auth*.k8s.io/*");
        self.method != "GET" && !is_review
    }

    /// Whether method and path match; `*` in either matches any text.
    #[must_use]
    pub fn fits(&self, method: &str, path: &str) -> bool {
        glob(method, &self.method) && glob(path, &self.path)
    }
}

/// What was requested of the server.
impl FakeApi {
    /// All requests since the start or the last [`FakeApi::clear_requests`].
    #[must_use]
    pub fn requests(&self) -> Vec<Request> {
        self.lock().requests.clone()
    }

    /// The requests that change objects, in order.
    #[must_use]
    pub fn writes(&self) -> Vec<Request> {
        self.requests_that(Request::is_write)
    }

    /// The requests with this method and path; `*` in either matches any text.
    #[must_use]
    pub fn requests_to(&self, method: &str, path: &str) -> Vec<Request> {
        self.requests_that(|request| request.fits(method, path))
    }

    fn requests_that(&self, fit: impl Fn(&Request) -> bool) -> Vec<Request> {
        let inner = self.lock();
        let fitting = inner.requests.iter().filter(|request| fit(request));
        fitting.cloned().collect()
    }

    /// Number of the requests with this method and path that have a response.
    #[must_use]
    pub fn answered(&self, method: &str, path: &str) -> usize {
        let inner = self.lock();
        let answered = inner.requests.iter().filter(|it| it.status.is_some());
        answered.filter(|it| it.fits(method, path)).count()
    }

    /// Clears the recorded requests.
    pub fn clear_requests(&self) {
        let inner = &mut *self.lock();
        inner.forgotten += inner.requests.len();
        inner.requests.clear();
    }
}

/// `PATCH /api/v1/persistentvolumes/pv1 {"metadata":{}}`: method, path and body.
impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.method, self.path)?;
        if self.body.is_null() {
            return Ok(());
        }
        write!(f, " {}", self.body)
    }
}

/// Whether `text` matches `pattern`, in which `*` matches any text including slashes.
pub(crate) fn glob(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else {
        return false;
    };
    let parts: Vec<&str> = parts.collect();
    let Some((last, middle)) = parts.split_last() else {
        return rest.is_empty();
    };
    for part in middle {
        match rest.split_once(part) {
            Some((_, after)) => rest = after,
            None => return false,
        }
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::glob;

    #[test]
    fn a_star_stands_for_any_text() {
        for (pattern, text, fits) in [
            ("*", "/a/b", true),
            ("/a", "/a", true),
            ("/a", "/a/b", false),
            ("*/status", "/a/b/status", true),
            ("*/status", "/a/status/b", false),
            ("*/va/*/status", "/x/va/1/status", true),
            ("*/va/*/status", "/x/va/status", false),
            ("/a*", "/a/b", true),
            ("*b*c", "abbc", true),
            ("*ab", "a", false),
        ] {
            assert_eq!(glob(pattern, text), fits, "{pattern} {text}");
        }
    }
}
