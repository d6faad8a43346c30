//! The next step for a claim that needs a volume.
//!
//! The order of writes and calls below is what makes a crash at any point harmless, and the crash
//! simulation runs exactly this function.
//!
//! What the driver is asked is settled completely before the first CreateVolume ([`PinnedRequest`]), and
//! repeated word for word until the driver has given a final answer, be the claim gone or not. It is
//! in the provisioning [`journal`](super::journal) before the driver is asked, so that this holds
//! across processes, whatever becomes of claim, class, node or command line meanwhile.
//!
//! | file | contents |
//! |---|---|
//! | `step` | what comes next, and what is told |
//! | `prepare`, `place` | what the driver is to be asked |
//! | `fold` | what the answers mean |
//! | `namesake` | whose PersistentVolume there is |
//! | `ending` | what is written when the driver has answered |
//! | `failure` | what can go wrong, and what that means |

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

/// One attempt to give a claim its volume: what was learnt and done so far that the API objects do
/// not show.
pub struct Attempt {
    /// What the driver was asked before, and must be asked again.
    frozen: Option<Arc<PinnedRequest>>,
    /// A call with it ended without an answer before.
    doubted: bool,
    /// What an earlier process asked.
    inherited: Vec<Arc<PinnedRequest>>,
    /// The pinned request is an old, unsettled one. Whatever its result, today's request is tried next.
    recalled: bool,
    /// What else was asked before and may have made a volume.
    owed: Vec<Arc<PinnedRequest>>,
    /// The node that was asked last is gone, and nobody was told yet.
    left: Option<String>,
    /// The claim is gone, or has a volume.
    needless: bool,
    /// The claim was re-read from the API server during this attempt.
    owner_known: bool,
    /// The claim needs no volume any more: what is owed for it is repeated, one after the other.
    repaying: bool,
    /// A volume of an earlier attempt that is to be saved.
    unsaved: Option<Unsaved>,
    /// It was looked for in all PersistentVolumes, and none has it.
    sought: bool,
    loaded: Loaded,
    announced: bool,
    source_protected: bool,
    /// Whether the driver was asked by this attempt.
    called: bool,
    /// What the driver is to be asked is in the journal.
    intended: bool,
    /// Another node can be selected.
    unselected: bool,
    /// The ending's parts that are over.
    concluded: Concluded,
    made: Option<Volume>,
    reached: Reached,
}

/// What was read for the attempt; it is read anew in each.
#[derive(Default)]
struct Loaded {
    snapshot: Option<Box<Snapshot>>,
    content: Option<Box<Content>>,
    claim: Option<Box<Claim>>,
    volume: Option<Box<VolumeDetail>>,
    /// The PersistentVolume that has the name.
    namesake: Option<Box<VolumeDetail>>,
    /// With the name that was asked for.
    attributes: Option<(Text, Box<AttributesClass>)>,
    /// With the reference that was asked for.
    secrets: Option<(SecretRef, Secrets)>,
}

#[derive(Default)]
struct Concluded {
    announced: bool,
    released: bool,
    unselected: bool,
}

/// The furthest point of the attempt.
enum Reached {
    Start,
    /// The driver answered with a volume that nobody can use.
    Bad(Unusable),
    /// What is owed was asked again, and the driver has this volume. What comes next, unless there
    /// is a PersistentVolume of the name.
    Held(Identity, Box<Reached>),
    /// The same, and the driver has another volume of the name.
    Taken(RpcError),
    /// The request's volume has a PersistentVolume, or there is none.
    Repaid,
    /// The driver made the volume.
    Made,
    /// There is a PersistentVolume of the name.
    Named,
    /// The PersistentVolume is there.
    Saved,
    /// The driver's last word.
    Failed(Failure),
}

/// An attempt on something leaves its ordinary course.
enum Stop {
    /// This is to be done first.
    Step(Box<Step>),
    /// It cannot go on.
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
    /// A new attempt that goes on where an earlier one, or none, ended. `needed` says whether the
    /// claim still needs a volume: it is there, and none is bound to it.
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
            // One whose call has no answer holds up none of the others.
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

    /// Gives up the node for which a call had no answer, if it is gone and `claim` is not for it any more: nobody
    /// may ever answer there. What was asked is owed.
    pub fn leave(&mut self, claim: &Claim, places: &TopologyIndex) {
        let left = |asked: &mut Arc<PinnedRequest>| {
            let node = &*asked.node;
            !node.is_empty()
                && node != claim.selected_node()
                && *places.driver(node) == Entry::NoCsiNode
        };
        // What was owed has its turn wherever it is.
        if self.needless || self.recalled || self.unsaved.is_some() {
            return;
        }
        if let Some(asked) = self.frozen.take_if(left) {
            self.doubted = false;
            self.left = Some(asked.node.clone());
            self.owed.push(asked);
        }
    }

    /// Name of the PersistentVolume whose existence [`View::volume_exists`] tells.
    ///
    /// # Errors
    /// There can be none.
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

    /// What the driver was or is to be asked, as far as that is settled.
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
            // The claim may have lost the PersistentVolume that it had when this began.
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

    /// Everything up to the driver's answer.
    fn begin(&self, view: &View<'_>) -> Result<Step, Stop> {
        if let Some(frozen) = self.frozen.as_ref().filter(|_| self.doubted)
            && view.volume_leaves
        {
            // Asked now, the driver may make anew what is deleted at the moment.
            return Err(Failure::Leaving(frozen.name.clone()).into());
        }
        if view.volume_exists && (self.frozen.is_some() || self.concluded.unselected) {
            if self.unsaved.is_some() {
                // This process asked for it, and the answer was lost. Or it is another volume's.
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

    /// The Secret's values, if one is needed.
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
            // Cannot be: no volume is made without.
            return Step::Done(End::NotOurs);
        };
        let (name, blueprint) = (&prepared.name, &prepared.blueprint);
        match pv::object(blueprint, name, volume, &view.settings.identity) {
            Ok(object) => Step::Ask(save(&Unsaved {
                name: name.as_str().into(),
                object: Arc::new(object),
                identity: Identity::new(blueprint, name, volume),
            })),
            // Cannot be: the answer was accepted.
            Err(unusable) => Step::Fail(Failure::Unusable(unusable)),
        }
    }
}

/// An event on the claim.
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
