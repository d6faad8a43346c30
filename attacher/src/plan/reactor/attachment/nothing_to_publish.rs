//! Attachments of a driver that has nothing to publish.

use sidecar::controller::request::Part;

use super::{AttemptEnd, Run};
use crate::plan::request::{self, Purpose, Request};
use crate::plan::trivial;

impl Run {
    /// For a driver that has nothing to publish.
    pub(super) fn decide_trivial(&mut self) -> Option<Request> {
        let (_, current) = self.work.as_ref()?;
        match trivial::decide(current) {
            None => self.end(AttemptEnd::Done),
            Some(body) => {
                let purpose = Purpose::MarkTrivial;
                Some(request::patch(current, purpose, Part::Status, body))
            }
        }
    }
}
