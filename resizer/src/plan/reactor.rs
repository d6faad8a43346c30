//! The resizer as one object: what it remembers, what events make due, and its attempts.
//!
//! The crash simulation drives this object and no other.

mod why;

use std::sync::Arc;
use std::time::{Duration, Instant};

use sidecar::controller::reactor::{Due, Now, Reactor, Verdict, Wake};
use sidecar::trace::{Goal, Subject};

use super::attempt::{Attempt, End};
use super::event::Origin;
use super::in_flight::{InFlightState, Next, Start};
use super::outcome::{Failure, RequeueTrigger};
use super::request::{Reply, Request};
use super::sync_gate::SyncGates;
use super::view::Informers;
use super::{Driver, Kind, Settings, Task};
use crate::model::{AttributesClass, Claim, Pod, Quiet, Text, Volume};

/// What an informer tells. `old` is what was known before, `new` what is known now; neither is there
/// of an object that does not exist, or that is not kept.
#[derive(Debug)]
pub enum Change<'a> {
    /// The claim of this key changed.
    Claim {
        /// `namespace/name`.
        key: Text,
        /// Before.
        old: Option<&'a Claim>,
        /// Now.
        new: Option<&'a Claim>,
        /// How the change came to be known.
        origin: Origin,
    },
    /// Nothing happened to the claim of this key; the time for a resync has come.
    ClaimResync(Text, &'a Claim),
    /// The PersistentVolume of this name changed.
    Volume {
        /// Its name.
        name: Text,
        /// Before.
        old: Option<&'a Volume>,
        /// Now.
        new: Option<&'a Volume>,
    },
    /// A pod changed.
    Pod {
        /// Before.
        old: Option<&'a Pod>,
        /// Now.
        new: Option<&'a Pod>,
    },
    /// The VolumeAttributesClass of this name changed.
    Class {
        /// Its name.
        name: Text,
        /// Before.
        old: Option<&'a AttributesClass>,
        /// Now.
        new: Option<&'a AttributesClass>,
    },
    /// The driver can be asked again.
    DriverBack,
    /// All that work of this sort depends on is listed: it may begin.
    Listed(Kind),
}

/// An attempt on a task.
pub struct Run {
    task: Task,
    /// `None` if nothing is due for such a claim, or its other task runs, whose end brings this one back.
    pub(crate) attempt: Option<Attempt>,
    pub(crate) over: Option<End>,
}

impl Run {
    pub(crate) fn new(task: &Task, started: Option<(Arc<Claim>, Start)>) -> Self {
        Self {
            task: task.clone(),
            attempt: started.map(|(claim, start)| Attempt::new(task, &claim, start)),
            over: None,
        }
    }
}

/// What the log is to say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// Nothing is left to do, or not now.
    Processed(Task),
    /// It goes on when this appears.
    Waits(Task, RequeueTrigger),
    /// The driver called it impossible a while ago; it is tried again after this.
    Later(Task, Duration),
    /// It failed, and the claim is gone.
    Failed(Task, Failure),
}

type Informed<'a> = &'a (dyn Informers + 'static);
type Wakes = Due<Task, Notice>;

/// The resizer.
#[derive(Clone, Debug)]
pub struct Resizer {
    pub(crate) in_flight: InFlightState,
    gates: SyncGates,
    settings: Settings,
}

impl Resizer {
    /// A resizer that knows nothing yet.
    #[must_use]
    pub fn new(driver: &Driver, settings: &Settings) -> Self {
        Self {
            in_flight: InFlightState::new(settings),
            gates: SyncGates::new(driver.abilities, settings),
            settings: settings.clone(),
        }
    }

    /// What an attempt on `task` begins with.
    pub(crate) fn start(
        &mut self,
        task: &Task,
        informers: Informed<'_>,
        now: Instant,
    ) -> Option<(Arc<Claim>, Start)> {
        let known = informers.claim(&task.claim);
        let unread = known.is_none();
        let claim = known.or_else(|| self.claim_of_annotated(task, informers))?;
        let mut start = self.in_flight.begin(task, &claim, now)?;
        start.unread = unread;
        Some((claim, start))
    }

    /// A claim that calls for nothing is not kept. That its volume carries an annotation, and which
    /// claim that is, the volume says.
    fn claim_of_annotated(&self, task: &Task, informers: Informed<'_>) -> Option<Arc<Claim>> {
        let name = self.in_flight.annotated(&task.claim);
        let name = name.filter(|_| task.kind == Kind::Expand)?;
        let (volume, _) = informers.volume(name)?;
        let uid = volume.claim.as_ref()?.uid.clone();
        let capacity = None;
        Some(Arc::new(Claim::Quiet(Quiet { uid, capacity })))
    }

    fn wake(&mut self, tasks: impl IntoIterator<Item = Task>, due: &mut Wakes) {
        let tasks = self.gates.pass(tasks).into_iter();
        due.wakes.extend(tasks.map(at_once));
    }
}

impl Reactor for Resizer {
    type Key = Task;
    type Informers = dyn Informers;
    type Change<'a> = Change<'a>;
    type Attempt = Run;
    type Request = Request;
    type Notice = Notice;
    type Failure = Failure;

    fn observe(&mut self, change: Change<'_>, informers: Informed<'_>) -> Wakes {
        let (in_flight, mut due) = (&mut self.in_flight, Wakes::default());
        let tasks = match change {
            Change::Claim {
                key,
                old,
                new,
                origin,
            } => in_flight.claim_changed(&key, old, new, origin),
            Change::Volume { name, old, new } => {
                in_flight.volume_changed(&name, old, new, &informers.driver())
            }
            Change::Pod { old, new } => in_flight.pod_changed(old, new),
            Change::Class { name, old, new } => in_flight.class_changed(&name, old, new),
            Change::DriverBack => in_flight.driver_is_back(),
            Change::ClaimResync(_, claim) if claim.detail().is_none() => Vec::new(),
            Change::ClaimResync(key, _) => {
                let both = Kind::ALL.map(|kind| Task::new(kind, &key));
                let tasks = self.gates.pass(both).into_iter();
                due.wakes.extend(tasks.map(|task| Wake {
                    unless_delayed: true,
                    ..at_once(task)
                }));
                return due;
            }
            Change::Listed(kind) => {
                let early = self.gates.open(kind).into_iter();
                due.wakes.extend(early.map(at_once));
                return due;
            }
        };
        self.wake(tasks, &mut due);
        due
    }

    fn begin(&mut self, task: &Task, informers: Informed<'_>, now: Now) -> Run {
        Run::new(task, self.start(task, informers, now.instant))
    }

    fn decide(&mut self, run: &mut Run, informers: Informed<'_>, now: Now) -> Option<Request> {
        if run.over.is_some() {
            return None;
        }
        let attempt = run.attempt.as_ref()?;
        let now = now.timestamp.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        let in_use = self.in_flight.in_use(&run.task.claim);
        let by = (&*informers.driver(), &self.settings);
        let mut next = attempt.look(informers, in_use, by, &now);
        // One call at a time for a volume; the end of the one in flight brings the task back.
        if let Ok(Request::Call(call)) = &next {
            let (calls, handle) = (&mut self.in_flight.calls, call.handle().into());
            if !calls.begin(&handle, run.task.clone()) {
                next = Err(End::Parked);
            }
        }
        next.map_err(|end| run.over = Some(end)).ok()
    }

    fn answered(&mut self, run: &mut Run, reply: Reply, _informers: Informed<'_>) -> Wakes {
        let mut due = Wakes::default();
        if let Reply::Call(called, _) = &reply {
            let waiting = self.in_flight.calls.end(&called.handle().into());
            self.wake(waiting, &mut due);
        }
        if let Some(attempt) = &mut run.attempt {
            attempt.answered(reply);
        }
        due
    }

    fn subject(&self, task: &Task, informers: Informed<'_>) -> Option<Subject> {
        let claim = informers.claim(&task.claim)?;
        let claim = claim.detail()?;
        let driver = informers.driver();
        let goal = match task.kind {
            Kind::Expand => claim.request.map(|request| request.to_string()),
            Kind::Modify => Some(claim.class.to_string()),
        };
        let work = match task.kind {
            Kind::Expand => "expand",
            Kind::Modify => "modify",
        };
        let (uid, goal) = (claim.uid.to_string(), goal.unwrap_or_default());
        let subject = Subject::new(uid, work, Goal::Again(goal.into()));
        Some(subject.with(&[
            ("csi.driver.name", &driver.name),
            ("k8s.namespace.name", &claim.namespace),
            ("k8s.persistentvolumeclaim.name", &claim.name),
            ("k8s.persistentvolume.name", &claim.volume),
        ]))
    }

    fn end(&mut self, run: Run, _informers: Informed<'_>, now: Now) -> (Verdict<Failure>, Wakes) {
        let (mut due, task) = (Wakes::default(), run.task);
        let (Some(attempt), Some(end)) = (run.attempt, run.over) else {
            return (Verdict::Done, due);
        };
        let ended = self.in_flight.end(&task, &attempt, &end, now.instant);
        let failure = match end {
            End::Failed(failure) => Some(failure),
            End::Waits(cure) => {
                due.notices.push(Notice::Waits(task.clone(), cure));
                None
            }
            End::Later => {
                let wait = match ended.next {
                    Next::After(wait) => wait,
                    Next::Forget | Next::Again | Next::Backoff => Duration::ZERO,
                };
                due.notices.push(Notice::Later(task.clone(), wait));
                None
            }
            End::Done | End::Again | End::Parked => {
                due.notices.push(Notice::Processed(task.clone()));
                None
            }
        };
        let verdict = match (ended.next, failure) {
            (Next::Backoff, Some(failure)) => Verdict::Retry {
                failure,
                hung: false,
            },
            (Next::After(delay), failure) => Verdict::After { delay, failure },
            (Next::Again | Next::Forget | Next::Backoff, failure) => {
                let failed = failure.map(|failure| Notice::Failed(task.clone(), failure));
                due.notices.extend(failed);
                if ended.next == Next::Again {
                    due.wakes.push(at_once(task));
                }
                Verdict::Done
            }
        };
        self.wake(ended.woken, &mut due);
        (verdict, due)
    }
}

fn at_once(task: Task) -> Wake<Task> {
    Wake {
        queue: 0,
        place: task.place(),
        key: task,
        unless_delayed: false,
    }
}
