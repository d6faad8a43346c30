//! What came of reading an object that is in doubt, or of which the caches show nothing.

use super::{Attempt, Doubts, Problem};
use crate::plan::outcome::ApiError;

impl Attempt {
    /// What came of reading an object again.
    pub(super) fn read(
        &mut self,
        result: Result<(), ApiError>,
        settle: fn(&mut Doubts),
    ) -> Result<(), Problem> {
        let Err(error) = result else {
            settle(&mut self.doubts);
            return Ok(());
        };
        if error.is_not_found() {
            // Its end is on the way as an event.
            self.gone = true;
            settle(&mut self.doubts);
        } else {
            self.unreadable = Some(error);
        }
        Ok(())
    }

    /// Whether the claim is known from its volume alone, to the end.
    pub(in crate::plan) fn is_unread(&self) -> bool {
        self.unread
    }

    /// What the next attempt must read first.
    pub(in crate::plan) fn doubts(&self) -> Doubts {
        Doubts {
            claim: self.doubts.claim || self.stale.claim,
            volume: self.doubts.volume || self.stale.volume,
        }
    }
}
