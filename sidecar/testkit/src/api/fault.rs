//! Rules that make the server misbehave.
//!
//! A rule selects requests, limits their number, and says what happens to them. Rules are tried in
//! the order in which they were added; delays add up, the first other action decides.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::watch;

use super::record::{Request, glob};

type Predicate = Arc<dyn Fn(&Request) -> bool + Send + Sync>;

/// One rule under construction; [`super::FakeApi::fault`] activates it.
#[derive(Clone)]
pub struct Fault {
    method: String,
    path: String,
    user_agent: String,
    when: Option<Predicate>,
    skip: usize,
    times: usize,
    action: Action,
}

impl fmt::Debug for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {:?}", self.method, self.path, self.action)
    }
}

/// The effect of a rule on a request.
#[derive(Clone, Debug)]
pub(super) enum Action {
    Nothing,
    Answer(Answer),
    Delay(Duration),
    Drop,
    LoseReply,
    LateReply(Duration),
    Hang,
    Hold(Gate),
    CutWatch(Duration),
    ExpireWatch,
}

/// A canned response.
#[derive(Clone, Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) message: String,
    pub(super) retry_after: Option<u64>,
    pub(super) raw: Option<String>,
}

impl Fault {
    /// Requests with this method and path; `*` in either matches any text.
    #[must_use]
    pub fn on(method: &str, path: &str) -> Self {
        Self {
            method: method.to_owned(),
            path: path.to_owned(),
            user_agent: "*".to_owned(),
            when: None,
            skip: 0,
            times: usize::MAX,
            action: Action::Nothing,
        }
    }

    /// Only requests of this user agent; `*` matches any text.
    #[must_use]
    pub fn user_agent(mut self, pattern: &str) -> Self {
        pattern.clone_into(&mut self.user_agent);
        self
    }

    /// Only requests for which `predicate` holds.
    #[must_use]
    pub fn when(mut self, predicate: impl Fn(&Request) -> bool + Send + Sync + 'static) -> Self {
        self.when = Some(Arc::new(predicate));
        self
    }

    /// Lets the first `count` matching requests pass.
    #[must_use]
    pub fn skip(mut self, count: usize) -> Self {
        self.skip = count;
        self
    }

    /// Applies to `count` requests, then no longer.
    #[must_use]
    pub fn times(mut self, count: usize) -> Self {
        self.times = count;
        self
    }

    fn action(mut self, action: Action) -> Self {
        self.action = action;
        self
    }

    /// Responds with this status and a `Status` object without handling the request.
    #[must_use]
    pub fn answer(self, status: u16) -> Self {
        self.answer_saying(status, "injected fault")
    }

    /// Like [`Fault::answer`], with this message.
    #[must_use]
    pub fn answer_saying(self, status: u16, message: &str) -> Self {
        self.action(Action::Answer(Answer {
            status,
            message: message.to_owned(),
            retry_after: None,
            raw: None,
        }))
    }

    /// Responds with this status and body verbatim.
    #[must_use]
    pub fn answer_raw(self, status: u16, body: &str) -> Self {
        self.action(Action::Answer(Answer {
            status,
            message: String::new(),
            retry_after: None,
            raw: Some(body.to_owned()),
        }))
    }

    /// Responds with 429 and `Retry-After` in seconds.
    #[must_use]
    pub fn too_many(self, retry_after: u64) -> Self {
        self.action(Action::Answer(Answer {
            status: 429,
            message:
                "the server has received too many requests and has asked us to try again later"
                    .to_owned(),
            retry_after: Some(retry_after),
            raw: None,
        }))
    }

    /// Waits before the request is handled.
    #[must_use]
    pub fn delay(self, by: Duration) -> Self {
        self.action(Action::Delay(by))
    }

    /// Breaks the connection before the request is handled.
    #[must_use]
    pub fn drop_connection(self) -> Self {
        self.action(Action::Drop)
    }

    /// Handles the request, then breaks the connection instead of responding.
    #[must_use]
    pub fn lose_reply(self) -> Self {
        self.action(Action::LoseReply)
    }

    /// Handles the request at once, and responds after this delay.
    #[must_use]
    pub fn late_reply(self, by: Duration) -> Self {
        self.action(Action::LateReply(by))
    }

    /// Neither handles the request nor responds.
    #[must_use]
    pub fn hang(self) -> Self {
        self.action(Action::Hang)
    }

    /// Handles the request once the gate is open.
    #[must_use]
    pub fn hold(self, gate: &Gate) -> Self {
        self.action(Action::Hold(gate.clone()))
    }

    /// Ends a watch this long after it was opened.
    #[must_use]
    pub fn cut_watch(self, after: Duration) -> Self {
        self.action(Action::CutWatch(after))
    }

    /// Responds to a watch with the 410 event of an expired version, and ends it.
    #[must_use]
    pub fn expire_watch(self) -> Self {
        self.action(Action::ExpireWatch)
    }
}

/// An active rule.
#[derive(Clone, Debug)]
pub struct FaultHandle {
    state: Arc<State>,
}

#[derive(Debug, Default)]
struct State {
    seen: AtomicUsize,
    hits: AtomicUsize,
    removed: AtomicBool,
}

impl FaultHandle {
    /// Number of requests to which the rule applied.
    #[must_use]
    pub fn hits(&self) -> usize {
        self.state.hits.load(Ordering::SeqCst)
    }

    /// Deactivates the rule.
    pub fn remove(&self) {
        self.state.removed.store(true, Ordering::SeqCst);
    }
}

/// The rules of one server.
#[derive(Debug, Default)]
pub(super) struct Faults {
    rules: Vec<(Fault, FaultHandle)>,
}

impl Faults {
    pub(super) fn add(&mut self, fault: Fault) -> FaultHandle {
        let handle = FaultHandle {
            state: Arc::new(State::default()),
        };
        self.rules.push((fault, handle.clone()));
        handle
    }

    pub(super) fn clear(&mut self) {
        self.rules.clear();
    }

    /// The actions for `request`: any number of delays and at most one other, the last.
    pub(super) fn actions(&mut self, request: &Request) -> Vec<Action> {
        self.rules
            .retain(|(_, handle)| !handle.state.removed.load(Ordering::SeqCst));
        let mut actions = Vec::new();
        for (fault, handle) in &self.rules {
            let fits = request.fits(&fault.method, &fault.path)
                && glob(&fault.user_agent, &request.user_agent)
                && fault
                    .when
                    .as_ref()
                    .is_none_or(|predicate| predicate(request));
            if !fits || handle.hits() >= fault.times {
                continue;
            }
            if handle.state.seen.fetch_add(1, Ordering::SeqCst) < fault.skip {
                continue;
            }
            handle.state.hits.fetch_add(1, Ordering::SeqCst);
            actions.push(fault.action.clone());
            if !matches!(fault.action, Action::Delay(_) | Action::Nothing) {
                break;
            }
        }
        actions
    }
}

/// Holds requests until it opens.
#[derive(Clone, Debug)]
pub struct Gate {
    open: Arc<watch::Sender<bool>>,
    waiting: Arc<AtomicUsize>,
}

impl Default for Gate {
    fn default() -> Self {
        Self::new()
    }
}

impl Gate {
    /// A closed gate.
    #[must_use]
    pub fn new() -> Self {
        Self {
            open: Arc::new(watch::Sender::new(false)),
            waiting: Arc::default(),
        }
    }

    /// Lets all requests pass, now and later.
    pub fn open(&self) {
        self.open.send_replace(true);
    }

    /// Number of requests that wait at the gate.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.waiting.load(Ordering::SeqCst)
    }

    pub(crate) async fn pass(&self) {
        struct Leave<'a>(&'a AtomicUsize);
        impl Drop for Leave<'_> {
            fn drop(&mut self) {
                self.0.fetch_sub(1, Ordering::SeqCst);
            }
        }
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let _leave = Leave(&self.waiting);
        // The sender lives in `self`, so waiting cannot fail.
        let _ = self.open.subscribe().wait_for(|open| *open).await;
    }
}
