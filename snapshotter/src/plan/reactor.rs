//! The snapshotter as one object: its state, the effect of events, and its attempts.
//!
//! The crash simulation drives this very object. Group snapshots have an object of their own: a content and a
//! group content of the same name share no state, only the driver.

mod why;

use std::sync::Arc;

use sidecar::controller::reactor::{Due, Now, Reactor, Verdict, Wake};
use sidecar::queue::Place;
use sidecar::trace::{self, Subject};

use super::Settings;
use super::attempt::{Attempt, End};
use super::event::is_work;
use super::goal::{Goal, goal};
use super::in_flight::InFlightState;
use super::outcome::{Failure, RequeueTrigger};
use super::request::{Reply, Request};
use super::view::{Informers, Membership, View};
use crate::model::{Class, Content, Kind, Text};

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
#[derive(Clone, Debug)]
pub struct Snapshotter {
    /// Which contents it works on.
    kind: Kind,
    in_flight: InFlightState,
    settings: Settings,
}

impl Snapshotter {
    /// A snapshotter for contents of this kind, without state.
    #[must_use]
    pub fn new(kind: Kind, settings: &Settings) -> Self {
        Self {
            kind,
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
    fn fail(&mut self, attempt: &mut Attempt, content: &Content, failure: Failure) {
        if let Some(trigger) = failure.trigger(content.class.as_ref()) {
            self.in_flight.waits(&attempt.name, &attempt.uid, trigger);
        }
        attempt.fails(failure);
    }

    /// The attempt is over. What it waits for is remembered in the same turn.
    fn over(&mut self, attempt: &mut Attempt, end: End) {
        let trigger = match &end {
            End::Foreign(class) => Some(RequeueTrigger::Class(class.clone())),
            End::Incapable => Some(RequeueTrigger::Driver),
            End::Done | End::NotReady | End::Awaits | End::Gone | End::Failed(_) => None,
        };
        if let Some(trigger) = trigger {
            self.in_flight.waits(&attempt.name, &attempt.uid, trigger);
        }
        attempt.over = Some(end);
    }
}

/// The content of the attempt, if it still exists.
fn known(informers: Informed<'_>, attempt: &Attempt) -> Option<Arc<Content>> {
    let content = informers.content(&attempt.name)?;
    (content.uid == attempt.uid).then_some(content)
}

/// The report about a member in its group's content.
fn membership(content: &Content, informers: Informed<'_>) -> Membership {
    let found = content.wished().is_some();
    match (content.group(), content.handle()) {
        (Some(group), Some(handle)) if !found => informers.member(group, handle),
        (_, _) => Membership::Unknown,
    }
}

impl Reactor for Snapshotter {
    type Key = Text;
    type Informers = dyn Informers;
    type Change<'a> = Change<'a>;
    /// `None` if the content does not exist.
    type Attempt = Option<Attempt>;
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
        let [snapshot, of_content] = match content.kind() {
            Kind::Single => ["k8s.volumesnapshot.name", "k8s.volumesnapshotcontent.name"],
            Kind::Group => [
                "k8s.volumegroupsnapshot.name",
                "k8s.volumegroupsnapshotcontent.name",
            ],
        };
        let subject = Subject::new(content.snapshot.uid.clone(), work, goal).with(&[
            ("csi.driver.name", &driver.name),
            ("k8s.namespace.name", &content.snapshot.namespace),
            (snapshot, &content.snapshot.name),
            (of_content, name),
        ]);
        let ours = *content.driver == *driver.name && !subject.uid.is_empty();
        ours.then_some(subject)
    }

    fn begin(&mut self, name: &Text, informers: Informed<'_>, _now: Now) -> Option<Attempt> {
        let content = informers.content(name)?;
        let start = self.in_flight.begin(name, &content);
        Some(Attempt::new(name, &content, start))
    }

    fn decide(
        &mut self,
        attempt: &mut Option<Attempt>,
        informers: Informed<'_>,
        now: Now,
    ) -> Option<Request> {
        let attempt = attempt.as_mut().filter(|attempt| attempt.over.is_none())?;
        let driver = informers.driver();
        let Some(content) = known(informers, attempt) else {
            self.over(attempt, End::Gone);
            return None;
        };
        let class = content.class.as_ref();
        let class = class.and_then(|name| informers.class(name));
        let member = membership(&content, informers);
        loop {
            let name = attempt.name.clone();
            let decided = attempt.decide(&View {
                driver: &driver,
                settings: &self.settings,
                name: &name,
                content: &content,
                class: class.as_deref(),
                member: &member,
                now: now.timestamp,
            });
            match decided {
                Ok(request) => return Some(request),
                // The next run reports it.
                Err(End::Failed(failure)) if !attempt.has_reported(&failure) => {
                    self.fail(attempt, &content, *failure);
                }
                Err(end) => {
                    self.over(attempt, end);
                    return None;
                }
            }
        }
    }

    fn answered(
        &mut self,
        attempt: &mut Option<Attempt>,
        reply: Reply,
        informers: Informed<'_>,
    ) -> News {
        let mut due = News::default();
        let Some(attempt) = attempt else {
            return due;
        };
        if let Reply::Call(called, _) = &reply
            && let (Some(asked), Some(report)) = (called.looks_up(), called.report())
            && *report.handle != *asked
        {
            let (name, asked) = (attempt.name.clone(), asked.into());
            due.notices
                .push(Notice::OtherHandle(name, asked, report.handle));
        }
        let problem = attempt.answered(reply);
        if let (Some(content), Some((task, problem))) = (known(informers, attempt), problem) {
            let failure = Failure::new(task, &attempt.name, &content, problem);
            self.fail(attempt, &content, failure);
        }
        due
    }

    fn end(
        &mut self,
        attempt: Option<Attempt>,
        informers: Informed<'_>,
        _now: Now,
    ) -> (Verdict<Retry>, News) {
        let mut due = News::default();
        let Some(mut attempt) = attempt else {
            return (Verdict::Done, due);
        };
        let Some(end) = attempt.over.take() else {
            return (Verdict::Done, due);
        };
        let (name, there) = (attempt.name.clone(), known(informers, &attempt).is_some());
        if let (End::Gone, Some(report)) = (&end, attempt.report()) {
            due.notices.push(Notice::Lost(name.clone(), report.handle));
        }
        let longest = self.settings.retry_max;
        let wait = self.in_flight.end(&attempt, &end, there, longest);
        let failure = match end {
            End::Done | End::Incapable | End::Foreign(_) | End::Gone => {
                due.notices.push(Notice::Processed(name));
                return (Verdict::Done, due);
            }
            End::NotReady => Retry::NotReady,
            End::Awaits => Retry::Awaits,
            End::Failed(failure) => Retry::Failed(failure),
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
