//! Attachments of a driver that has nothing to publish.

use std::sync::Arc;

use super::{Asked, AttemptEnd, Run, Step};
use crate::plan::trivial;

impl Run {
    /// For a driver that has nothing to publish.
    pub(super) fn decide_trivial(&mut self) -> Option<Step> {
        let (_, current) = self.work.as_ref()?;
        match trivial::decide(current) {
            None => self.end(AttemptEnd::Done),
            Some(patch) => {
                self.asked = Asked::Trivial;
                Some(Step::PatchStatus(Arc::clone(current), patch))
            }
        }
    }
}
