//! The HTTP server for health and metrics.
//!
//! Four fixed routes need no framework. Listener and route errors are values: the program decides
//! how to exit.
//!
//! Every pod of the cluster can reach the ports, and whoever keeps a health probe from being
//! answered gets the driver or the leader killed. Therefore no connection is refused: a connection
//! above the limit closes another one (`admission`, `open`), each has its time limits (`connection`), and
//! the memory for rendered but unread responses is bounded (`answer`).

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use http::{Method, StatusCode};

mod accept;
mod admission;
mod answer;
mod bounded;
mod connection;
mod guard;
mod open;
mod server;

pub use admission::{Limits, Phase};
pub use bounded::Bounded;
pub use connection::Socket;
pub use guard::Guard;
pub use open::{Admitted, Member, OpenConnections};
pub use server::{ListenError, Server, everywhere as listen};

/// Content type of every response but metrics.
pub const TEXT: &str = "text/plain; charset=utf-8";

/// A response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// Status code.
    pub status: StatusCode,
    /// `Content-Type`.
    pub content_type: &'static str,
    /// Body; a HEAD request gets its length only.
    pub body: String,
    /// `Process-Start-Time-Unix`, in seconds.
    pub process_start: Option<u64>,
}

impl Reply {
    /// A plain text response.
    pub fn text(status: StatusCode, body: impl Into<String>) -> Self {
        Self {
            status,
            content_type: TEXT,
            body: body.into(),
            process_start: None,
        }
    }

    /// 200 `ok`.
    pub fn ok() -> Self {
        Self::text(StatusCode::OK, "ok")
    }

    /// Go's response for a path without handler.
    pub fn not_found() -> Self {
        Self::text(StatusCode::NOT_FOUND, "404 page not found\n")
    }

    /// Health of a process that takes part in leader election: 200, or the problem in `unhealthy`.
    pub fn leader_health(unhealthy: Option<String>) -> Self {
        match unhealthy {
            None => Self::ok(),
            Some(why) => Self::text(
                StatusCode::INTERNAL_SERVER_ERROR,
                format!("internal server error: {why}"),
            ),
        }
    }

    /// Readiness: 200 `ok`, or 503 with one line for each reason.
    pub fn ready<T: fmt::Display>(reasons: impl IntoIterator<Item = T>) -> Self {
        let lines = reasons.into_iter().map(|reason| format!("{reason}\n"));
        let text: String = lines.collect();
        if text.is_empty() {
            return Self::ok();
        }
        Self::text(StatusCode::SERVICE_UNAVAILABLE, text)
    }

    /// A scrape; the header with the start time of the process distinguishes a restart from a
    /// reset.
    pub fn metrics(text: String) -> Self {
        Self {
            status: StatusCode::OK,
            content_type: crate::metrics::CONTENT_TYPE,
            body: text,
            process_start: crate::metrics::process_start(),
        }
    }
}

type Replying = Pin<Box<dyn Future<Output = Reply> + Send>>;

/// A request to a path below that of its handler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathRequest {
    /// The method.
    pub method: Method,
    /// The header `Host`.
    pub host: Option<String>,
    /// The path behind that of the handler, without the query.
    pub rest: String,
}

#[derive(Clone)]
enum Handler {
    /// Answers alike whatever the request is.
    Fixed(Arc<dyn Fn() -> Replying + Send + Sync>),
    /// Looks at the request.
    Below(Arc<dyn Fn(PathRequest) -> Replying + Send + Sync>),
    /// Renders text, for clients that accept it.
    Text(Arc<dyn Fn() -> String + Send + Sync>),
}

/// The handler of a path.
#[derive(Clone)]
struct Route {
    handler: Handler,
    /// Its responses are large and slow to render.
    is_large: bool,
}

/// The handlers of all paths, for every method.
#[derive(Clone, Default)]
pub struct Routes {
    routes: BTreeMap<String, Route>,
}

impl fmt::Debug for Routes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.routes.keys()).finish()
    }
}

/// A path cannot be served.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RouteError {
    /// Not a path.
    #[error("HTTP path {0:?} must begin with a slash and have no space in it")]
    Malformed(String),
    /// Two handlers for one path.
    #[error("HTTP path {0:?} is served already")]
    Taken(String),
}

impl Routes {
    /// Routes without any path.
    pub fn new() -> Self {
        Self::default()
    }

    /// Serves `path`; a path that ends in a slash serves everything below it.
    ///
    /// # Errors
    /// The path is malformed or taken.
    pub fn add<F, Fut>(&mut self, path: &str, handler: F) -> Result<(), RouteError>
    where
        F: Fn() -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Reply> + Send + 'static,
    {
        self.insert(path, false, handler)
    }

    /// Serves everything below `path`, which ends in a slash, with large responses that depend on the request.
    ///
    /// # Errors
    /// The path is malformed or taken.
    pub fn add_below<F, Fut>(&mut self, path: &str, handler: F) -> Result<(), RouteError>
    where
        F: Fn(PathRequest) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Reply> + Send + 'static,
    {
        let handler = Handler::Below(Arc::new(move |asked| Box::pin(handler(asked))));
        self.put(path, true, handler)
    }

    /// Serves text at `path` to clients that accept `text/plain`, and 406 to others.
    ///
    /// # Errors
    /// The path is malformed or taken.
    pub fn add_text(
        &mut self,
        path: &str,
        text: impl Fn() -> String + Send + Sync + 'static,
    ) -> Result<(), RouteError> {
        self.put(path, true, Handler::Text(Arc::new(text)))
    }

    /// The served paths, in alphabetical order.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        self.routes.keys().map(String::as_str)
    }

    fn insert<F, Fut>(&mut self, path: &str, is_large: bool, handler: F) -> Result<(), RouteError>
    where
        F: Fn() -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Reply> + Send + 'static,
    {
        let handler = Handler::Fixed(Arc::new(move || Box::pin(handler())));
        self.put(path, is_large, handler)
    }

    fn put(&mut self, path: &str, is_large: bool, handler: Handler) -> Result<(), RouteError> {
        if !path.starts_with('/') || path.contains(char::is_whitespace) {
            return Err(RouteError::Malformed(path.to_owned()));
        }
        if self.routes.contains_key(path) {
            return Err(RouteError::Taken(path.to_owned()));
        }
        self.routes
            .insert(path.to_owned(), Route { handler, is_large });
        Ok(())
    }

    /// Serves the metrics of `registry`.
    ///
    /// # Errors
    /// The path is malformed or taken.
    pub fn add_metrics(
        &mut self,
        path: &str,
        registry: &crate::metrics::Registry,
    ) -> Result<(), RouteError> {
        let registry = registry.clone();
        self.insert(path, true, move || {
            std::future::ready(Reply::metrics(registry.render()))
        })
    }

    /// The route of a path, and what the path has behind that of the route.
    fn find<'a>(&self, path: &'a str) -> Option<(&Route, &'a str)> {
        let prefix = || {
            let below = |(pattern, route): (&String, _)| {
                let rest = path.strip_prefix(&**pattern)?;
                pattern.ends_with('/').then_some((route, rest))
            };
            // The shortest rest is that of the longest path.
            let matching = self.routes.iter().filter_map(below);
            matching.min_by_key(|(_, rest)| rest.len())
        };
        let exact = self.routes.get(path).map(|route| (route, ""));
        exact.or_else(prefix)
    }
}

#[cfg(test)]
mod tests;
