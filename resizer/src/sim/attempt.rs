//! An attempt under way, between two of its steps or within one.

use std::convert::Infallible;

use sidecar_testkit::sim::attempts::{self, Simulated};
use sidecar_testkit::sim::watch::Versioned;

use super::process::Process;
use crate::model::{ClaimDetail, Volume};
use crate::plan::Resizer;
use crate::plan::attempt::Attempt;

pub(super) type Running = attempts::Running<Process>;
pub(super) type State = attempts::State<Process>;

impl Simulated for Process {
    type Reactor = Resizer;
    type Object = Object;
    type Waiting = Infallible;
    type Note = ();
}

/// The object in the response to a request.
pub(super) enum Object {
    Claim(Box<Versioned<ClaimDetail>>),
    Volume(Box<Versioned<Volume>>),
}

/// The attempt's controller state; it has some while it takes steps.
pub(super) fn learnt(running: &Running) -> &Attempt {
    running.attempt.attempt.as_ref().expect("it takes steps")
}
