//! The next step for a claim that needs a volume.
//!
//! Separate from what executes the steps: the order of writes and calls below is what makes a crash
//! at any point harmless, and the crash simulation runs exactly this function.
//!
//! What the driver is asked is settled completely before the first CreateVolume ([`Prepared`]), and
//! repeated word for word until the driver has given a final answer, be the claim gone or not. While
//! there is none, the claim carries the record of it, so that this holds across processes. A record
//! is written by whoever may change the claim, so none is believed: after a restart everything but
//! the topology is worked out again and must come out the same.
//!
//! | file | contents |
//! |---|---|
//! | `prepare` | what the driver is to be asked |
//! | `ending` | what is written when the driver has answered |
//! | `failure` | what can go wrong, and what that means |

use std::sync::Arc;

use csi_proto::csi::{CreateVolumeRequest, CreateVolumeResponse, DeleteVolumeRequest, Volume};

use super::edit::Edit;
use super::memory::{self, Unsaved};
use super::outcome::{ApiError, Refusal, RpcError};
use super::pv::{self, Unusable};
use super::request::{self, NameError, Prepared, Secrets};
use super::settings::Protection;
use super::view::View;
use super::{Settings, doubt};
use crate::keys::{DOUBT_ANNOTATION, DOUBT_FINALIZER};
use crate::model::{AttributesClass, Claim, Content, SecretRef, Snapshot, Text, VolumeDetail};

mod ending;
mod failure;
mod prepare;

pub use failure::{Effect, Failure};

/// The one next thing to do, complete in every detail.
#[derive(Debug)]
pub enum Step {
    /// Event on the claim.
    Announce(Announcement),
    /// GET of a VolumeSnapshot: namespace and name.
    LoadSnapshot(Text, Text),
    /// GET of a VolumeSnapshotContent.
    LoadContent(Text),
    /// GET of the claim to be cloned: namespace and name.
    LoadSourceClaim(Text, Text),
    /// GET of the PersistentVolume to be cloned.
    LoadSourceVolume(Text),
    /// GET of a Secret.
    LoadSecret(SecretRef),
    /// GET of a VolumeAttributesClass.
    LoadAttributesClass(Text),
    /// GET and PUT of a data source: it gets a finalizer.
    ProtectSource(Edit),
    /// GET and PUT of the claim: it gets the record of this request.
    Guard(Edit, Arc<Prepared>),
    /// `CreateVolume`. From here on the request is repeated until there is an answer.
    Create(Arc<Prepared>, Box<CreateVolumeRequest>),
    /// `DeleteVolume` of a volume that nobody can use: up to five times at once, within the time
    /// limit of one call.
    Discard(Box<DeleteVolumeRequest>),
    /// POST of the PersistentVolume.
    Save(Unsaved),
    /// GET and PUT of the snapshot: it loses its finalizer. Its failure is only logged.
    ReleaseSource(Edit),
    /// GET and PUT of the claim: the doubt is settled, or another node is to be selected, or both;
    /// after a failure, after which.
    Settle(Edit, Option<Failure>),
    /// The attempt is over.
    Done(End),
    /// The attempt is over.
    Fail(Failure),
}

/// An event of type Normal on the claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Announcement {
    /// Reason `Provisioning`.
    Provisioning,
    /// Reason `Provisioning`, of the component `external-provisioner`: somebody else fills the volume.
    Populator,
    /// Reason `ProvisioningSucceeded`; the volume's name.
    Succeeded(String),
}

impl Announcement {
    /// Text of the event on `claim`.
    #[must_use]
    pub fn text(&self, claim: &Claim) -> String {
        match self {
            Self::Provisioning => format!(
                "External provisioner is provisioning volume for claim \"{}\"",
                claim.key()
            ),
            Self::Populator => {
                "Assuming an external populator will provision the volume".to_owned()
            }
            Self::Succeeded(name) => format!("Successfully provisioned volume {name}"),
        }
    }
}

/// How an attempt ended that did not fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Not ours, or not now. Silent.
    NotOurs,
    /// Node deployment: no node is selected, the provisioners have to settle whose the claim is.
    Contend,
    /// Ours, and nothing to be done: the class is another provisioner's, or somebody else fills the
    /// volume. Counts as failed in the metrics, as it always did.
    Stopped,
    /// There is a PersistentVolume already. Counts as failed in the metrics, as it always did.
    Exists,
    /// This attempt made the volume.
    Provisioned,
}

/// What came of a step.
pub enum Answer {
    /// Done: the event is on its way, the object is written or needed no change.
    Done,
    /// The API server refused, or did not answer.
    Refused(ApiError),
    /// The snapshot.
    Snapshot(Box<Snapshot>),
    /// The snapshot's content.
    Content(Box<Content>),
    /// The claim to be cloned.
    SourceClaim(Box<Claim>),
    /// The volume to be cloned.
    SourceVolume(Box<VolumeDetail>),
    /// The attributes class.
    AttributesClass(Box<AttributesClass>),
    /// The Secret.
    Secret(Secrets),
    /// The Secret has a value that is not UTF-8.
    SecretNotText,
    /// The driver's answer.
    Created(Box<CreateVolumeResponse>),
    /// The call failed.
    Failed(RpcError),
}

/// One attempt to give a claim its volume: what was learnt and done so far that the API objects do
/// not show.
pub struct Attempt {
    /// What the driver was asked before, and must be asked again.
    frozen: Option<Arc<Prepared>>,
    /// A volume of an earlier attempt that is to be saved.
    unsaved: Option<Unsaved>,
    loaded: Loaded,
    announced: bool,
    source_protected: bool,
    /// Whether the driver was asked by this attempt.
    called: bool,
    /// Whether the claim carries a record; `None` if this attempt has not changed that.
    guarded: Option<bool>,
    /// The write that an ending wants was refused.
    refused: Option<ApiError>,
    /// Another node can be selected.
    unselected: bool,
    /// The ending's parts that are over.
    concluded: Concluded,
    contends: bool,
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
    /// With the name that was asked for.
    attributes: Option<(Text, Box<AttributesClass>)>,
    /// With the reference that was asked for.
    secrets: Option<(SecretRef, Secrets)>,
}

#[derive(Default)]
struct Concluded {
    announced: bool,
    released: bool,
    settled: bool,
}

/// The furthest point of the attempt.
enum Reached {
    Start,
    /// The driver answered with a volume that nobody can use.
    Bad(Unusable),
    /// The driver made the volume.
    Made,
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
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Self {
        Self::Fail(failure)
    }
}

impl Attempt {
    /// A new attempt that goes on where an earlier one, or none, ended.
    #[must_use]
    pub fn new(start: memory::Start<Prepared>) -> Self {
        Self {
            frozen: start.doubt.map(|doubt| doubt.prepared),
            unsaved: start.unsaved,
            loaded: Loaded::default(),
            announced: false,
            source_protected: false,
            called: false,
            guarded: None,
            refused: None,
            unselected: false,
            concluded: Concluded::default(),
            contends: false,
            made: None,
            reached: Reached::Start,
        }
    }

    /// An attempt of a provisioner that competes for the claim with those of other nodes: goes as
    /// far as [`Step::Create`], which is not to be carried out but says what to ask the driver's
    /// capacity for.
    #[must_use]
    pub fn contending(start: memory::Start<Prepared>) -> Self {
        Self {
            contends: true,
            ..Self::new(start)
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
    pub fn prepared(&self) -> Option<&Arc<Prepared>> {
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
            Reached::Bad(unusable) => Step::Discard(Box::new(DeleteVolumeRequest {
                volume_id: unusable.discard().unwrap_or_default().to_owned(),
                secrets: { self.loaded.secrets.clone() }
                    .map(|(_, secrets)| secrets)
                    .unwrap_or_default(),
            })),
            Reached::Made => self.save(view),
            Reached::Saved => self.conclude(view, End::Provisioned),
            Reached::Failed(failure) => self.give_up(view, failure),
        }
    }

    /// Everything up to the driver's answer.
    fn begin(&self, view: &View<'_>) -> Result<Step, Stop> {
        if view.volume_exists && (self.is_doubtful(view) || self.concluded.settled) {
            return Ok(self.conclude(view, End::Exists));
        }
        if let Some(unsaved) = &self.unsaved {
            return Ok(Step::Save(unsaved.clone()));
        }
        let prepared = match &self.frozen {
            Some(frozen) => {
                self.announce(view)?;
                Arc::clone(frozen)
            }
            None => Arc::new(self.prepare(view)?),
        };
        if view.settings.protection == Protection::Always
            && let Some(step) = self.guard(view, &prepared)
        {
            return Ok(step);
        }
        let secrets = self.secrets(prepared.secret().as_ref())?;
        let request = prepared.request(secrets.clone());
        Ok(Step::Create(prepared, Box::new(request)))
    }

    /// Whether a volume may have been made for the claim before.
    fn is_doubtful(&self, view: &View<'_>) -> bool {
        let ours = view.claim.provisioner() == Some(&*view.driver.name);
        self.frozen.is_some() || (ours && view.claim.has_finalizer(DOUBT_FINALIZER))
    }

    fn announce(&self, view: &View<'_>) -> Result<(), Stop> {
        match self.announced || view.gone {
            true => Ok(()),
            false => Err(Stop::first(Step::Announce(Announcement::Provisioning))),
        }
    }

    /// The Secret's values, if one is needed.
    fn secrets(&self, reference: Option<&SecretRef>) -> Result<&Secrets, Stop> {
        static NONE: Secrets = Secrets::new();
        match (reference, &self.loaded.secrets) {
            (None, _) => Ok(&NONE),
            (Some(reference), Some((loaded, secrets))) if loaded == reference => Ok(secrets),
            (Some(reference), _) => Err(Stop::first(Step::LoadSecret(reference.clone()))),
        }
    }

    fn save(&self, view: &View<'_>) -> Step {
        let (Some(prepared), Some(volume)) = (&self.frozen, &self.made) else {
            // Cannot be: no volume is made without.
            return Step::Done(End::NotOurs);
        };
        let identity = &view.settings.identity;
        let name = &prepared.name;
        let object = pv::object(
            &prepared.blueprint,
            name,
            volume,
            &view.driver.name,
            identity,
        );
        Step::Save(Unsaved {
            name: name.as_str().into(),
            object: Arc::new(object),
        })
    }

    /// The step that records the request on the claim, unless that is done or cannot be.
    fn guard(&self, view: &View<'_>, prepared: &Arc<Prepared>) -> Option<Step> {
        if self.guarded == Some(true) || self.refused.is_some() || unguardable(view) {
            return None;
        }
        let record = doubt::write(&view.driver.name, prepared);
        let carried = view.claim.annotations.get(DOUBT_ANNOTATION);
        if self.guarded.is_none() && self.is_guarded(view) && carried == Some(&*record) {
            return None;
        }
        let edit = Edit::guard(view.claim, record);
        Some(Step::Guard(edit, Arc::clone(prepared)))
    }

    /// Whether the claim carries a record of a call in doubt.
    fn is_guarded(&self, view: &View<'_>) -> bool {
        let carries = || view.claim.has_finalizer(DOUBT_FINALIZER);
        !view.gone && self.guarded.unwrap_or_else(carries)
    }

    /// Takes in what came of `step`.
    ///
    /// # Errors
    /// The attempt ends: says why.
    pub fn fold(&mut self, step: &Step, answer: Answer) -> Result<(), Failure> {
        match (step, answer) {
            (Step::Announce(Announcement::Provisioning), _) => self.announced = true,
            (Step::Announce(_), _) => self.concluded.announced = true,
            (Step::ProtectSource(_), Answer::Done) => self.source_protected = true,
            (Step::ProtectSource(edit), Answer::Refused(error)) => {
                return self.unprotected(edit, error);
            }
            (Step::Guard(_, prepared), Answer::Done) => {
                self.guarded = Some(true);
                self.frozen = Some(Arc::clone(prepared));
            }
            (Step::Guard(..), Answer::Refused(error)) if !self.called => {
                return Err(Failure::Guard(error));
            }
            (Step::Guard(..), Answer::Refused(error)) => self.refused = Some(error),
            (Step::Create(prepared, _), answer) => self.answered(prepared, answer),
            (Step::Discard(_), answer) => self.discarded(answer),
            (Step::Save(_), Answer::Done) => self.reached = Reached::Saved,
            (Step::Save(_), Answer::Refused(error)) if error.refusal == Refusal::AlreadyExists => {
                self.reached = Reached::Saved;
            }
            (Step::Save(unsaved), Answer::Refused(error)) => {
                self.unsaved = Some(unsaved.clone());
                self.called = true;
                self.reached = Reached::Failed(Failure::Save(error));
            }
            (Step::ReleaseSource(_), _) => self.concluded.released = true,
            (Step::Settle(edit, failure), answer) => self.settled(edit, failure.as_ref(), answer),
            (step, answer) => return self.load(step, answer),
        }
        Ok(())
    }

    fn load(&mut self, step: &Step, answer: Answer) -> Result<(), Failure> {
        let loaded = &mut self.loaded;
        match (step, answer) {
            (_, Answer::Snapshot(snapshot)) => loaded.snapshot = Some(snapshot),
            (_, Answer::Content(content)) => loaded.content = Some(content),
            (_, Answer::SourceClaim(claim)) => loaded.claim = Some(claim),
            (_, Answer::SourceVolume(volume)) => loaded.volume = Some(volume),
            (Step::LoadAttributesClass(name), Answer::AttributesClass(class)) => {
                loaded.attributes = Some((name.clone(), class));
            }
            (Step::LoadSecret(reference), Answer::Secret(secrets)) => {
                loaded.secrets = Some((reference.clone(), secrets));
            }
            (Step::LoadSecret(reference), Answer::SecretNotText) => {
                return Err(Failure::SecretNotText(reference.clone()));
            }
            (step, Answer::Refused(error)) => return Err(not_loaded(step, error)),
            // No step gets an answer of another kind; the shell's types see to it.
            (
                _,
                Answer::Done
                | Answer::AttributesClass(_)
                | Answer::Secret(_)
                | Answer::SecretNotText
                | Answer::Created(_)
                | Answer::Failed(_),
            ) => {}
        }
        Ok(())
    }

    /// A snapshot may stay unprotected where the service account may not update it.
    fn unprotected(&mut self, edit: &Edit, error: ApiError) -> Result<(), Failure> {
        let (kind, tolerated) = match edit.kind {
            super::edit::Kind::Snapshot => ("snapshot", error.refusal == Refusal::Forbidden),
            super::edit::Kind::Claim => ("PVC", false),
        };
        if tolerated {
            self.source_protected = true;
            return Ok(());
        }
        let what = format!("{kind} {}/{}", edit.namespace, edit.name);
        Err(Failure::Protect(what, error))
    }

    fn answered(&mut self, prepared: &Arc<Prepared>, answer: Answer) {
        self.called = true;
        self.frozen = Some(Arc::clone(prepared));
        self.reached = match answer {
            Answer::Created(response) => match pv::accept(&prepared.blueprint, *response) {
                Ok(volume) => {
                    self.made = Some(volume);
                    Reached::Made
                }
                Err(unusable) if unusable.discard().is_some() => Reached::Bad(unusable),
                Err(unusable) => Reached::Failed(Failure::Unusable(unusable)),
            },
            Answer::Failed(error) => Reached::Failed(Failure::of_call(error, &prepared.node)),
            // No step gets an answer of another kind; the shell's types see to it.
            Answer::Done
            | Answer::Refused(_)
            | Answer::Snapshot(_)
            | Answer::Content(_)
            | Answer::SourceClaim(_)
            | Answer::SourceVolume(_)
            | Answer::AttributesClass(_)
            | Answer::Secret(_)
            | Answer::SecretNotText => return,
        };
    }

    fn discarded(&mut self, answer: Answer) {
        let Reached::Bad(unusable) = &self.reached else {
            return;
        };
        let unusable = unusable.clone();
        self.reached = Reached::Failed(match answer {
            Answer::Failed(error) => Failure::Orphan(unusable, error),
            Answer::Done
            | Answer::Refused(_)
            | Answer::Snapshot(_)
            | Answer::Content(_)
            | Answer::SourceClaim(_)
            | Answer::SourceVolume(_)
            | Answer::AttributesClass(_)
            | Answer::Secret(_)
            | Answer::SecretNotText
            | Answer::Created(_) => Failure::Unusable(unusable),
        });
    }
}

/// Whether no record can be put on the claim: it is gone, or is being deleted, and then the API
/// server takes no new finalizers.
fn unguardable(view: &View<'_>) -> bool {
    view.gone || view.claim.deleting
}

fn not_loaded(step: &Step, error: ApiError) -> Failure {
    let read = |what: String, error| Failure::Read(what, error);
    match step {
        Step::LoadSnapshot(namespace, name) => read(format!("snapshot {namespace}/{name}"), error),
        Step::LoadContent(name) => read(format!("snapshotcontent {name}"), error),
        Step::LoadSourceClaim(namespace, name) => read(format!("PVC {namespace}/{name}"), error),
        Step::LoadSourceVolume(name) => read(format!("PersistentVolume {name}"), error),
        Step::LoadSecret(reference) => Failure::Secret(reference.clone(), error),
        Step::LoadAttributesClass(name) => Failure::AttributesClass(name.clone(), error),
        // These are not loads.
        Step::Announce(_)
        | Step::ProtectSource(_)
        | Step::Guard(..)
        | Step::Create(..)
        | Step::Discard(_)
        | Step::Save(_)
        | Step::ReleaseSource(_)
        | Step::Settle(..)
        | Step::Done(_)
        | Step::Fail(_) => read("an object".to_owned(), error),
    }
}

#[cfg(test)]
mod tests;
