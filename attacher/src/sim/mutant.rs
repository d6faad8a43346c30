//! Faulty attachers. Each breaks one rule; a simulation that does not notice proves nothing.

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "each mutant differs in one point"
)]

use std::borrow::Cow;
use std::collections::BTreeMap;

use tonic::Code;

use super::run::Faults;
use crate::model::{Attachment, Text, Volume};
use crate::plan::View;
use crate::plan::attachment::{Answer, Step};
use crate::plan::status;
use crate::testing::{F, list};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mutant {
    /// The real thing.
    None,
    /// Removes the finalizer before the unpublish call.
    ReleasesFirst,
    /// Publishes before finalizer and node id are saved.
    PublishesFirst,
    /// Reports the volume attached before the publish call.
    MarksFirst,
    /// Takes NotFound from the driver for success.
    BelievesNotFound,
    /// Takes an expired deadline of an unpublish call for success.
    BelievesTimeout,
    /// Does not unpublish what is not reported attached.
    TrustsStatus,
    /// Removes the volume's finalizer while attachments refer to the volume.
    ReleasesVolumesInUse,
    /// Lets two attempts call for the same volume and node.
    CallsAtOnce,
    /// Does not retry.
    ForgetsRetries,
    /// Decides by the watch alone.
    ForgetsOwnWrites,
    /// Takes replayed events for news.
    BelievesOldEvents,
    /// Protects no volume.
    ForgetsVolumes,
    /// Takes a volume for unused while an attempt on an attachment of it runs.
    ForgetsAttempts,
    /// Does not unpublish what attachments that are gone have left.
    ForgetsOrphans,
    /// Unpublishes it whoever asks for volume and node by then.
    DetachesUnder,
    /// Keeps a note about attachments that are gone.
    RemembersWhatIsGone,
    /// Works before everything is listed.
    StartsEarly,
    /// Tries again without a pause.
    Spins,
    /// Detaches only from nodes that are there.
    NeedsNodes,
}

impl Mutant {
    /// Under which faults each must be caught, and by what.
    pub(super) const CAUGHT_BY: [(Self, Faults, &'static str); 19] = [
        (Self::ReleasesFirst, Faults::Crashes, "finalizer removed"),
        (Self::PublishesFirst, Faults::Crashes, "stays attached"),
        (Self::MarksFirst, Faults::Crashes, "reported attached"),
        (Self::BelievesNotFound, Faults::All, "finalizer removed"),
        (Self::BelievesTimeout, Faults::All, "finalizer removed"),
        (Self::TrustsStatus, Faults::Crashes, "does not go"),
        (
            Self::ReleasesVolumesInUse,
            Faults::Crashes,
            "volume finalizer removed",
        ),
        (Self::CallsAtOnce, Faults::Aliases, "at once"),
        (Self::ForgetsRetries, Faults::All, "does not"),
        (Self::ForgetsOwnWrites, Faults::None, "calls for"),
        (Self::BelievesOldEvents, Faults::Strips, "stays attached"),
        (Self::ForgetsVolumes, Faults::Crashes, "left behind"),
        (Self::ForgetsAttempts, Faults::Strips, "stays attached"),
        (Self::ForgetsOrphans, Faults::Strips, "stays attached"),
        (Self::DetachesUnder, Faults::Strips, "is detached under"),
        (Self::RemembersWhatIsGone, Faults::Crashes, "left behind"),
        (
            Self::StartsEarly,
            Faults::Crashes,
            "volume finalizer removed",
        ),
        (Self::Spins, Faults::Lasts, "without a pause"),
        (Self::NeedsNodes, Faults::Lasts, "left behind"),
    ];

    /// What a mutant takes the attachment for.
    pub(super) fn sees(self, attachment: &Attachment) -> Cow<'_, Attachment> {
        if self == Self::NeedsNodes && attachment.deleting {
            return Cow::Owned(Attachment {
                node_id: None,
                ..attachment.clone()
            });
        }
        let pretend = match self {
            Self::PublishesFirst => !attachment.deleting && !attachment.attached,
            Self::TrustsStatus => attachment.deleting && !attachment.attached,
            _ => false,
        };
        if !pretend {
            return Cow::Borrowed(attachment);
        }
        let finalizers = match self {
            Self::PublishesFirst => list(&[F]),
            _ => list(&[]),
        };
        Cow::Owned(Attachment {
            finalizers,
            node_id: Some(format!("id-{}", attachment.node).into()),
            ..attachment.clone()
        })
    }

    /// What a mutant takes the volume for.
    pub(super) fn sees_volume(self, volume: &Volume) -> Cow<'_, Volume> {
        match self {
            Self::ForgetsVolumes => Cow::Owned(Volume {
                finalizers: Some(list(&[F])),
                ..volume.clone()
            }),
            _ => Cow::Borrowed(volume),
        }
    }

    /// What a mutant makes of the decision.
    pub(super) fn decides(self, step: Step, view: &View<'_>) -> Step {
        match (self, step) {
            (Self::ReleasesFirst, Step::Unpublish(request, migrated)) => {
                match status::release(view.attachment, view.driver) {
                    Some(patch) => Step::Release(patch),
                    None => Step::Unpublish(request, migrated),
                }
            }
            (Self::MarksFirst, Step::Publish(request, migrated)) => {
                match view.attachment.attached {
                    false => {
                        Step::MarkAttached(status::attached(view.attachment, &BTreeMap::new()))
                    }
                    true => Step::Publish(request, migrated),
                }
            }
            (_, step) => step,
        }
    }

    /// What a mutant makes of an answer.
    pub(super) fn hears(self, step: &Step, answer: Answer) -> Answer {
        let believed = match self {
            Self::BelievesNotFound => Some(Code::NotFound),
            Self::BelievesTimeout => Some(Code::DeadlineExceeded),
            _ => None,
        };
        match (step, answer) {
            (Step::Unpublish(..), Answer::Failed(error)) if Some(error.code) == believed => {
                Answer::Unpublished
            }
            (_, answer) => answer,
        }
    }

    /// The key under which a mutant keeps calls apart.
    pub(super) fn flight(self, name: &Text, node: &Text) -> Text {
        match self {
            Self::CallsAtOnce => format!("{node}/{name}").into(),
            _ => node.clone(),
        }
    }
}
