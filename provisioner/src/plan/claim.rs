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
//! | `prepare`, `place` | the CreateVolume request |
//! | `fold` | the effect of replies on the attempt |
//! | `namesake` | the claim that a PersistentVolume of the volume's name belongs to |
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

mod ending;
mod failure;
mod fold;
mod namesake;
mod place;
mod prepare;
mod step;

pub use failure::{Failure, ProvisioningState};
pub use step::{Announcement, ClaimReply, ClaimStep, End, Step};

/// One attempt to give a claim its volume: the progress and the replies so far, which the API objects do not show.
pub struct Attempt {
    /// The pinned request: sent before, and must be sent again.
    frozen: Option<Arc<PinnedRequest>>,
    /// An earlier call with it ended without an answer.
    doubted: bool,
    /// Requests that an earlier process sent.
    inherited: Vec<Arc<PinnedRequest>>,
    /// The pinned request is an old, unsettled one. Whatever its result, today's request is tried next.
    recalled: bool,
    /// Other unsettled requests: sent before, and may have made a volume.
    owed: Vec<Arc<PinnedRequest>>,
    /// The node of the last request, if it is gone and no event has announced that yet.
    left: Option<String>,
    /// The claim is gone, or has a volume.
    needless: bool,
    /// The claim was re-read from the API server during this attempt.
    owner_known: bool,
    /// The claim needs no volume any more: its unsettled requests are repeated, one after the other.
    repaying: bool,
    /// A volume of an earlier attempt whose PersistentVolume is not saved yet.
    unsaved: Option<Unsaved>,
    /// All PersistentVolumes were searched, and none refers to the volume in `unsaved`.
    sought: bool,
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
    namesake: Option<Box<VolumeDetail>>,
    /// With the name under which it was read.
    attributes: Option<(Text, Box<AttributesClass>)>,
    /// With the reference by which it was read.
    secrets: Option<(SecretRef, Secrets)>,
}

#[derive(Default)]
struct Concluded {
    announced: bool,
    released: bool,
    unselected: bool,
}

/// The last milestone of the attempt.
enum Reached {
    Start,
    /// The driver returned an unusable volume.
    Bad(Unusable),
    /// An unsettled request was repeated, and the driver returned this volume. The second field is the next milestone,
    /// unless there is a PersistentVolume of the name.
    Held(Identity, Box<Reached>),
    /// An unsettled request was repeated, and the driver has another volume of the name.
    Taken(RpcError),
    /// The volume of the unsettled request has a PersistentVolume, or no such volume exists.
    Repaid,
    /// The driver returned the volume.
    Made,
    /// A PersistentVolume of the name exists.
    Named,
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
        let (mut frozen, mut owed, mut inherited) = (None, Vec::new(), Vec::new());
        let mut recalled = false;
        if let Some(doubt) = start.doubt {
            (frozen, owed, inherited) = (doubt.pinned, doubt.owed, doubt.inherited);
            recalled = doubt.recalled;
        }
        let repaying = !needed && !owed.is_empty();
        if repaying && start.unsaved.is_none() {
            // A request whose call had no answer must not delay the others.
            owed.extend(frozen.take());
            frozen = Some(owed.remove(0));
        }
        Self {
            doubted: frozen.is_some(),
            frozen,
            inherited,
            recalled,
            owed,
            left: None,
            needless: !needed,
            owner_known: false,
            repaying,
            unsaved: start.unsaved,
            sought: false,
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
    pub fn leave(&mut self, claim: &Claim, places: &TopologyIndex) {
        let left = |asked: &mut Arc<PinnedRequest>| {
            let node = &*asked.node;
            !node.is_empty()
                && node != claim.selected_node()
                && *places.driver(node) == Entry::NoCsiNode
        };
        // An old unsettled request is tried again wherever its node is.
        if self.needless || self.recalled || self.unsaved.is_some() {
            return;
        }
        if let Some(asked) = self.frozen.take_if(left) {
            self.doubted = false;
            self.left = Some(asked.node.clone());
            self.owed.push(asked);
        }
    }

    /// Name of the PersistentVolume that [`View::volume_exists`] refers to.
    ///
    /// # Errors
    /// No volume name can be made.
    pub fn volume_name(&self, claim: &Claim, settings: &Settings) -> Result<String, NameError> {
        match &self.frozen {
            Some(frozen) => Ok(frozen.name.clone()),
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
        self.frozen.as_ref()
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
            Reached::Bad(unusable) => match self.discard(view, unusable) {
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
            Reached::Held(..) | Reached::Taken(_) => self.look_for_namesake(),
            Reached::Repaid => Step::Done(End::Repaid),
            Reached::Named => self.compare(),
            Reached::Saved => self.conclude(view, End::Provisioned),
            Reached::Failed(failure) => self.give_up(view, failure),
        }
    }

    /// The steps up to the driver's answer.
    fn begin(&self, view: &View<'_>) -> Result<Step, Stop> {
        if let Some(frozen) = self.frozen.as_ref().filter(|_| self.doubted)
            && view.volume_leaves
        {
            // Called now, the driver may recreate the volume that is being deleted.
            return Err(Failure::Leaving(frozen.name.clone()).into());
        }
        if view.volume_exists && (self.frozen.is_some() || self.concluded.unselected) {
            if self.unsaved.is_some() {
                // Either this process created the PersistentVolume and lost the answer, or it refers to another volume.
                return Ok(self.compare());
            }
            if !self.repaying {
                self.look_at_namesake(view)?;
                let one_of_several = !self.owed.is_empty() || view.settings.node.is_some();
                return Ok(if self.doubted && one_of_several {
                    Step::Done(End::Owing)
                } else {
                    self.conclude(view, End::Exists)
                });
            }
        }
        self.look_at_owner(view)?;
        if let Some(unsaved) = &self.unsaved {
            return Ok(if self.needless && !self.sought {
                self.compare()
            } else {
                Step::Ask(save(unsaved))
            });
        }
        let prepared = match &self.frozen {
            Some(frozen) => {
                self.announce(view)?;
                Arc::clone(frozen)
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
        let reference = self.frozen.as_ref().and_then(|prepared| prepared.secret());
        let request = DeleteVolumeRequest {
            volume_id: unusable.discard().unwrap_or_default().to_owned(),
            secrets: self.secrets(reference.as_ref())?.clone(),
        };
        let intent = |asked| (Arc::clone(asked), self.intent(view.claim, asked));
        let about = Discard {
            intent: self.frozen.as_ref().map(intent),
            migrated: unusable.migrated(),
        };
        let call = controller::Call::about(request, about);
        Ok(Step::Ask(Request::Call(Call::Discard(call))))
    }

    fn announce(&self, view: &View<'_>) -> Result<(), Stop> {
        if view.gone || self.repaying {
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
        let (Some(prepared), Some(volume)) = (&self.frozen, &self.made) else {
            // Unreachable: the driver makes no volume without a pinned request.
            return Step::Done(End::NotOurs);
        };
        let (name, blueprint) = (&prepared.name, &prepared.blueprint);
        match pv::object(blueprint, name, volume, &view.settings.identity) {
            Ok(object) => Step::Ask(save(&Unsaved {
                name: name.as_str().into(),
                object: Arc::new(object),
                identity: Identity::new(blueprint, name, volume),
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
