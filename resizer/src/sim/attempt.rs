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

/// What a request returned.
pub(super) enum Object {
    Claim(Box<Versioned<ClaimDetail>>),
    Volume(Box<Versioned<Volume>>),
}

/// What an attempt has learnt that takes steps.
pub(super) fn learnt(running: &Running) -> &Attempt {
    running.attempt.attempt.as_ref().expect("it takes steps")
}
