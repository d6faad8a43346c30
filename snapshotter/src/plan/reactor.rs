//! The snapshotter as one object: its state, the effect of events, and its attempts.
//!
//! The crash simulation drives this very object. Group snapshots have an object of their own: a content and a
//! group content of the same name share no state, only the driver.

use std::sync::Arc;

use jiff::Timestamp;
use sidecar::controller::reactor::{Due, Now, Reactor, Verdict, Wake};
use sidecar::queue::Place;
use sidecar::trace::{self, Subject};

use super::Settings;
use super::attempt::{Attempt, End, Next};
use super::event::is_work;
use super::goal::{Goal, goal};
use super::in_flight::InFlightState;
use super::outcome::{Failure, Problem, RequeueTrigger, Task};
use super::request::{Call, ContentWrite, Parameters, Purpose, Reply, Request};
use super::view::{Informers, Membership, View};
use crate::model::{Class, Content, Source, Text};

/// An event of an informer. `old` is the cached object before, `new` the one now; `None` if it does not
/// exist.
#[derive(Debug)]
pub enum Change<'a> {
    /// The content of this name changed.
    Content {
        /// Name of the content.
        name: Text,
        /// The cached content before.
        old: Option<&'a Content>,
        /// The cached content now.
        new: Option<&'a Content>,
        /// Whether it comes from the response to a request of this process.
        own: bool,
    },
    /// The content of this name is due for a resync.
    Resync(Text),
    /// The class of this name changed.
    Class {
        /// Name of the class.
        name: Text,
        /// The cached class before.
        old: Option<&'a Class>,
        /// The cached class now.
        new: Option<&'a Class>,
    },
    /// The driver is reachable again.
    DriverBack,
}

/// An attempt on a content, as the engine holds it.
#[derive(Debug)]
pub struct Run {
    name: Text,
    /// `None` if the content does not exist.
    attempt: Option<Attempt>,
    /// Time of the last request's decision.
    now: Timestamp,
    over: Option<End>,
}

/// A log line that is due.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// Nothing is left to do for the content of this name, or not now.
    Processed(Text),
    /// The driver has this snapshot for a content that was deleted.
    Lost(Text, Text),
    /// The driver's response spells the handle differently: content, requested handle, returned handle.
    OtherHandle(Text, Text, Text),
}

/// Why an attempt is retried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Retry {
    /// The snapshot exists and is not ready.
    NotReady,
    /// The controller has not written the member's status yet.
    Awaits,
    /// It failed.
    Failed(Box<Failure>),
}

type Informed<'a> = &'a (dyn Informers + 'static);
type News = Due<Text, Notice>;

/// The snapshotter.
#[derive(Debug)]
pub struct Snapshotter {
    in_flight: InFlightState,
    settings: Settings,
}

impl Snapshotter {
    /// A snapshotter without state.
    #[must_use]
    pub fn new(settings: &Settings) -> Self {
        Self {
            in_flight: InFlightState::default(),
            settings: settings.clone(),
        }
    }

    /// Its state.
    #[must_use]
    pub fn in_flight(&self) -> &InFlightState {
        &self.in_flight
    }

    /// Whether an attempt on it would end at once, and there is no state of it. This holds for nearly all of
    /// a cluster's many thousand contents: they need no place in the queue.
    fn is_idle(&self, name: &Text, content: &Content, informers: Informed<'_>) -> bool {
        let idle = goal(content) == Goal::Nothing || *content.driver != *informers.driver().name;
        idle && !self.in_flight.knows(name)
    }

    fn triggered(&mut self, trigger: &RequeueTrigger, due: &mut News) {
        let names = self.in_flight.triggered(trigger).into_iter();
        due.wakes.extend(names.map(at_once));
    }

    /// The attempt fails. Its trigger is registered before any event can be missed.
    fn fail(
        &mut self,
        (name, attempt): (&Text, &mut Attempt),
        content: Option<&Content>,
        (task, problem): (Task, Problem),
    ) {
        let failure = attempt.fail(content, task, problem);
        let class = content.and_then(|content| content.class.as_ref());
        if let Some(trigger) = failure.trigger(class) {
            self.in_flight.waits(name, attempt.uid(), trigger);
        }
    }

    /// Records in the state what has to be there before the request is sent.
    fn note(&mut self, name: &Text, attempt: &mut Attempt, content: &Content, request: &Request) {
        match request {
            Request::Write(write)
                if write.purpose == Purpose::Content(ContentWrite::Mark)
                    && !content.being_created =>
            {
                attempt.marks();
                self.in_flight.marks(name, attempt.uid());
            }
            Request::Call(Call::Create(call)) => self.calls(name, attempt, &call.parameters),
            Request::Call(Call::CreateGroup(call)) => self.calls(name, attempt, &call.parameters),
            Request::Get(_)
            | Request::Write(_)
            | Request::Secret(_)
            | Request::Event(_)
            | Request::Call(
                Call::List(_)
                | Call::Get(_)
                | Call::Delete(_)
                | Call::GetGroup(_)
                | Call::DeleteGroup(_),
            ) => {}
        }
    }

    fn calls(&mut self, name: &Text, attempt: &mut Attempt, parameters: &Parameters) {
        let parameters = attempt.calls(parameters.clone());
        self.in_flight.calls(name, attempt.uid(), parameters);
    }
}

/// The content of the attempt, if it still exists.
fn known(informers: Informed<'_>, name: &Text, attempt: &Attempt) -> Option<Arc<Content>> {
    let content = informers.content(name)?;
    (content.uid == *attempt.uid()).then_some(content)
}

/// The report about a member in its group's content.
fn membership(content: &Content, informers: Informed<'_>) -> Membership {
    let found = content.source.as_ref().and_then(Source::wished).is_some();
    match (content.group(), content.handle()) {
        (Some(group), Some(handle)) if !found => informers.member(group, handle),
        (_, _) => Membership::Unknown,
    }
}

impl Reactor for Snapshotter {
    type Key = Text;
    type Informers = dyn Informers;
    type Change<'a> = Change<'a>;
    type Attempt = Run;
    type Request = Request;
    type Notice = Notice;
    type Failure = Retry;

    fn observe(&mut self, change: Change<'_>, informers: Informed<'_>) -> News {
        let mut due = News::default();
        match change {
            Change::Content {
                name,
                old,
                new: Some(new),
                own,
            } => {
                let idle = old.is_none() && self.is_idle(&name, new, informers);
                if is_work(old, new, own) && !idle {
                    self.in_flight.begins_anew(&name);
                    due.wakes.push(at_once(name));
                }
            }
            Change::Content {
                name, new: None, ..
            } => {
                self.in_flight.forget(&name);
                due.wakes.push(at_once(name));
            }
            Change::Resync(name) => {
                let content = informers.content(&name);
                if !content.is_some_and(|content| self.is_idle(&name, &content, informers)) {
                    due.wakes.push(at_once(name));
                }
            }
            Change::Class { name, old, new } => {
                if old != new {
                    self.triggered(&RequeueTrigger::Class(name), &mut due);
                }
            }
            Change::DriverBack => self.triggered(&RequeueTrigger::Driver, &mut due),
        }
        due
    }

    fn subject(&self, name: &Text, informers: Informed<'_>) -> Option<Subject> {
        let content = informers.content(name)?;
        let driver = informers.driver();
        let (work, goal) = if content.deleting {
            ("delete", trace::Goal::Again("".into()))
        } else {
            ("cut", trace::Goal::Part)
        };
        let subject = Subject::new(content.snapshot.uid.clone(), work, goal).with(&[
            ("csi.driver.name", &driver.name),
            ("k8s.namespace.name", &content.snapshot.namespace),
            ("k8s.volumesnapshot.name", &content.snapshot.name),
            ("k8s.volumesnapshotcontent.name", name),
        ]);
        let ours = *content.driver == *driver.name && !subject.uid.is_empty();
        ours.then_some(subject)
    }

    fn begin(&mut self, name: &Text, informers: Informed<'_>, now: Now) -> Run {
        let content = informers.content(name);
        let attempt = content.map(|content| {
            let start = self.in_flight.begin(name, &content);
            Attempt::new(name, &content, start)
        });
        Run {
            name: name.clone(),
            attempt,
            now: now.timestamp,
            over: None,
        }
    }

    fn decide(&mut self, run: &mut Run, informers: Informed<'_>, now: Now) -> Option<Request> {
        let attempt = run.attempt.as_mut().filter(|_| run.over.is_none())?;
        let driver = informers.driver();
        loop {
            let Some(content) = known(informers, &run.name, attempt) else {
                run.over = Some(End::Gone);
                return None;
            };
            let class = content.class.as_ref();
            let class = class.and_then(|name| informers.class(name));
            let member = membership(&content, informers);
            let next = attempt.decide(&View {
                driver: &driver,
                settings: &self.settings,
                name: &run.name,
                content: &content,
                class: class.as_deref(),
                member: &member,
                now: now.timestamp,
            });
            match next {
                // The next decision reports the failure.
                Next::Fail(task, problem) => {
                    self.fail((&run.name, attempt), Some(&content), (task, problem));
                }
                Next::End(end) => {
                    let trigger = match &end {
                        End::Foreign(class) => Some(RequeueTrigger::Class(class.clone())),
                        End::Incapable => Some(RequeueTrigger::Driver),
                        End::Done | End::NotReady | End::Awaits | End::Gone | End::Failed(_) => {
                            None
                        }
                    };
                    if let Some(trigger) = trigger {
                        self.in_flight.waits(&run.name, attempt.uid(), trigger);
                    }
                    run.over = Some(end);
                    return None;
                }
                Next::Ask(request) => {
                    self.note(&run.name, attempt, &content, &request);
                    run.now = now.timestamp;
                    return Some(*request);
                }
            }
        }
    }

    fn answered(&mut self, run: &mut Run, reply: Reply, informers: Informed<'_>) -> News {
        let mut due = News::default();
        let Some(attempt) = &mut run.attempt else {
            return due;
        };
        let content = known(informers, &run.name, attempt);
        let asked = match &reply {
            Reply::Call(called, _) => called.looks_up().map(Text::from),
            Reply::Get(..) | Reply::Write(..) | Reply::Secret(..) | Reply::Event(_) => None,
        };
        let taken = attempt.answered(reply, run.now);
        if let (Some(said), Some(asked)) = (attempt.said(), asked)
            && said.handle != asked
        {
            let (name, said) = (run.name.clone(), said.handle.clone());
            due.notices.push(Notice::OtherHandle(name, asked, said));
        }
        if let Err(problem) = taken {
            self.fail((&run.name, attempt), content.as_deref(), problem);
        }
        due
    }

    fn end(&mut self, run: Run, informers: Informed<'_>, _now: Now) -> (Verdict<Retry>, News) {
        let mut due = News::default();
        let Run {
            name,
            attempt: Some(attempt),
            over: Some(end),
            ..
        } = run
        else {
            return (Verdict::Done, due);
        };
        let there = known(informers, &name, &attempt);
        if let (End::Gone, Some(said)) = (&end, attempt.said()) {
            let handle = said.handle.clone();
            due.notices.push(Notice::Lost(name.clone(), handle));
        }
        let longest = self.settings.retry_max;
        let wait = { &mut self.in_flight }.end(&name, (&attempt, &end), there.is_some(), longest);
        let failure = match end {
            End::Done | End::Incapable | End::Foreign(_) | End::Gone => {
                due.notices.push(Notice::Processed(name));
                return (Verdict::Done, due);
            }
            End::NotReady => Retry::NotReady,
            End::Awaits => Retry::Awaits,
            End::Failed(failure) => Retry::Failed(Box::new(failure)),
        };
        let verdict = match wait {
            Some(delay) => Verdict::After {
                delay,
                failure: Some(failure),
            },
            None => Verdict::Retry {
                failure,
                hung: false,
            },
        };
        (verdict, due)
    }
}

fn at_once(name: Text) -> Wake<Text> {
    Wake {
        queue: 0,
        key: name,
        place: Place::default(),
        unless_delayed: false,
    }
}
