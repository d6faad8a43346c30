//! The next step for a claim that needs a volume.
//!
//! The order of writes and calls below makes a crash at any point harmless, and the crash simulation runs exactly this
//! function.
//!
//! The CreateVolume request is pinned as a whole before the first call ([`PinnedRequest`]), and repeated word for word
//! until the driver has given a final answer, whether the claim still exists or not. It is written to the provisioning
//! [`journal`](super::journal) before the driver gets it, so that this holds across processes, whatever happens to
//! claim, class, node or flags meanwhile.
//!
//! | file | contents |
//! |---|---|
//! | `step` | the steps of an attempt, its announcements and its end |
//! | `prepare`, `accessibility` | the CreateVolume request |
//! | `fold` | the effect of replies on the attempt |
//! | `existing_pv` | the claim that a PersistentVolume of the volume's name belongs to |
//! | `ending` | the writes after the driver's answer or a failure |
//! | `failure` | the possible failures and their consequences |

use std::sync::Arc;

use csi_proto::csi::{DeleteVolumeRequest, Volume};
use sidecar::controller;
use sidecar::controller::request::Body;

use super::Settings;
use super::identity::Identity;
use super::in_flight::{self, Unsaved};
use super::outcome::RpcError;
use super::pv::{self, Unusable};
use super::request::{
    self, Call, Discard, Event, NameError, Object, PinnedRequest, Purpose, Request, Secrets, Write,
};
use super::settings::Protection;
use super::topology::{Entry, TopologyIndex};
use super::view::View;
use crate::model::{AttributesClass, Claim, Content, SecretRef, Snapshot, Text, VolumeDetail};

mod accessibility;
mod ending;
mod existing_pv;
mod failure;
mod fold;
mod prepare;
mod step;

pub use failure::{Failure, ProvisioningState};
pub use step::{Announcement, ClaimReply, ClaimStep, End, Step};

/// One attempt to give a claim its volume: the progress and the replies so far, which the API objects do not show.
pub struct Attempt {
    /// The pinned request: sent before, and must be sent again.
    pinned: Option<Arc<PinnedRequest>>,
    /// An earlier call with it ended without an answer.
    outcome_unknown: bool,
    /// Requests that an earlier process sent.
    sent_earlier: Vec<Arc<PinnedRequest>>,
    /// The pinned request is an old, unsettled one. Whatever its result, today's request is tried next.
    was_unsettled: bool,
    /// Other unsettled requests: sent before, and may have made a volume.
    unsettled: Vec<Arc<PinnedRequest>>,
    /// The node of the last request, if it is gone and no event has announced that yet.
    left: Option<String>,
    /// The claim is gone, or has a volume.
    needless: bool,
    /// The claim was re-read from the API server during this attempt.
    owner_known: bool,
    /// The claim needs no volume any more: its unsettled requests are repeated, one after the other.
    settling: bool,
    /// A volume of an earlier attempt whose PersistentVolume is not saved yet.
    unsaved: Option<Unsaved>,
    /// All PersistentVolumes were searched, and none refers to the volume in `unsaved`.
    searched: bool,
    loaded: Loaded,
    announced: bool,
    source_protected: bool,
    /// Whether this attempt has called the driver.
    called: bool,
    /// The pinned request is in the journal.
    intended: bool,
    /// The selected node was removed from the claim, so that the scheduler can select another one.
    unselected: bool,
    /// The steps of the ending that are done.
    concluded: Concluded,
    made: Option<Volume>,
    reached: Reached,
}

/// Objects that were read for the attempt; each attempt reads them anew.
#[derive(Default)]
struct Loaded {
    snapshot: Option<Box<Snapshot>>,
    content: Option<Box<Content>>,
    claim: Option<Box<Claim>>,
    volume: Option<Box<VolumeDetail>>,
    /// The PersistentVolume with the volume's name.
    existing_pv: Option<Box<VolumeDetail>>,
    /// With the name under which it was read.
    attributes: Option<(Text, Box<AttributesClass>)>,
    /// With the reference by which it was read.
    secrets: Option<(SecretRef, Secrets)>,
}

#[derive(Default)]
struct Concluded {
    announced: bool,
    released: bool,
    /// Conflicts of the update that releases the snapshot.
    release_conflicts: u8,
    unselected: bool,
}

/// The last milestone of the attempt.
enum Reached {
    Start,
    /// The driver returned an unusable volume.
    Unusable(Unusable),
    /// An unsettled request was repeated, and the driver returned this volume. The second field is the next milestone,
    /// unless there is a PersistentVolume of the name.
    Returned(Identity, Box<Reached>),
    /// An unsettled request was repeated, and the driver has another volume of the name.
    NameInUse(RpcError),
    /// The volume of the unsettled request has a PersistentVolume, or no such volume exists.
    Settled,
    /// The driver returned the volume.
    Made,
    /// A PersistentVolume of the name exists.
    PvExists,
    /// The PersistentVolume is saved.
    Saved,
    /// The attempt failed.
    Failed(Failure),
}

/// Reason why a part of the attempt ends early.
enum Stop {
    /// This step has to be carried out first.
    Step(Box<Step>),
    /// The attempt fails.
    Fail(Failure),
}

impl Stop {
    fn first(step: Step) -> Self {
        Self::Step(Box::new(step))
    }

    fn read(object: Object) -> Self {
        Self::first(Step::Ask(Request::Get(object)))
    }
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Self {
        Self::Fail(failure)
    }
}

impl Attempt {
    /// A new attempt that continues where an earlier one, if any, ended. `needed` tells whether the claim still needs a
    /// volume: it exists, and no volume is bound to it.
    #[must_use]
    pub fn new(start: in_flight::Start<PinnedRequest>, needed: bool) -> Self {
        let (mut pinned, mut unsettled, mut sent_earlier) = (None, Vec::new(), Vec::new());
        let mut was_unsettled = false;
        if let Some(pending) = start.pending {
            (pinned, unsettled, sent_earlier) =
                (pending.pinned, pending.unsettled, pending.sent_earlier);
            was_unsettled = pending.was_unsettled;
        }
        let settling = !needed && !unsettled.is_empty();
        if settling && start.unsaved.is_none() {
            // A request whose call had no answer must not delay the others.
            unsettled.extend(pinned.take());
            pinned = Some(unsettled.remove(0));
        }
        Self {
            outcome_unknown: pinned.is_some(),
            pinned,
            sent_earlier,
            was_unsettled,
            unsettled,
            left: None,
            needless: !needed,
            owner_known: false,
            settling,
            unsaved: start.unsaved,
            searched: false,
            loaded: Loaded::default(),
            announced: false,
            source_protected: false,
            called: false,
            intended: false,
            unselected: false,
            concluded: Concluded::default(),
            made: None,
            reached: Reached::Start,
        }
    }

    /// Gives up the pinned request if its node is gone and `claim` is not for that node any more: the driver may never
    /// answer there. The request becomes an unsettled one.
    pub fn leave(&mut self, claim: &Claim, topology: &TopologyIndex) {
        let left = |asked: &mut Arc<PinnedRequest>| {
            let node = &*asked.node;
            !node.is_empty()
                && node != claim.selected_node()
                && *topology.driver(node) == Entry::NoCsiNode
        };
        // An old unsettled request is tried again wherever its node is.
        if self.needless || self.was_unsettled || self.unsaved.is_some() {
            return;
        }
        if let Some(asked) = self.pinned.take_if(left) {
            self.outcome_unknown = false;
            self.left = Some(asked.node.clone());
            self.unsettled.push(asked);
        }
    }

    /// Name of the PersistentVolume that [`View::volume_exists`] refers to.
    ///
    /// # Errors
    /// No volume name can be made.
    pub fn volume_name(&self, claim: &Claim, settings: &Settings) -> Result<String, NameError> {
        match &self.pinned {
            Some(pinned) => Ok(pinned.name.clone()),
            None => request::volume_name(settings, &claim.uid),
        }
    }

    /// The volume that this attempt made, as the driver described it.
    #[must_use]
    pub fn volume(&self) -> Option<&Volume> {
        self.made.as_ref()
    }

    /// The pinned request, as soon as it is settled.
    #[must_use]
    pub fn prepared(&self) -> Option<&Arc<PinnedRequest>> {
        self.pinned.as_ref()
    }

    /// The next step under `view`.
    #[must_use]
    pub fn decide(&self, view: &View<'_>) -> Step {
        match &self.reached {
            Reached::Start => match self.begin(view) {
                Ok(step) => step,
                Err(Stop::Step(step)) => *step,
                Err(Stop::Fail(failure)) => self.give_up(view, &failure),
            },
            Reached::Unusable(unusable) => match self.discard(view, unusable) {
                Ok(step) => step,
                Err(Stop::Step(step)) => *step,
                Err(Stop::Fail(failure)) => Step::Fail(failure),
            },
            // The claim may have lost the PersistentVolume that it had when the attempt began.
            Reached::Made => match self.look_at_owner(view) {
                Ok(()) => self.save(view),
                Err(Stop::Step(step)) => *step,
                Err(Stop::Fail(failure)) => self.give_up(view, &failure),
            },
            Reached::Returned(..) | Reached::NameInUse(_) => self.find_existing_pv(),
            Reached::Settled => Step::Done(End::Settled),
            Reached::PvExists => self.compare(),
            Reached::Saved => self.conclude(view, End::Provisioned),
            Reached::Failed(failure) => self.give_up(view, failure),
        }
    }

    /// The steps up to the driver's answer.
    fn begin(&self, view: &View<'_>) -> Result<Step, Stop> {
        if let Some(pinned) = self.pinned.as_ref().filter(|_| self.outcome_unknown)
            && view.volume_leaves
        {
            // Called now, the driver may recreate the volume that is being deleted.
            return Err(Failure::Leaving(pinned.name.clone()).into());
        }
        if view.volume_exists && (self.pinned.is_some() || self.concluded.unselected) {
            if self.unsaved.is_some() {
                // Either this process created the PersistentVolume and lost the answer, or it refers to another volume.
                return Ok(self.compare());
            }
            if !self.settling {
                self.check_existing_pv(view)?;
                let one_of_several = !self.unsettled.is_empty() || view.settings.node.is_some();
                return Ok(if self.outcome_unknown && one_of_several {
                    Step::Done(End::LeftUnsettled)
                } else {
                    self.conclude(view, End::Exists)
                });
            }
        }
        self.look_at_owner(view)?;
        if let Some(unsaved) = &self.unsaved {
            return Ok(if self.needless && !self.searched {
                self.compare()
            } else {
                Step::Ask(save(unsaved))
            });
        }
        let prepared = match &self.pinned {
            Some(pinned) => {
                self.announce(view)?;
                Arc::clone(pinned)
            }
            None => Arc::new(self.prepare(view)?),
        };
        let secrets = self.secrets(prepared.secret().as_ref())?;
        if view.settings.protection == Protection::Journal && !self.intended {
            let intent = self.intent(view.claim, &prepared);
            return Ok(Step::Claim(ClaimStep::Intend(prepared, intent)));
        }
        let request = prepared.request(secrets.clone());
        let call = controller::Call::about(request, prepared);
        Ok(Step::Ask(Request::Call(Call::Create(call))))
    }

    fn discard(&self, view: &View<'_>, unusable: &Unusable) -> Result<Step, Stop> {
        let reference = self.pinned.as_ref().and_then(|prepared| prepared.secret());
        let request = DeleteVolumeRequest {
            volume_id: unusable.discard().unwrap_or_default().to_owned(),
            secrets: self.secrets(reference.as_ref())?.clone(),
        };
        let intent = |asked| (Arc::clone(asked), self.intent(view.claim, asked));
        let about = Discard {
            intent: self.pinned.as_ref().map(intent),
            migrated: unusable.migrated(),
        };
        let call = controller::Call::about(request, about);
        Ok(Step::Ask(Request::Call(Call::Discard(call))))
    }

    fn announce(&self, view: &View<'_>) -> Result<(), Stop> {
        if view.gone || self.settling {
            return Ok(());
        }
        if let Some(node) = &self.left {
            let left = Announcement::Left(node.clone());
            return Err(Stop::first(announcement(view, left)));
        }
        if self.announced {
            Ok(())
        } else {
            Err(Stop::first(announcement(view, Announcement::Provisioning)))
        }
    }

    /// The Secret's values; empty if the request needs none.
    fn secrets(&self, reference: Option<&SecretRef>) -> Result<&Secrets, Stop> {
        static NONE: Secrets = Secrets::new();
        match (reference, &self.loaded.secrets) {
            (None, _) => Ok(&NONE),
            (Some(reference), Some((loaded, secrets))) if loaded == reference => Ok(secrets),
            (Some(reference), _) => {
                let request = Request::Secret(reference.clone());
                Err(Stop::first(Step::Ask(request)))
            }
        }
    }

    fn save(&self, view: &View<'_>) -> Step {
        let (Some(prepared), Some(volume)) = (&self.pinned, &self.made) else {
            // Unreachable: the driver makes no volume without a pinned request.
            return Step::Done(End::NotOurs);
        };
        let (name, pv_template) = (&prepared.name, &prepared.pv_template);
        match pv::object(pv_template, name, volume, &view.settings.identity) {
            Ok(object) => Step::Ask(save(&Unsaved {
                name: name.as_str().into(),
                object: Arc::new(object),
                identity: Identity::new(pv_template, name, volume),
            })),
            // Unreachable: the response was accepted.
            Err(unusable) => Step::Fail(Failure::Unusable(unusable)),
        }
    }
}

/// The step that sends an event on the claim.
fn announcement(view: &View<'_>, announcement: Announcement) -> Step {
    Step::Ask(Request::Event(Event {
        claim: Arc::new(view.claim.clone()),
        announcement,
    }))
}

/// POST of the PersistentVolume.
fn save(unsaved: &Unsaved) -> Request {
    Request::Write(Write {
        purpose: Purpose::Save(unsaved.clone()),
        object: Object::Volume(unsaved.name.clone()),
        uid: None,
        body: Body::Create((*unsaved.object).clone()),
    })
}

#[cfg(test)]
mod tests;
