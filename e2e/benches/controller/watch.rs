//! Times at which objects reached a state, or were deleted, as a user's watch sees them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use e2e::interrupt;
use e2e::suite::{reasons, say};
use http::Request;
use http_body_util::BodyExt as _;
use kube::Client;
use kube::client::Body;
use serde_json::Value;
use tokio::sync::mpsc::UnboundedSender;
use tokio::task::JoinHandle;

use crate::load::Load;

/// Times of one object.
#[derive(Debug, Clone, Copy, Default)]
struct Seen {
    done: Option<Instant>,
    gone: Option<Instant>,
}

type Book = Arc<Mutex<HashMap<String, Seen>>>;

/// The state that the watch times, and a channel for the names of objects that reach it.
struct Goal {
    done: fn(&Value) -> bool,
    tell: Option<UnboundedSender<String>>,
}

/// A watch of one collection, from its first version on.
#[derive(Debug)]
pub(crate) struct Watch {
    book: Book,
    task: JoinHandle<()>,
}

impl Watch {
    /// Watches `collection`; `done` says whether an object has reached the state.
    pub(crate) fn open(load: &Load, collection: &str, done: fn(&Value) -> bool) -> Result<Self> {
        Self::follow(load, collection, Goal { done, tell: None })
    }

    /// Watches as [`open`](Self::open) does, and sends names to `tell` as soon as their objects are
    /// done.
    pub(crate) fn telling(
        load: &Load,
        collection: &str,
        done: fn(&Value) -> bool,
        tell: UnboundedSender<String>,
    ) -> Result<Self> {
        let tell = Some(tell);
        Self::follow(load, collection, Goal { done, tell })
    }

    fn follow(load: &Load, collection: &str, goal: Goal) -> Result<Self> {
        let list = load.get(&format!("{collection}?limit=1"))?;
        let version = list
            .pointer("/metadata/resourceVersion")
            .and_then(Value::as_str)
            .context("a list without version")?;
        let book = Book::default();
        let watch = follow(
            load.client.clone(),
            collection.to_owned(),
            version.to_owned(),
            Arc::clone(&book),
            goal,
        );
        let task = load.runtime.spawn(async {
            if let Err(error) = watch.await {
                say(&format!(
                    "the bench's own watch ended:\n{}",
                    reasons(&error)
                ));
            }
        });
        Ok(Self { book, task })
    }

    fn book(&self) -> MutexGuard<'_, HashMap<String, Seen>> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets all times so far.
    pub(crate) fn clear(&self) {
        self.book().clear();
    }

    /// Times at which objects whose name begins with `prefix` were done.
    pub(crate) fn done(&self, prefix: &str) -> HashMap<String, Instant> {
        self.pick(prefix, |seen| seen.done)
    }

    /// Times at which objects whose name begins with `prefix` were gone.
    pub(crate) fn gone(&self, prefix: &str) -> HashMap<String, Instant> {
        self.pick(prefix, |seen| seen.gone)
    }

    fn pick(
        &self,
        prefix: &str,
        of: impl Fn(&Seen) -> Option<Instant>,
    ) -> HashMap<String, Instant> {
        let book = self.book();
        let named = book.iter().filter(|(name, _)| name.starts_with(prefix));
        named
            .filter_map(|(name, seen)| Some((name.clone(), of(seen)?)))
            .collect()
    }

    /// Waits until `count` returns `wanted`. Returns whether it did in time.
    pub(crate) fn wait(
        &self,
        limit: Duration,
        wanted: usize,
        count: impl Fn(&Self) -> usize,
    ) -> Result<bool> {
        let start = Instant::now();
        while count(self) < wanted {
            interrupt::check()?;
            anyhow::ensure!(!self.task.is_finished(), "the bench's own watch ended");
            if start.elapsed() > limit {
                return Ok(false);
            }
            sleep(Duration::from_millis(20));
        }
        Ok(true)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Reopens a watch that a busy server closes, at its last version.
async fn follow(
    client: Client,
    collection: String,
    mut version: String,
    book: Book,
    goal: Goal,
) -> Result<()> {
    loop {
        let uri = format!("{collection}?watch=true&resourceVersion={version}&timeoutSeconds=3600");
        let response = client.send(Request::get(uri).body(Body::empty())?).await?;
        if !response.status().is_success() {
            bail!("{}", response.status());
        }
        let mut body = response.into_body();
        let mut rest = Vec::new();
        while let Some(frame) = body.frame().await {
            let Ok(data) = frame?.into_data() else {
                continue;
            };
            let now = Instant::now();
            rest.extend_from_slice(&data);
            let Some(end) = rest.iter().rposition(|byte| *byte == b'\n') else {
                continue;
            };
            let lines: Vec<u8> = rest.drain(..=end).collect();
            for line in lines
                .split(|byte| *byte == b'\n')
                .filter(|line| !line.is_empty())
            {
                let event: Value = serde_json::from_slice(line)?;
                let seen = event.pointer("/object/metadata/resourceVersion");
                seen.and_then(Value::as_str)
                    .with_context(|| format!("not an object: {event}"))?
                    .clone_into(&mut version);
                note(&book, &event, now, &goal);
            }
        }
    }
}

fn note(book: &Book, event: &Value, now: Instant, goal: &Goal) {
    let name = event.pointer("/object/metadata/name");
    let (Some(name), Some(object)) = (name.and_then(Value::as_str), event.get("object")) else {
        return;
    };
    let mut book = book.lock().unwrap_or_else(PoisonError::into_inner);
    let seen = book.entry(name.to_owned()).or_default();
    if event.get("type").and_then(Value::as_str) == Some("DELETED") {
        seen.gone = Some(now);
    } else if seen.done.is_none() && (goal.done)(object) {
        seen.done = Some(now);
        if let Some(tell) = &goal.tell {
            // The receiver may be gone.
            tell.send(name.to_owned()).ok();
        }
    }
}
