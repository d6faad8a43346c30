//! Attempts on volumes: the finalizer goes once nothing needs the volume.

use sidecar::controller::reactor::Verdict;

use super::{Attacher, Failed, Informed};
use crate::model::Text;
use crate::plan::in_flight::Key;
use crate::plan::outcome::ApiError;
use crate::plan::request::{self, Purpose, Reply, Request};
use crate::plan::volume;

/// An attempt on a volume's finalizer.
pub struct Run {
    name: Text,
    failure: Option<ApiError>,
}

impl Run {
    pub(super) fn new(name: &Text) -> Self {
        Self {
            name: name.clone(),
            failure: None,
        }
    }

    pub(super) fn answered(&mut self, reply: Reply) {
        if let Reply::Write(_, Err(error)) = reply {
            self.failure = Some(error);
        }
    }

    pub(super) fn end(self) -> Verdict<Failed> {
        match self.failure {
            None => Verdict::Done,
            Some(error) => Verdict::Retry {
                failure: Failed::Volume(error),
                hung: false,
            },
        }
    }
}

impl Attacher {
    /// Removes the finalizer as often as it is there.
    pub(super) fn decide_volume(&mut self, run: &Run, informers: Informed<'_>) -> Option<Request> {
        if run.failure.is_some() {
            return None;
        }
        let volume = informers.volume(&run.name)?;
        let used = self.in_flight.uses(&run.name);
        let patch = volume::release(&volume, used, &informers.driver())?;
        let request = request::patch_volume(&run.name, Purpose::ReleaseVolume, patch);
        // The end of the patch that runs brings this back.
        let may = self
            .in_flight
            .may_send(&request, Key::Volume(run.name.clone()));
        may.then_some(request)
    }
}
