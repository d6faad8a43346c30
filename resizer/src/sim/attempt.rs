//! An attempt under way, between two of its steps or within one.

use sidecar_testkit::sim::watch::Versioned;

use crate::model::{ClaimDetail, Volume};
use crate::plan::Task;
use crate::plan::attempt::Attempt;
use crate::plan::reactor::Run;
use crate::plan::step::{Answer, Step};

/// An attempt under way.
pub(super) struct Running {
    pub(super) task: Task,
    pub(super) run: Run,
    pub(super) state: State,
}

impl Running {
    pub(super) fn attempt(&self) -> &Attempt {
        self.run.attempt().expect("it takes steps")
    }
}

pub(super) enum State {
    Deciding,
    /// Sent to the API server, not yet applied.
    Sent(Step),
    /// The driver works on it.
    Calling(Step, u64),
    /// The answer is on its way; with the object if there is one.
    Answered(Step, Answer, Option<Object>),
    /// The lease is over: it is not sent.
    Fenced,
}

/// What a request returned.
pub(super) enum Object {
    Claim(Box<Versioned<ClaimDetail>>),
    Volume(Box<Versioned<Volume>>),
}
