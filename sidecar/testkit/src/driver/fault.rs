//! Rules that make calls fail, wait or lose their response.

use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use tonic::{Code, Status};

use crate::api::fault::Gate;
use crate::api::record::glob;

/// One rule under construction; [`super::FakeDriver::fault`] activates it.
#[derive(Clone, Debug)]
pub struct CallFault {
    method: String,
    volume: String,
    node: String,
    skip: usize,
    times: usize,
    action: CallAction,
}

/// The effect of a rule on a call.
#[derive(Clone)]
pub(super) enum CallAction {
    Nothing,
    Fail(Status),
    FailAfter(Status),
    Delay(Duration),
    Hang,
    LoseReply,
    Hold(Gate),
    Answer(Arc<dyn Any + Send + Sync>),
}

impl fmt::Debug for CallAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Nothing => "Nothing",
            Self::Fail(_) => "Fail",
            Self::FailAfter(_) => "FailAfter",
            Self::Delay(_) => "Delay",
            Self::Hang => "Hang",
            Self::LoseReply => "LoseReply",
            Self::Hold(_) => "Hold",
            Self::Answer(_) => "Answer",
        })
    }
}

impl CallFault {
    /// Calls of this method; `*` matches any text.
    #[must_use]
    pub fn on(method: &str) -> Self {
        Self {
            method: method.to_owned(),
            volume: "*".to_owned(),
            node: "*".to_owned(),
            skip: 0,
            times: usize::MAX,
            action: CallAction::Nothing,
        }
    }

    /// Only for this volume; `*` matches any text.
    #[must_use]
    pub fn volume(mut self, pattern: &str) -> Self {
        pattern.clone_into(&mut self.volume);
        self
    }

    /// Only for this node; `*` matches any text.
    #[must_use]
    pub fn node(mut self, pattern: &str) -> Self {
        pattern.clone_into(&mut self.node);
        self
    }

    /// Lets the first `count` matching calls pass.
    #[must_use]
    pub fn skip(mut self, count: usize) -> Self {
        self.skip = count;
        self
    }

    /// Applies to `count` calls, then no longer.
    #[must_use]
    pub fn times(mut self, count: usize) -> Self {
        self.times = count;
        self
    }

    fn action(mut self, action: CallAction) -> Self {
        self.action = action;
        self
    }

    /// Fails without doing the work.
    #[must_use]
    pub fn fail(self, code: Code, message: &str) -> Self {
        self.action(CallAction::Fail(Status::new(code, message)))
    }

    /// Does the work, then returns this error.
    #[must_use]
    pub fn fail_after(self, code: Code, message: &str) -> Self {
        self.action(CallAction::FailAfter(Status::new(code, message)))
    }

    /// Waits before the work.
    #[must_use]
    pub fn delay(self, by: Duration) -> Self {
        self.action(CallAction::Delay(by))
    }

    /// Neither works nor responds.
    #[must_use]
    pub fn hang(self) -> Self {
        self.action(CallAction::Hang)
    }

    /// Does the work, never responds.
    #[must_use]
    pub fn lose_reply(self) -> Self {
        self.action(CallAction::LoseReply)
    }

    /// Works once the gate opens.
    #[must_use]
    pub fn hold(self, gate: &Gate) -> Self {
        self.action(CallAction::Hold(gate.clone()))
    }

    /// Responds with this message, whatever the driver's state. It must be of the method's type.
    #[must_use]
    pub fn answer<T: Clone + Send + Sync + 'static>(self, response: T) -> Self {
        self.action(CallAction::Answer(Arc::new(response)))
    }
}

/// An active rule.
#[derive(Clone, Debug, Default)]
pub struct CallFaultHandle {
    state: Arc<Counters>,
}

#[derive(Debug, Default)]
struct Counters {
    seen: AtomicUsize,
    hits: AtomicUsize,
    removed: AtomicBool,
}

impl CallFaultHandle {
    /// Number of calls to which the rule applied.
    #[must_use]
    pub fn hits(&self) -> usize {
        self.state.hits.load(Ordering::SeqCst)
    }

    /// Deactivates the rule.
    pub fn remove(&self) {
        self.state.removed.store(true, Ordering::SeqCst);
    }
}

#[derive(Debug, Default)]
pub(super) struct CallFaults {
    rules: Vec<(CallFault, CallFaultHandle)>,
}

impl CallFaults {
    pub(super) fn add(&mut self, fault: CallFault) -> CallFaultHandle {
        let handle = CallFaultHandle::default();
        self.rules.push((fault, handle.clone()));
        handle
    }

    pub(super) fn clear(&mut self) {
        self.rules.clear();
    }

    /// The actions for a call: any number of delays and at most one other, the last.
    pub(super) fn actions(&mut self, method: &str, subject: &[String]) -> Vec<CallAction> {
        let part = |index: usize| subject.get(index).map(String::as_str).unwrap_or_default();
        self.rules
            .retain(|(_, handle)| !handle.state.removed.load(Ordering::SeqCst));
        let mut actions = Vec::new();
        for (fault, handle) in &self.rules {
            let fits = glob(&fault.method, method)
                && glob(&fault.volume, part(0))
                && glob(&fault.node, part(1));
            if !fits || handle.hits() >= fault.times {
                continue;
            }
            if handle.state.seen.fetch_add(1, Ordering::SeqCst) < fault.skip {
                continue;
            }
            handle.state.hits.fetch_add(1, Ordering::SeqCst);
            actions.push(fault.action.clone());
            if !matches!(fault.action, CallAction::Delay(_) | CallAction::Nothing) {
                break;
            }
        }
        actions
    }
}
