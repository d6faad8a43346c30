//! Lists and watches one kind of objects and keeps its cache in step with the API server.
//!
//! An own loop instead of `kube::runtime::watcher`, which decodes whole pages of typed objects, fails
//! the page for one object it cannot read, has no way back from a refused streaming list, and needs
//! a full `ObjectMeta` behind every object. What to ask next is decided in `progress`, how it reads
//! on the wire is in `wire`; this file sends, waits and logs.

mod progress;
mod wire;

use std::collections::HashSet;
use std::convert::Infallible;
use std::time::Duration;

use ::kube::Client;
use ::kube::client::Body;
use http::{Request, Response, header};
use http_body_util::{BodyExt, Limited};
use tokio::time::{Instant, sleep, timeout};

use super::cache::{Cache, ObjectError, Record, identity};
use crate::error::Chain;
use crate::flags::parse_bool;
use crate::rt::unit_random;

use progress::{Ask, End, Progress, Refusal};
use wire::{Line, Lines, Page};

pub use wire::{Resource, Scope};

/// For the body of a refusal. What an answer may take otherwise is the client's business, which knows
/// when the request was sent: one that waits for its turn has not been sent.
const STATUS: Duration = Duration::from_secs(60);

/// API servers send a bookmark about every minute; a watch that is silent longer than two of them
/// is taken for dead and opened again where it was.
const SILENCE: Duration = Duration::from_secs(150);

/// While the objects that exist are streamed, nothing justifies a pause as long as this.
const STREAM_SILENCE: Duration = Duration::from_secs(30);

/// Of an error's body.
const STATUS_BYTES: usize = 64 << 10;

/// A watch that the server ended in good order and that stands again within this time has missed no
/// more than any watch is late.
const BRIEF: Duration = Duration::from_secs(1);

/// What had happened before a watch was opened comes first, and at once.
const BACKLOG: Duration = Duration::from_millis(250);

/// So many objects that cannot be read are named in the log, once each.
const UNREADABLE_NAMED: usize = 100;

/// [`reflect`]s the objects of a kind, whatever their namespace.
pub async fn reflect_all<R: Record>(
    client: &Client,
    resource: Resource,
    cache: &Cache<R>,
    resync: Option<Duration>,
) -> Infallible {
    reflect(client.clone(), Scope::all(resource), cache.clone(), resync).await
}

/// Keeps the cache in step with the API server, for ever; with `resync`, also tells the cache's
/// handler about every object once per so long.
///
/// Whatever the server does or sends is logged and tried again; an object that cannot be read is
/// named once and passed over. `client` limits the time of requests
/// ([`Limiter`](super::rate::Limiter)); this one only of watches that fell silent.
///
/// Lists are not streamed where `KUBE_FEATURE_WatchListClient` is `false`, as in client-go.
pub async fn reflect<R: Record>(
    client: Client,
    scope: Scope,
    cache: Cache<R>,
    resync: Option<Duration>,
) -> Infallible {
    let streaming = std::env::var("KUBE_FEATURE_WatchListClient");
    let reflector = Reflector {
        client,
        scope,
        cache: cache.clone(),
        progress: Progress::new(wants_streams(streaming.ok().as_deref())),
        ended: None,
        unreadable: HashSet::new(),
        told_since: Instant::now(),
    };
    tokio::select! {
        never = reflector.run() => never,
        never = resync_every(resync, cache) => never,
    }
}

/// What `KUBE_FEATURE_WatchListClient` says; senseless values say nothing, as in client-go.
fn wants_streams(variable: Option<&str>) -> bool {
    variable.and_then(parse_bool).unwrap_or(true)
}

async fn resync_every<R>(period: Option<Duration>, cache: Cache<R>) -> Infallible {
    let Some(period) = period.filter(|period| !period.is_zero()) else {
        return std::future::pending().await;
    };
    cache.synced().await;
    loop {
        sleep(period).await;
        cache.resync();
    }
}

struct Reflector<R> {
    client: Client,
    scope: Scope,
    cache: Cache<R>,
    progress: Progress,
    /// When a watch ended that is to be resumed.
    ended: Option<Instant>,
    unreadable: HashSet<String>,
    /// When the watch that is open began to tell of changes.
    told_since: Instant,
}

/// How a request ended, and how long a watch had told of changes.
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

impl<R: Record> Reflector<R> {
    async fn run(mut self) -> Infallible {
        loop {
            let ask = self.progress.next();
            if matches!(ask, Ask::Stream | Ask::Page(None)) {
                self.cache.begin_list();
            }
            let ended = match ask {
                Ask::Page(_) => self.page(&ask).await,
                Ask::Stream | Ask::Watch(_) => self.watch(&ask).await,
            };
            if let Err(Ended { end, lasted, cause }) = ended {
                self.cache.lost();
                self.ended.get_or_insert_with(Instant::now);
                let pause = self.progress.end(&end, lasted, unit_random());
                if end != End::Closed {
                    tracing::warn!(
                        resource = self.scope.name(),
                        error = cause,
                        retry_after_ms = pause.as_millis(),
                        "Listing or watching failed"
                    );
                    self.missed();
                }
                sleep(pause).await;
            }
        }
    }

    async fn send(&self, ask: &Ask) -> Result<Response<Body>, Ended> {
        // Watches of all sidecars of a cluster must not end at the same time.
        let lifetime = Duration::from_secs(300).mul_f64(1.0 + unit_random());
        let request = Request::get(self.scope.uri(ask, lifetime))
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
            self.cache.finish_list(version);
            self.ended = None;
        }
        Ok(())
    }

    /// What happened while there was no watch is not to be waited for, if the scope says so.
    fn missed(&mut self) {
        if self.scope.relist {
            self.progress.start_over();
        }
    }

    async fn watch(&mut self, ask: &Ask) -> Result<(), Ended> {
        let mut body = self.send(ask).await?.into_body();
        let away = self.ended.take().map(|ended| ended.elapsed());
        if self.scope.relist
            && away.is_some_and(|away| away > BRIEF)
            && matches!(ask, Ask::Watch(_))
        {
            self.missed();
            return Ok(());
        }
        self.told_since = Instant::now();
        let followed = self.follow(&mut body).await;
        followed.map_err(|ended| Ended {
            lasted: self.told_since.elapsed(),
            ..ended
        })
    }

    /// Follows an open watch to its end, which is always one of the errors.
    async fn follow(&mut self, body: &mut Body) -> Result<(), Ended> {
        let mut lines = Lines::default();
        let backlog = sleep(BACKLOG);
        tokio::pin!(backlog);
        loop {
            let streaming = self.progress.is_streaming();
            let silence = if streaming { STREAM_SILENCE } else { SILENCE };
            let frame = tokio::select! {
                biased;
                frame = timeout(silence, body.frame()) => frame,
                () = &mut backlog, if !streaming && !self.cache.is_current() => {
                    self.cache.stands();
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
        }
    }

    fn line(&mut self, line: &[u8]) -> Result<(), Ended> {
        let line = Line::read(line)
            .map_err(|error| Ended::broken(format!("a watch event is unreadable: {error}")))?;
        match line {
            Line::Upserted(json) => {
                let version = self.upsert(json);
                self.seen(version, json);
            }
            Line::Deleted(json) => {
                let version = self.cache.delete(json);
                let version = version
                    .map_err(|error| self.unreadable(json, &error))
                    .unwrap_or(0);
                self.seen(version, json);
            }
            Line::Bookmark {
                version,
                initial_events_end,
            } => {
                if initial_events_end && self.progress.initial_events_end(&version) {
                    self.told_since = Instant::now();
                    self.cache.finish_list(&version);
                    self.cache.stands();
                }
                self.progress.event(&version);
            }
            Line::Refused(refusal) => return Err(Ended::refused(refusal)),
            Line::Unknown => {}
        }
        Ok(())
    }

    fn seen(&mut self, version: u64, json: &str) {
        if !self.progress.is_streaming() {
            let text = if version == 0 {
                wire::version_of(json)
            } else {
                version.to_string()
            };
            self.progress.event(&text);
        }
    }

    fn upsert(&mut self, json: &str) -> u64 {
        self.cache.upsert(json).unwrap_or_else(|error| {
            self.unreadable(json, &error);
            0
        })
    }

    /// What is known of the object stays: a relist must not take it for deleted.
    fn unreadable(&mut self, json: &str, error: &ObjectError) {
        let name = match identity(json) {
            Ok((key, _version)) => {
                self.cache.keep(key.as_str());
                key.to_string()
            }
            Err(_) => String::new(),
        };
        if self.unreadable.len() < UNREADABLE_NAMED && self.unreadable.insert(name.clone()) {
            let (resource, error) = (self.scope.name(), Chain(error));
            tracing::warn!(resource, name, %error, "Passing over an object that cannot be read");
        }
    }
}

async fn refusal(response: Response<Body>) -> Refusal {
    let code = response.status().as_u16();
    let retry_after = response
        .headers()
        .get(header::RETRY_AFTER)
        .and_then(|value| value.to_str().ok()?.trim().parse().ok())
        .map(Duration::from_secs);
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
