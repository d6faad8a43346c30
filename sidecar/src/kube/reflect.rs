//! Lists and watches one kind of objects and keeps its caches in step with the API server.
//!
//! Not `kube::runtime::watcher`, which decodes whole pages of typed objects, fails a page because of one
//! unreadable object, cannot fall back from a refused streaming list, and needs a full `ObjectMeta` of every
//! object. `progress` decides on the next request, `wire` has the wire format; this file sends, waits and
//! logs.

mod progress;
mod wire;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use ::kube::Client;
use ::kube::client::Body;
use http::{Request, Response, header};
use http_body_util::{BodyExt, Limited};
use tokio::time::{Instant, sleep, timeout};

use super::cache::RawObject;
use super::feed::Members;
use crate::error::Chain;
use crate::flags::parse_bool;
use crate::in_cluster::retry_after;
use crate::rt::unit_random;

use progress::{Ask, End, Progress, Refusal};
use wire::{Line, Lines, Page};

pub use wire::{Resource, Scope};

/// Time limit of a refusal's body. The client limits other responses, since it knows when a request was sent:
/// one that waits for its turn has not been sent.
const STATUS: Duration = Duration::from_secs(60);

/// API servers send a bookmark about every minute; a watch that is silent longer than two of them counts as
/// dead and is resumed.
const SILENCE: Duration = Duration::from_secs(150);

/// While the existing objects are streamed, nothing justifies a pause as long as this.
const STREAM_SILENCE: Duration = Duration::from_secs(30);

/// Maximum size of an error's body.
const STATUS_BYTES: usize = 64 << 10;

/// A watch that the server closed gracefully and that is open again within this time has missed no more than
/// a watch's usual delay.
const BRIEF: Duration = Duration::from_secs(1);

/// The watch after a list first brings the changes since that list, and at once.
const BACKLOG: Duration = Duration::from_millis(250);

/// Where missed changes matter, the objects are listed even after a graceful end of the watch, but not more
/// often than this. Watches that we end ourselves last longer.
const LISTED_LATELY: Duration = Duration::from_secs(300);

/// Parses `KUBE_FEATURE_WatchListClient`; invalid values are ignored, as in client-go.
fn wants_streams(variable: Option<&str>) -> bool {
    variable.and_then(parse_bool).unwrap_or(true)
}

/// Keeps the caches of a [feed](super::feed) in step with the API server, for ever.
///
/// Failures of the server are logged and retried; an object that a cache cannot read is logged once and
/// skipped. `client` limits the time of requests ([`Limiter`](super::rate::Limiter)); the reflector limits
/// only the silence of watches.
///
/// Lists are not streamed where `KUBE_FEATURE_WatchListClient` is `false`, as in client-go.
pub(super) struct Reflector {
    client: Client,
    scope: Scope,
    members: Arc<Members>,
    progress: Progress,
    /// When the watch ended that will be resumed, and whether it was closed gracefully.
    ended: Option<(Instant, bool)>,
    /// Time of the last complete list.
    listed: Option<Instant>,
    /// When the open watch began to report changes.
    told_since: Instant,
}

/// How a request ended, and how long its watch had reported changes.
struct Ended {
    end: End,
    lasted: Duration,
    cause: String,
}

impl Ended {
    fn at_once(end: End, cause: impl Into<String>) -> Self {
        Self {
            end,
            lasted: Duration::ZERO,
            cause: cause.into(),
        }
    }

    fn broken(cause: impl Into<String>) -> Self {
        Self::at_once(End::Broken, cause)
    }

    fn refused(refusal: Refusal) -> Self {
        let Refusal {
            code,
            reason,
            message,
            ..
        } = &refusal;
        let cause = format!("the API server answered {code} {reason}: {message}");
        Self::at_once(End::Refused(refusal), cause)
    }
}

impl Reflector {
    pub(super) fn new(client: Client, scope: Scope, members: Arc<Members>) -> Self {
        let streaming = std::env::var("KUBE_FEATURE_WatchListClient");
        Self {
            client,
            scope,
            members,
            progress: Progress::new(wants_streams(streaming.ok().as_deref())),
            ended: None,
            listed: None,
            told_since: Instant::now(),
        }
    }

    pub(super) async fn run(mut self) -> Infallible {
        self.members.gathered().await;
        loop {
            let ask = self.progress.next();
            if matches!(ask, Ask::Stream | Ask::Page(None)) {
                self.members.begin_list();
            }
            let ended = match ask {
                Ask::Page(_) => self.page(&ask).await,
                Ask::Stream | Ask::Watch(_) => self.watch(&ask).await,
            };
            if let Err(Ended { end, lasted, cause }) = ended {
                self.members.set_current(false);
                let in_order = end == End::Closed;
                self.ended.get_or_insert((Instant::now(), in_order)).1 &= in_order;
                let pause = self.progress.end(&end, lasted, unit_random());
                self.say(&ask, &end, &cause, pause);
                if matches!(&end, End::Refused(refusal) if refusal.lasts()) {
                    self.members.refused(self.scope.name(), &cause);
                }
                sleep(pause).await;
            }
        }
    }

    fn say(&self, ask: &Ask, end: &End, error: &str, pause: Duration) {
        let resource = self.scope.name();
        if *end != End::Closed {
            let verb = if let Ask::Page(_) = ask {
                "list"
            } else {
                "watch"
            };
            let retry_after_ms = pause.as_millis();
            tracing::warn!(
                resource,
                verb,
                error,
                retry_after_ms,
                "Listing or watching failed"
            );
        } else if let Some(times) = self.progress.ends_early() {
            tracing::warn!(
                resource,
                times,
                "The API server, or a proxy in between, ends watches within seconds"
            );
        }
    }

    async fn send(&self, ask: &Ask) -> Result<Response<Body>, Ended> {
        // Watches of all sidecars in a cluster must not end at the same time.
        let lifetime = Duration::from_secs(300).mul_f64(1.0 + unit_random());
        let request = Request::get(self.scope.uri(ask, self.progress.limit(), lifetime))
            .header(header::ACCEPT, self.scope.accept(ask))
            .header(header::ACCEPT_ENCODING, "identity")
            .body(Body::empty())
            .map_err(|error| Ended::broken(Chain(&error).to_string()))?;
        let answer = self.client.send(request).await;
        let response = answer.map_err(|error| Ended::broken(Chain(&error).to_string()))?;
        if response.status().is_success() {
            return Ok(response);
        }
        Err(Ended::refused(refusal(response).await))
    }

    async fn page(&mut self, ask: &Ask) -> Result<(), Ended> {
        let body = self.send(ask).await?.into_body();
        let bytes = body
            .collect()
            .await
            .map_err(|error| Ended::broken(Chain(&error).to_string()))?
            .to_bytes();
        let page = Page::read(&bytes)
            .map_err(|error| Ended::broken(format!("a list page is unreadable: {error}")))?;
        for object in page.objects() {
            self.upsert(object);
        }
        if let Some(version) = self.progress.page(page.version(), page.token()) {
            self.members.finish_list(self.scope.name(), version);
            self.members.told(version);
            self.ended = None;
            self.listed = Some(Instant::now());
        }
        Ok(())
    }

    /// Whether to list again after a gap in the watch, instead of waiting for the missed changes. Call it
    /// when the server accepts watches again: a server that refuses them should not get more work.
    fn is_missed(&self, (ended, in_order): (Instant, bool)) -> bool {
        let lately = self.listed.is_some_and(|at| at.elapsed() < LISTED_LATELY);
        self.members.relist() && !(in_order && lately && ended.elapsed() <= BRIEF)
    }

    async fn watch(&mut self, ask: &Ask) -> Result<(), Ended> {
        let mut body = self.send(ask).await?.into_body();
        let resumed = { self.ended.take() }.filter(|_| matches!(ask, Ask::Watch(_)));
        if resumed.is_some_and(|ended| self.is_missed(ended)) {
            drop(body);
            sleep(self.progress.missed(unit_random())).await;
            return Ok(());
        }
        self.told_since = Instant::now();
        let Err(ended) = self.follow(&mut body, resumed.is_some()).await;
        Err(Ended {
            lasted: self.told_since.elapsed(),
            ..ended
        })
    }

    /// Reads an open watch to its end. After a `resumed` watch only a bookmark shows that all missed changes
    /// have arrived.
    async fn follow(&mut self, body: &mut Body, resumed: bool) -> Result<Infallible, Ended> {
        let mut lines = Lines::default();
        let members = Arc::clone(&self.members);
        let backlog = sleep(BACKLOG);
        tokio::pin!(backlog);
        loop {
            let streaming = self.progress.is_streaming();
            let silence = if streaming { STREAM_SILENCE } else { SILENCE };
            let frame = tokio::select! {
                biased;
                frame = timeout(silence, body.frame()) => frame,
                () = &mut backlog, if !resumed && !streaming && !members.are_current() => {
                    members.set_current(true);
                    continue;
                }
            };
            let frame = match frame {
                Err(_elapsed) if streaming => {
                    self.progress.stream_has_no_end();
                    return Err(Ended::at_once(End::Closed, "the streaming list has no end"));
                }
                Err(_elapsed) => return Err(Ended::broken("the watch fell silent")),
                Ok(None) => return Err(Ended::at_once(End::Closed, "the watch ended")),
                Ok(Some(Err(error))) => return Err(Ended::broken(Chain(&error).to_string())),
                Ok(Some(Ok(frame))) => frame,
            };
            let Ok(data) = frame.into_data() else {
                continue;
            };
            let mut input: &[u8] = &data;
            while let Some(line) = lines.next(&mut input) {
                if !line.trim_ascii().is_empty() {
                    self.line(line)?;
                }
            }
            if lines.passed_over() {
                let (resource, limit) = (self.scope.name(), wire::LONGEST_LINE);
                tracing::warn!(resource, limit, "Skipping a watch event larger than this");
            }
        }
    }

    fn line(&mut self, line: &[u8]) -> Result<(), Ended> {
        let line = Line::read(line)
            .map_err(|error| Ended::broken(format!("a watch event is unreadable: {error}")))?;
        match line {
            Line::Upserted(json) => {
                let object = self.upsert(json);
                self.seen(&object, json);
            }
            Line::Deleted(json) => {
                let object = RawObject::new(json);
                self.members.delete(&object, self.scope.name());
                self.seen(&object, json);
            }
            Line::Bookmark {
                version,
                initial_events_end,
            } => {
                if initial_events_end && self.progress.initial_events_end(&version) {
                    self.told_since = Instant::now();
                    self.listed = Some(self.told_since);
                    self.members.finish_list(self.scope.name(), &version);
                }
                self.progress.event(&version);
                if !self.progress.is_streaming() {
                    self.members.set_current(true);
                    self.members.told(&version);
                }
            }
            Line::Refused(refusal) => return Err(Ended::refused(refusal)),
            Line::Unknown => {}
        }
        Ok(())
    }

    fn seen(&mut self, object: &RawObject<'_>, json: &str) {
        if !self.progress.is_streaming() {
            let text = match object.known_version() {
                0 => wire::version_of(json),
                version => version.to_string(),
            };
            self.progress.object(&text);
            self.members.told(&text);
        }
    }

    fn upsert<'a>(&self, json: &'a str) -> RawObject<'a> {
        let object = RawObject::new(json);
        self.members.upsert(&object, self.scope.name());
        object
    }
}

async fn refusal(response: Response<Body>) -> Refusal {
    let code = response.status().as_u16();
    let retry_after = retry_after(response.headers());
    let body = timeout(
        STATUS,
        Limited::new(response.into_body(), STATUS_BYTES).collect(),
    )
    .await;
    let bytes = body
        .ok()
        .and_then(Result::ok)
        .map(|body| body.to_bytes())
        .unwrap_or_default();
    let status = Refusal::read(&String::from_utf8_lossy(&bytes));
    Refusal {
        code,
        retry_after: retry_after.or(status.retry_after),
        ..status
    }
}

#[cfg(test)]
mod tests;
