//! Attempts on volumes: the finalizer goes once nothing needs the volume.

use sidecar::controller::reactor::Verdict;

use super::{Attacher, Failed, Informed, Step, Wakes};
use crate::model::Text;
use crate::plan::attachment::Answer;
use crate::plan::in_flight::Key;
use crate::plan::outcome::ApiError;
use crate::plan::volume;

/// An attempt on a volume's finalizer.
pub struct Run {
    name: Text,
    over: bool,
    failure: Option<ApiError>,
}

impl Run {
    pub(super) fn new(name: &Text) -> Self {
        Self {
            name: name.clone(),
            over: false,
            failure: None,
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
    pub(super) fn decide_volume(&mut self, run: &mut Run, informers: Informed<'_>) -> Option<Step> {
        if run.over {
            return None;
        }
        let volume = informers.volume(&run.name)?;
        let used = self.in_flight.uses(&run.name);
        let patch = volume::release(&volume, used, &informers.driver())?;
        // The end of the patch that runs brings this back.
        let key = Key::Volume(run.name.clone());
        let alone = self.in_flight.patches.begin(&run.name, key);
        alone.then(|| Step::PatchVolume(run.name.clone(), patch))
    }

    pub(super) fn volume_answered(
        &mut self,
        run: &mut Run,
        answer: Answer,
        informers: Informed<'_>,
        due: &mut Wakes,
    ) {
        if let Answer::Refused(error) = answer {
            run.over = true;
            run.failure = Some(error);
        }
        let waiting = self.in_flight.patches.end(&run.name);
        self.wake_all(waiting, informers, due);
    }
}
