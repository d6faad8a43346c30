//! Faulty attachers. Each breaks one rule, and the simulation must catch every one of them.
//!
//! They wrap the shipped controller and alter its inputs or its requests, wakes and memory.

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "each mutant differs in one point"
)]

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use sidecar::controller::CallError;
use tonic::Code;

use super::process::{Due, Informers, Process};
use super::run::Faults;
use super::server::not_found;
use crate::model::{Attachment, Text, Volume};
use crate::plan::flight::Target;
use crate::plan::in_flight::{InFlightState, Key};
use crate::plan::request::{self, Call, Called, Object, Purpose, Reply, Request};
use crate::plan::{Attacher, status};
use crate::testing::{F, list};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mutant {
    /// No fault.
    None,
    /// Removes the finalizer before the unpublish call.
    ReleasesFirst,
    /// Publishes before saving finalizer and node id.
    PublishesFirst,
    /// Reports the volume attached before the publish call.
    MarksFirst,
    /// Takes NotFound from the driver as success.
    BelievesNotFound,
    /// Takes an expired deadline of an unpublish call as success.
    BelievesTimeout,
    /// Does not unpublish a volume that is not reported attached.
    TrustsStatus,
    /// Removes the volume's finalizer while attachments refer to the volume.
    ReleasesVolumesInUse,
    /// Lets two attempts call for the same volume and node.
    CallsAtOnce,
    /// Does not retry.
    ForgetsRetries,
    /// Ignores the replies to its own writes and decides by the watch alone.
    ForgetsOwnWrites,
    /// Takes replayed events as new.
    BelievesOldEvents,
    /// Never adds the finalizer to volumes.
    ForgetsVolumes,
    /// Takes a volume as unused while an attempt on its attachment is running.
    ForgetsAttempts,
    /// Does not unpublish orphans.
    ForgetsOrphans,
    /// Unpublishes orphans even if another attachment requests volume and node.
    DetachesUnder,
    /// Keeps state about attachments that are gone.
    RemembersWhatIsGone,
    /// Starts attempts before all lists are complete.
    StartsEarly,
    /// Retries without back-off.
    Spins,
    /// Detaches only from nodes that still exist.
    NeedsNodes,
    /// Does not requeue keys that wait for the end of a call.
    EndsCallsUnheard,
    /// Does not requeue keys that wait for the end of a volume's patch.
    EndsPatchesUnheard,
    /// Does not requeue the volume when an attachment is gone.
    LeavesVolumesOfTheGone,
    /// Does not requeue the volume when an attempt ends.
    LeavesVolumesOfTheEnded,
    /// Does not requeue a volume that has changed.
    LeavesChangedVolumes,
    /// Does not requeue an attachment that has changed.
    LeavesChangedAttachments,
    /// Leaves the key in back-off although the volume appeared.
    AwaitsNoVolume,
    /// Leaves the key in back-off although the driver registered on the node.
    AwaitsNoNode,
    /// Registers the requeue trigger only after the failure was recorded.
    RecordsFirst,
    /// Keeps a call's guard after its end.
    HoldsCalls,
    /// Keeps a patch's guard after its end.
    HoldsPatches,
    /// Does not start over when the direction changed.
    IgnoresTurns,
    /// Keeps an attempt in the in-flight state after its end.
    NeverEnds,
    /// Does not requeue an orphan when another attachment no longer requests its volume and node.
    LeavesOrphansBeside,
    /// Takes a volume that the cache does not keep as missing.
    TakesUnknownForMissing,
    /// Ignores events about volumes that the cache does not keep.
    MissesUnkeptVolumes,
}

impl Mutant {
    /// The faults under which each must be caught, and the violation that catches it.
    pub(super) const CAUGHT_BY: [(Self, Faults, &'static str); 35] = [
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
        (Self::StartsEarly, Faults::Crashes, "left behind"),
        (Self::Spins, Faults::Lasts, "does not end"),
        (Self::NeedsNodes, Faults::Lasts, "does not go"),
        (Self::EndsCallsUnheard, Faults::Aliases, "left behind"),
        (Self::EndsPatchesUnheard, Faults::None, "does not"),
        (Self::TakesUnknownForMissing, Faults::None, "waits for its"),
        (Self::MissesUnkeptVolumes, Faults::None, "waits for its"),
        (Self::LeavesVolumesOfTheGone, Faults::None, "left behind"),
        (Self::LeavesVolumesOfTheEnded, Faults::None, "does not go"),
        (Self::LeavesChangedVolumes, Faults::None, "left behind"),
        (Self::LeavesChangedAttachments, Faults::None, "does not"),
        (Self::AwaitsNoVolume, Faults::None, "waits for its back-off"),
        (Self::AwaitsNoNode, Faults::None, "waits for its back-off"),
        (Self::RecordsFirst, Faults::None, "waits for its back-off"),
        (Self::HoldsCalls, Faults::None, "left behind"),
        (Self::HoldsPatches, Faults::None, "left behind"),
        (Self::IgnoresTurns, Faults::None, "does not go"),
        (Self::NeverEnds, Faults::None, "left behind"),
        (Self::LeavesOrphansBeside, Faults::Strips, "left behind"),
    ];

    /// The attachment as the mutant sees it.
    pub(super) fn sees(self, attachment: &Arc<Attachment>) -> Arc<Attachment> {
        if self == Self::NeedsNodes && attachment.deleting {
            return Arc::new(Attachment {
                node_id: None,
                ..(**attachment).clone()
            });
        }
        let finalizers = match self {
            Self::PublishesFirst if !attachment.deleting && !attachment.attached => list(&[F]),
            Self::TrustsStatus if attachment.deleting && !attachment.attached => list(&[]),
            _ => return Arc::clone(attachment),
        };
        Arc::new(Attachment {
            finalizers,
            node_id: Some(format!("id-{}", attachment.node).into()),
            ..(**attachment).clone()
        })
    }

    /// The volume as the mutant sees it.
    pub(super) fn sees_volume(self, volume: &Arc<Volume>) -> Arc<Volume> {
        match self {
            Self::ForgetsVolumes => Arc::new(Volume {
                finalizers: Some(list(&[F])),
                ..(**volume).clone()
            }),
            _ => Arc::clone(volume),
        }
    }

    /// Decides on `key` with the state that the mutant hides left out.
    pub(super) fn deciding(
        self,
        key: &Key,
        attacher: &mut Attacher,
        informers: &mut Informers,
        decide: impl FnOnce(&mut Attacher, &Informers) -> Option<Request>,
    ) -> Option<Request> {
        match (self, key) {
            (Self::ForgetsAttempts, Key::Volume(_)) => {
                let mut hidden = Default::default();
                swap_attempts(&mut attacher.in_flight, &mut hidden);
                let request = decide(attacher, informers);
                swap_attempts(&mut attacher.in_flight, &mut hidden);
                request
            }
            (Self::ReleasesVolumesInUse, Key::Volume(_)) => {
                let named = std::mem::take(&mut attacher.in_flight.named);
                let request = Self::ForgetsAttempts.deciding(key, attacher, informers, decide);
                attacher.in_flight.named = named;
                request
            }
            (Self::DetachesUnder, Key::Orphan(_)) => {
                informers.blind = true;
                let request = decide(attacher, informers);
                informers.blind = false;
                request
            }
            _ => decide(attacher, informers),
        }
    }

    /// The mutant's version of the request.
    pub(super) fn decides(self, request: Request, key: &Key, process: &mut Process) -> Request {
        if let (Self::CallsAtOnce, Request::Call(call)) = (self, &request) {
            drop(process.attempts.reactor.in_flight.calls.end(&call.target()));
        }
        let records = matches!(&request, Request::Write(write) if write.purpose == Purpose::Record);
        if self == Self::RecordsFirst && records {
            let triggers = process.attempts.reactor.in_flight.waits.forget(key);
            process.kept.insert(key.clone(), triggers);
        }
        let Key::Attachment(name) = key else {
            return request;
        };
        let known = process.informers.attachments.get(name);
        let instead = match (self, &request, known) {
            (Self::ReleasesFirst, Request::Call(Call::Unpublish(_)), Some(known)) => {
                let patch = status::release(known, &process.informers.driver);
                patch.map(|patch| request::patch(known, Purpose::Release, patch))
            }
            (Self::MarksFirst, Request::Call(Call::Publish(_)), Some(known)) if !known.attached => {
                let patch = status::attached(known, &BTreeMap::new());
                Some(request::patch(known, Purpose::MarkAttached, patch))
            }
            _ => None,
        };
        instead.map_or(request, Request::Write)
    }

    /// The mutant's version of the reply.
    pub(super) fn hears(self, reply: Reply) -> Reply {
        let believed = match self {
            Self::BelievesNotFound => Some(Code::NotFound),
            Self::BelievesTimeout => Some(Code::DeadlineExceeded),
            _ => None,
        };
        match reply {
            Reply::Call(Called::Unpublish(call, Err(CallError::Failed(error))), took)
                if Some(error.code) == believed =>
            {
                Reply::Call(Called::Unpublish(call, Ok(Default::default())), took)
            }
            Reply::Get(volume @ Object::Volume(_), _) if self == Self::TakesUnknownForMissing => {
                Reply::Get(volume, Err(not_found()))
            }
            reply => reply,
        }
    }

    /// The mutant's follow-up work after an event; `gone` is the attachment that it ends.
    pub(super) fn observes(self, event: Observed, due: Due, attacher: &mut Attacher) -> Due {
        match (self, event) {
            (Self::RemembersWhatIsGone, Observed::Gone(name)) => {
                attacher.in_flight.force(name);
                due
            }
            (Self::ForgetsOrphans, _) => forget_orphans(due, attacher),
            (Self::LeavesVolumesOfTheGone, Observed::Gone(_))
            | (Self::LeavesChangedVolumes, Observed::Volume) => {
                without(due, |key| matches!(key, Key::Volume(_)))
            }
            (Self::LeavesChangedAttachments, Observed::Attachment)
            | (Self::AwaitsNoVolume, Observed::Volume)
            | (Self::AwaitsNoNode, Observed::Node) => {
                without(due, |key| matches!(key, Key::Attachment(_)))
            }
            (Self::LeavesOrphansBeside, Observed::Attachment | Observed::Gone(_)) => {
                let fresh: Vec<Key> = { due.notices.iter() }
                    .filter_map(|notice| match notice {
                        crate::plan::reactor::Notice::Orphaned(orphan) => {
                            Some(Key::Orphan(orphan.target.clone()))
                        }
                        _ => None,
                    })
                    .collect();
                without(due, |key| {
                    matches!(key, Key::Orphan(_)) && !fresh.contains(key)
                })
            }
            _ => due,
        }
    }

    /// The mutant's follow-up work after a reply.
    pub(super) fn answers(self, due: Due, told: &Told, key: &Key, process: &mut Process) -> Due {
        let in_flight = &mut process.attempts.reactor.in_flight;
        for trigger in process.kept.remove(key).into_iter().flatten() {
            in_flight.waits.wait(key, trigger);
        }
        match (self, told) {
            (Self::EndsCallsUnheard, Told::Call(_))
            | (Self::EndsPatchesUnheard, Told::Volume(_)) => {
                return without(due, |_| true);
            }
            (Self::HoldsPatches, Told::Volume(name)) => {
                let _held = in_flight.patches.begin(name, key.clone());
            }
            (Self::HoldsCalls, Told::Call(target)) => {
                let _held = in_flight.calls.begin(target, key.clone());
            }
            _ => {}
        }
        due
    }

    /// The mutant's follow-up work after an attempt.
    pub(super) fn ends(self, due: Due, key: &Key, attacher: &mut Attacher) -> Due {
        match (self, key) {
            (Self::ForgetsOrphans, _) => forget_orphans(due, attacher),
            (Self::LeavesVolumesOfTheEnded, _) => without(due, |key| matches!(key, Key::Volume(_))),
            (Self::IgnoresTurns, _) => without(due, |key| matches!(key, Key::Attachment(_))),
            (Self::NeverEnds, Key::Attachment(name)) => {
                let volume = Text::from(name.split('-').nth(1).unwrap_or_default());
                attacher.in_flight.works_on(name, Some(&volume));
                due
            }
            _ => due,
        }
    }
}

/// The object of an event.
#[derive(Clone, Debug)]
pub(super) enum Observed {
    Attachment,
    Gone(Text),
    Volume,
    Node,
}

/// The kind of request that was answered.
pub(super) enum Told {
    Call(Target),
    Volume(Text),
    Other,
}

impl Told {
    pub(super) fn of(reply: &Reply) -> Self {
        match reply {
            Reply::Call(called, _) => Self::Call(called.target()),
            Reply::Write(write, _) => match &write.object {
                Object::Volume(name) => Self::Volume(name.clone()),
                Object::Attachment(_) => Self::Other,
            },
            _ => Self::Other,
        }
    }
}

fn without(due: Due, drop: impl Fn(&Key) -> bool) -> Due {
    let wakes = due.wakes.into_iter().filter(|wake| !drop(&wake.key));
    Due {
        wakes: wakes.collect(),
        notices: due.notices,
    }
}

fn forget_orphans(due: Due, attacher: &mut Attacher) -> Due {
    for wake in &due.wakes {
        if let Key::Orphan(target) = &wake.key {
            attacher.in_flight.settled(target);
        }
    }
    without(due, |key| matches!(key, Key::Orphan(_)))
}

/// Hides the state of attempts, or restores it.
fn swap_attempts(in_flight: &mut InFlightState, hidden: &mut [HashMap<Text, Option<Text>>; 2]) {
    let [working, doubtful] = hidden;
    std::mem::swap(&mut in_flight.working, working);
    std::mem::swap(&mut in_flight.doubtful, doubtful);
}
