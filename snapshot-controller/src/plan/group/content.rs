//! The next step for a VolumeGroupSnapshotContent: it is protected once it is bound, and nothing else.

use sidecar::snapshot::GROUP_CONTENT_BOUND;

use super::fail;
use crate::model::{ContentSource, GroupContent};
use crate::plan::complaint::Complaint;
use crate::plan::snapshot::finalizers;
use crate::plan::step::Step;
use crate::plan::view::{Next, Purpose};

/// The next step for `content`, the newest that is known of it.
#[must_use]
pub fn decide(content: &GroupContent) -> Next {
    if content.source == ContentSource::Unclear {
        return fail(Complaint::event(
            "GroupContentValidationError",
            "Exactly one of GroupSnapshotHandles and VolumeHandles should be specified",
        ));
    }
    if content.group.uid.is_empty() || content.deleting || content.is_protected() {
        return Next::Done;
    }
    let held = content.finalizers.iter().map(|held| &**held);
    let patch = finalizers(&content.version, held.chain([GROUP_CONTENT_BOUND]));
    Next::Ask(
        Step::Patch(content.object(), patch),
        Purpose::ContentFinalizer,
    )
}
