//! WATCH: a stream of events read from the history, without a task of its own.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream;
use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::Frame;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use super::list::{Selector, trimmed};
use super::refusal::Refusal;
use super::route::Target;
use super::store::{Change, Store};
use super::{Body, Broken, FakeApi, Inner};

/// Interval of bookmarks on an idle watch that allows them.
const BOOKMARK_EVERY: Duration = Duration::from_secs(60);

/// How the open watches end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Ending {
    #[default]
    Clean,
    Broken,
    Expired,
}

/// Controls of the open watches; each number grows, and a watch compares it with its own.
#[derive(Debug, Default)]
pub(super) struct Controls {
    epoch: u64,
    ending: Ending,
    bookmarks: u64,
    open: usize,
    pub(super) streaming_lists: bool,
}

impl Controls {
    pub(super) fn end(&mut self, ending: Ending) {
        self.epoch += 1;
        self.ending = ending;
    }

    pub(super) fn bookmark(&mut self) {
        self.bookmarks += 1;
    }

    pub(super) fn open(&self) -> usize {
        self.open
    }
}

struct Watching {
    api: FakeApi,
    target: Target,
    selector: Selector,
    accept: String,
    wants_bookmarks: bool,
    cursor: u64,
    epoch: u64,
    bookmarks: u64,
    pending: VecDeque<Bytes>,
    end: Option<Result<(), Broken>>,
    deadline: Instant,
    next_bookmark: Instant,
    changes: watch::Receiver<u64>,
}

impl Drop for Watching {
    fn drop(&mut self) {
        self.api.lock().controls.open -= 1;
    }
}

/// The effect of faults on a watch when it is opened.
#[derive(Debug, Default)]
pub(super) struct Bend {
    pub(super) cut_after: Option<Duration>,
    pub(super) expired: bool,
}

/// Opens a watch.
pub(super) fn open(
    api: &FakeApi,
    target: &Target,
    query: &BTreeMap<String, String>,
    accept: &str,
    bend: &Bend,
) -> Result<Body, Refusal> {
    let inner = &mut *api.lock();
    let parameter = |name: &str| query.get(name).map(String::as_str).unwrap_or_default();
    let initial = parameter("sendInitialEvents") == "true";
    if initial && !inner.controls.streaming_lists {
        let problem = "sendInitialEvents: Forbidden: sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled";
        return Err(Refusal::new(
            422,
            format!("ListOptions.meta.k8s.io \"\" is invalid: {problem}"),
        ));
    }
    let asked: u64 = match parameter("resourceVersion") {
        "" => 0,
        text => text
            .parse()
            .map_err(|_| Refusal::new(400, format!("invalid resource version \"{text}\"")))?,
    };
    let limit = parameter("timeoutSeconds").parse().unwrap_or(1800);
    let limit = bend.cut_after.unwrap_or(Duration::from_secs(limit));
    let now = Instant::now();
    let mut watching = Watching {
        api: api.clone(),
        target: target.clone(),
        selector: Selector::new(target, query),
        accept: accept.to_owned(),
        wants_bookmarks: parameter("allowWatchBookmarks") == "true",
        cursor: asked,
        epoch: inner.controls.epoch,
        bookmarks: inner.controls.bookmarks,
        pending: VecDeque::new(),
        end: None,
        deadline: now + limit,
        next_bookmark: now + BOOKMARK_EVERY,
        changes: api.changes.subscribe(),
    };
    inner.controls.open += 1;
    if bend.expired || asked != 0 && asked < inner.store.compacted() {
        watching.expire(asked, inner.store.compacted());
    } else if asked == 0 || initial {
        watching.send_all(&inner.store);
        if initial {
            watching.send_bookmark(true);
        }
    }
    Ok(body(watching))
}

fn body(watching: Watching) -> Body {
    let stream = stream::unfold(watching, |mut watching| async move {
        let chunk = watching.next().await?;
        Some((chunk.map(Frame::data), watching))
    });
    StreamBody::new(stream).boxed_unsync()
}

impl Watching {
    async fn next(&mut self) -> Option<Result<Bytes, Broken>> {
        loop {
            self.changes.mark_unchanged();
            if self.end.is_none() {
                let api = self.api.clone();
                self.catch_up(&api.lock());
            }
            if let Some(chunk) = self.pending.pop_front() {
                return Some(Ok(chunk));
            }
            match self.end.take() {
                Some(Ok(())) => return None,
                Some(Err(broken)) => {
                    self.end = Some(Ok(()));
                    return Some(Err(broken));
                }
                None => {}
            }
            tokio::select! {
                biased;
                _ = self.changes.changed() => {}
                () = sleep_until(self.deadline) => self.end = Some(Ok(())),
                () = sleep_until(self.next_bookmark) => {
                    self.next_bookmark += BOOKMARK_EVERY;
                    if self.wants_bookmarks {
                        self.send_bookmark(false);
                    }
                }
            }
        }
    }

    /// Reads the history up to now, unless the test holds this type back.
    fn catch_up(&mut self, inner: &Inner) {
        if self.epoch != inner.controls.epoch {
            match inner.controls.ending {
                Ending::Clean => self.end = Some(Ok(())),
                Ending::Broken => self.end = Some(Err(Broken)),
                Ending::Expired => self.expire(self.cursor, inner.store.version()),
            }
            return;
        }
        if inner.store.held.contains(&self.target.kind.resource) {
            return;
        }
        let resource = super::store::Key::new(&self.target.kind, "", "").resource;
        for change in inner.store.since(self.cursor) {
            if change.key.resource == resource {
                self.send_change(change);
            }
        }
        self.cursor = inner.store.version();
        if self.wants_bookmarks && self.bookmarks != inner.controls.bookmarks {
            self.bookmarks = inner.controls.bookmarks;
            self.send_bookmark(false);
        }
    }

    fn send_change(&mut self, change: &Change) {
        let before = change.before.as_ref();
        let was = before.is_some_and(|before| self.selector.wants(before));
        let is = !change.removed && self.selector.wants(&change.object);
        let name = match (was, is) {
            (false, false) => return,
            (false, true) => "ADDED",
            (true, true) => "MODIFIED",
            (true, false) => "DELETED",
        };
        let mut object = (*change.object).clone();
        if let Some(before) = before.filter(|_| was && !is) {
            // An object that leaves the selection is sent in its last selected state.
            object = (**before).clone();
            object["metadata"]["resourceVersion"] = change.version.to_string().into();
        }
        self.send(name, object);
    }

    fn send_all(&mut self, store: &Store) {
        let target = self.target.clone();
        let objects = store.list(&target.kind, &target.namespace);
        for (_, object) in objects {
            if self.selector.wants(object) {
                self.send("ADDED", (**object).clone());
            }
        }
        self.cursor = store.version();
    }

    fn send_bookmark(&mut self, initial: bool) {
        let kind = &self.target.kind;
        let mut object = json!({
            "apiVersion": kind.api_version(), "kind": kind.kind,
            "metadata": {"resourceVersion": self.cursor.to_string()},
        });
        if initial {
            object["metadata"]["annotations"] = json!({"k8s.io/initial-events-end": "true"});
        }
        self.send("BOOKMARK", object);
    }

    fn expire(&mut self, asked: u64, oldest: u64) {
        let text = format!("too old resource version: {asked} ({oldest})");
        let event = json!({"type": "ERROR", "object": Refusal::new(410, text).body()});
        self.pending.push_back(line(&event));
        self.end = Some(Ok(()));
    }

    fn send(&mut self, name: &str, mut object: Value) {
        self.target.kind.show(&mut object);
        let event = json!({"type": name, "object": trimmed(&self.accept, object)});
        self.pending.push_back(line(&event));
    }
}

fn line(event: &Value) -> Bytes {
    Bytes::from(format!("{event}\n"))
}
