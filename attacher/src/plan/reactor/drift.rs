//! The comparison with the driver's list: contradicted attachments are requeued.

use super::{Attacher, Informed, Notice, Wakes};
use crate::plan::drift::{Expected, Listing, expected};
use crate::plan::in_flight::Key;

impl Attacher {
    /// Begins a comparison and returns the entries to look for. The caller must call
    /// [`compared`](Self::compared), even if it cannot get the list.
    pub fn compare(&mut self, informers: Informed<'_>) -> (Vec<Expected>, Wakes) {
        self.in_flight.begin_comparison();
        let (driver, mut due) = (informers.driver(), Wakes::default());
        let mut all = Vec::new();
        for attachment in informers.attachments() {
            if *attachment.attacher != *driver.name {
                continue;
            }
            match informers.with_view(&attachment, expected) {
                Ok(expected) => all.push(expected),
                Err(failure) => {
                    let name = attachment.name.clone();
                    due.notices.push(Notice::Incomparable(name, failure));
                }
            }
        }
        (all, due)
    }

    /// Ends a comparison. Requeues contradicted attachments; `None` if the list could not be read.
    pub fn compared(
        &mut self,
        expected: &[Expected],
        listing: Option<&Listing>,
        informers: Informed<'_>,
    ) -> Wakes {
        let (touched, mut due) = (self.in_flight.end_comparison(), Wakes::default());
        let Some(listing) = listing else {
            return due;
        };
        for entry in expected {
            // Attachments worked on meanwhile may have changed in the API or at the driver.
            if touched.contains(&entry.name) || !listing.contradicts(entry) {
                continue;
            }
            due.notices.push(Notice::Contradicted(entry.clone()));
            self.in_flight.force(entry.name.clone());
            self.wake(Key::Attachment(entry.name.clone()), informers, &mut due);
        }
        due
    }
}
