//! The provisioner as one object: its state, the effect of changes, and its attempts.
//!
//! The in-flight state and the journal are updated in the same turn in which an attempt ends, so that no change comes
//! between the two. The crash simulation drives this object and no other.
//!
//! | file | contents |
//! |---|---|
//! | `ask` | requests and steps for claims as requests of the engine |
//! | `event` | the effect of changes: which keys they requeue |
//! | `claim` | attempts for claims |
//! | `ownership` | node deployment: claims that no process has taken yet |
//! | `volume` | attempts on PersistentVolumes |
//! | `source` | finalizers of data sources |
//! | `journal` | the reactor's entries in the provisioning journal |
//! | `notice` | log lines, events and metrics |
//! | `why` | what `--why-endpoint` says about one object |

use std::sync::Arc;
use std::time::{Duration, Instant};

use sidecar::controller::reactor::{Due, Now, Reactor, Verdict, Wake};
use sidecar::queue::Place;
use sidecar::trace::{Goal, Over, Subject};

use super::attached::Attached;
use super::claim::{ClaimReply, ClaimStep};
use super::in_flight::{ClaimKey, InFlightState};
use super::informers::Informers;
use super::journal::Journal;
use super::ownership::{OwnershipRaces, Pace};
use super::request::{self, PinnedRequest, Request};
use super::select::is_ours;
use super::topology::TopologyIndex;
use super::{Driver, Settings, delete, fairness};
use crate::model::{Attachment, Claim, Class, CsiNode, Grant, Node, Pairs, Text, Volume};

mod ask;
mod claim;
mod event;
mod journal;
mod notice;
mod ownership;
mod source;
mod volume;
mod why;

pub use notice::{Failed, Notice, UnsettledRequest};

/// The queue of claims.
pub const CLAIMS: usize = 0;
/// The queue of PersistentVolumes.
pub const VOLUMES: usize = 1;
/// The queue of claims that were cloned and are being deleted.
pub const SOURCES: usize = 2;

/// A queue key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Key {
    /// A claim that may need a volume.
    Claim(ClaimKey),
    /// The PersistentVolume of this name.
    Volume(Text),
    /// The claim of this `namespace/name`, which was cloned and is being deleted.
    Source(Text),
}

/// An event of the informers. `old` is the cached record before.
#[derive(Debug)]
pub enum Change<'a> {
    /// A claim is new or has changed.
    Claim {
        /// The cached record before.
        old: Option<&'a Claim>,
        /// The record now.
        new: &'a Claim,
        /// Whether the record comes from the reply to a write of this process; the attempt that wrote it handles it.
        own: bool,
    },
    /// A claim is gone, or nothing can be due for it any more.
    ClaimGone(&'a Claim),
    /// The claim has not changed; its resync is due.
    ClaimResync(&'a Claim),
    /// The PersistentVolume of this name is new or has changed.
    Volume {
        /// Name of the PersistentVolume.
        name: Text,
        /// The cached record before.
        old: Option<&'a Volume>,
        /// The record now.
        new: &'a Volume,
        /// As in `Claim`.
        own: bool,
    },
    /// The PersistentVolume of this name is gone.
    VolumeGone(&'a str),
    /// The PersistentVolume of this name has not changed; its resync is due.
    VolumeResync(Text, &'a Volume),
    /// A StorageClass is new or has changed.
    Class(&'a Class),
    /// A VolumeAttachment is new or has changed.
    Attachment {
        /// The cached record before.
        old: Option<&'a Attachment>,
        /// The record now.
        new: &'a Attachment,
    },
    /// A VolumeAttachment is gone.
    AttachmentGone(&'a Attachment),
    /// VolumeAttachments are listed again after their watch had ended.
    AttachmentsKnown,
    /// The Node of this name changed.
    Node {
        /// Name of the Node.
        name: Text,
        /// The cached record before.
        old: Option<&'a Node>,
        /// The record now; `None` if it is gone.
        new: Option<&'a Node>,
    },
    /// The CSINode of this name changed; `None` if it is gone.
    CsiNode(Text, Option<&'a CsiNode>),
    /// A ReferenceGrant is new or has changed.
    Grant(&'a Grant),
    /// The VolumeAttributesClass of this name, which claims have waited for, exists.
    AttributesClass(Text),
    /// The driver can be called again, as if the process had just started.
    DriverBack,
}

/// The next step of an attempt.
pub enum Step {
    /// A request.
    Ask(Request),
    /// A step of more than one request, for a claim.
    Claim(ClaimStep),
}

/// The reply to a [`Step`].
pub enum Reply {
    /// To a request.
    Ask(request::Reply),
    /// To a step of more than one request.
    Claim(ClaimReply),
}

/// An attempt on a key.
pub enum Attempt {
    /// On a claim.
    Claim(claim::Run),
    /// On a PersistentVolume; `None` if it does not exist, or this process has removed it.
    Volume(Option<delete::Attempt>),
    /// On a claim that was cloned.
    Source(source::Run),
}

/// Parameters of a new provisioner.
#[derive(Debug)]
pub struct Setup {
    /// Flags and environment that decisions depend on.
    pub settings: Settings,
    /// How long a request that the driver called infeasible is not repeated.
    pub retention: Duration,
    /// The topology of the cluster, as far as it is known from the start.
    pub topology: TopologyIndex,
    /// Node deployment: the topology of this process's node, if the driver reported one.
    pub node: Option<Pairs>,
    /// Node deployment: the delays before a claim is taken.
    pub pace: Pace,
    /// Seed of the random delays, which keep the processes of all nodes from acting at once.
    pub seed: u64,
}

type Informed<'a> = &'a (dyn Informers + 'static);
type Wakes = Due<Key, Notice>;

/// The provisioner.
#[derive(Clone)]
pub struct Provisioner {
    settings: Settings,
    in_flight: InFlightState<PinnedRequest>,
    /// Shared with the copies on which previews decide. None of them exists while a node changes, so that a change
    /// copies nothing.
    topology: Arc<TopologyIndex>,
    pub(super) attached: Attached,
    ownership_races: OwnershipRaces,
    pub(super) node: Option<Pairs>,
    pace: Pace,
    seed: u64,
    /// The provisioning journal, if there is one.
    journal: Option<Journal>,
    /// The requests of earlier processes are known: everything was listed, and the journal is open.
    recovered: bool,
}

impl Provisioner {
    /// A provisioner with empty state.
    #[must_use]
    pub fn new(setup: Setup, journal: Option<Journal>) -> Self {
        Self {
            settings: setup.settings,
            in_flight: InFlightState::new(setup.retention),
            topology: Arc::new(setup.topology),
            attached: Attached::default(),
            ownership_races: OwnershipRaces::default(),
            node: setup.node,
            pace: setup.pace,
            seed: setup.seed,
            journal,
            recovered: false,
        }
    }

    /// The in-flight state.
    #[must_use]
    pub fn in_flight(&self) -> &InFlightState<PinnedRequest> {
        &self.in_flight
    }

    /// The topology of the cluster.
    #[must_use]
    pub fn topology(&self) -> &TopologyIndex {
        &self.topology
    }

    /// The provisioning journal, if there is one.
    pub fn journal(&mut self) -> Option<&mut Journal> {
        self.journal.as_mut()
    }

    /// Forgets waits that are over. Call it every [`sidecar::slow_set::SWEEP_INTERVAL`].
    pub fn sweep(&mut self, now: Instant) {
        self.in_flight.sweep(now);
    }
}

impl Reactor for Provisioner {
    type Key = Key;
    type Informers = dyn Informers;
    type Change<'a> = Change<'a>;
    type Attempt = Attempt;
    type Request = Step;
    type Notice = Notice;
    type Failure = Failed;

    fn observe(&mut self, change: Change<'_>, informers: Informed<'_>) -> Wakes {
        let mut due = Wakes::default();
        self.changed(change, informers, &mut due);
        due
    }

    fn begin(&mut self, key: &Key, informers: Informed<'_>, now: Now) -> Attempt {
        match key {
            Key::Claim(key) => Attempt::Claim(self.begin_claim(key, informers, now.instant)),
            Key::Volume(name) => Attempt::Volume(self.begin_volume(name, informers, now.instant)),
            Key::Source(name) => Attempt::Source(source::Run::new(name)),
        }
    }

    fn decide(&mut self, attempt: &mut Attempt, informers: Informed<'_>, now: Now) -> Option<Step> {
        match attempt {
            Attempt::Claim(run) => self.decide_claim(run, informers, now.instant),
            Attempt::Volume(attempt) => self.decide_volume(attempt, informers),
            Attempt::Source(run) => self.decide_source(run, informers),
        }
    }

    fn answered(&mut self, attempt: &mut Attempt, reply: Reply, informers: Informed<'_>) -> Wakes {
        let mut due = Wakes::default();
        match (attempt, reply) {
            (Attempt::Claim(run), reply) => self.claim_answered(run, reply, informers, &mut due),
            (Attempt::Volume(Some(attempt)), Reply::Ask(reply)) => {
                volume::answered(attempt, reply, &mut due);
            }
            (Attempt::Source(run), Reply::Ask(reply)) => run.answered(reply, &mut due),
            // Their steps are requests, and there are none without a volume.
            (Attempt::Volume(_) | Attempt::Source(_), _) => {}
        }
        due
    }

    fn end(
        &mut self,
        attempt: Attempt,
        informers: Informed<'_>,
        now: Now,
    ) -> (Verdict<Failed>, Wakes) {
        let mut due = Wakes::default();
        let verdict = match attempt {
            Attempt::Claim(run) => self.end_claim(run, informers, now.instant, &mut due),
            Attempt::Volume(None) => Verdict::Done,
            Attempt::Volume(Some(attempt)) => {
                self.end_volume(&attempt, informers, now.instant, &mut due)
            }
            Attempt::Source(run) => run.end(),
        };
        (verdict, due)
    }

    fn subject(&self, key: &Key, informers: Informed<'_>) -> Option<Subject> {
        let driver = informers.driver();
        match key {
            Key::Claim(key) => {
                let claim = informers.claim(&key.name)?;
                let ours = claim.uid == key.uid && is_ours(&claim, &driver);
                ours.then(|| provision(&claim, &driver))
            }
            Key::Volume(name) => {
                let Volume::Deletable(volume) = &*informers.volume(name)? else {
                    return None;
                };
                let subject = Subject::new(volume.uid.clone(), "delete", Goal::Again("".into()));
                let claim = volume.claim.as_ref();
                let subject = subject.linked(claim.map(|claim| &*claim.uid)).with(&[
                    ("csi.driver.name", &driver.name),
                    ("k8s.persistentvolume.name", name),
                    ("k8s.storageclass.name", &volume.class),
                ]);
                let ours = volume.driver() == Some(&*driver.name);
                ours.then_some(subject)
            }
            Key::Source(_) => None,
        }
    }

    fn over(&self, change: &Change<'_>, informers: Informed<'_>) -> Option<Over> {
        let Change::ClaimGone(claim) = change else {
            return None;
        };
        let driver = informers.driver();
        let waited = claim.phase.is_open() && is_ours(claim, &driver);
        waited.then(|| Over {
            subject: Subject {
                work: "PersistentVolumeClaim",
                goal: Goal::Root,
                waited: None,
                ..provision(claim, &driver).since(claim.created)
            },
            last: "bind",
            failure: claim.deleting.then_some("deleted before bound"),
        })
    }
}

/// The trace of a claim's provisioning.
fn provision(claim: &Claim, driver: &Driver) -> Subject {
    let node = claim.selected_node();
    let subject = Subject::new(claim.uid.clone(), "provision", Goal::Part).with(&[
        ("csi.driver.name", &driver.name),
        ("k8s.namespace.name", &claim.namespace),
        ("k8s.persistentvolumeclaim.name", &claim.name),
        ("k8s.storageclass.name", claim.class_name()),
        ("k8s.node.name", node),
    ]);
    let created = claim.created.filter(|_| !node.is_empty());
    Subject {
        annotation: claim.annotations.get_shared(Subject::TRACEPARENT).cloned(),
        // No field has the time when the scheduler chose: the claim is tried at once.
        waited: created.map(|created| ("waiting for a node", created)),
        ..subject.since(claim.created.filter(|_| node.is_empty()))
    }
}

/// Requeues `key` without delay.
fn wake(due: &mut Wakes, (queue, key): (usize, Key), place: Place) {
    due.wakes.push(Wake {
        queue,
        key,
        place,
        unless_delayed: false,
    });
}

/// Requeues the claim without delay.
fn wake_claim(due: &mut Wakes, key: ClaimKey) {
    let place = fairness::of_claim(&key);
    wake(due, (CLAIMS, Key::Claim(key)), place);
}

fn retry(failure: Failed) -> Verdict<Failed> {
    Verdict::Retry {
        failure,
        hung: false,
    }
}

/// An attempt that waits, without having failed.
fn after(delay: Duration) -> Verdict<Failed> {
    Verdict::After {
        delay,
        failure: None,
    }
}

#[cfg(test)]
mod testing;
