//! Attempts: from what a decision wants to a request, and from its answer to the next decision.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;
use sidecar::controller::reactor::Verdict;
use sidecar::snapshot::group_content_name;

use super::{Controller, Failed, Informed, Notice, outcome};
use crate::model::{Content, Group, GroupContent, GroupSource, Snapshot, Text};
use crate::plan::complaint::{Complaint, Record};
use crate::plan::in_flight::Key;
use crate::plan::request::{self, Object, Request, Write, read};
use crate::plan::silent::Silence;
use crate::plan::view::{Learnt, Next, Purpose, View};
use crate::plan::{claim, content as contents, group, snapshot, status};

/// More requests than an attempt needs, on a group with as many members as anybody has.
pub(super) fn most_requests(key: &Key) -> u32 {
    match key {
        Key::Group(_) => 4096,
        Key::Snapshot(_) | Key::Content(_) | Key::Claim(_) | Key::GroupContent(_) => 48,
    }
}

/// How often what others change meanwhile is read again before the attempt waits.
pub(super) const CONFLICTS: u32 = 5;

/// An attempt on a key.
#[derive(Debug)]
pub struct Attempt {
    pub(super) key: Key,
    /// The newest that is known of the object, so that events can tell of one that is gone.
    pub(super) subject: Option<Subject>,
    pub(super) learnt: Vec<(Object, Learnt)>,
    /// What has to be read before anything else: it has changed since it was read.
    pub(super) reread: Option<Object>,
    /// What a request that failed means, which users are not told yet.
    pub(super) untold: Option<Box<Complaint>>,
    pub(super) conflicts: u32,
    pub(super) over: Option<Over>,
    pub(super) notices: Vec<Notice>,
}

/// What an attempt is about.
#[derive(Clone, Debug)]
pub(super) enum Subject {
    Snapshot(Arc<Snapshot>),
    Content(Arc<Content>),
    Group(Arc<Group>),
    GroupContent(Arc<GroupContent>),
}

#[derive(Debug)]
pub(super) enum Over {
    Done,
    Failed(Failed),
}

impl Attempt {
    pub(super) fn new(key: &Key) -> Self {
        Self {
            key: key.clone(),
            subject: None,
            learnt: Vec::new(),
            reread: None,
            untold: None,
            conflicts: 0,
            over: None,
            notices: Vec::new(),
        }
    }

    /// `look` says whether an object with which all is done waits in vain for a sidecar.
    pub(super) fn end(
        mut self,
        look: impl FnOnce(&Subject) -> Option<Silence>,
    ) -> (Verdict<Failed>, Vec<Notice>) {
        if let (Some(Over::Done), Some(subject)) = (&self.over, &self.subject)
            && let Some(Silence { told, again }) = look(subject)
        {
            let events = told.map(|told| outcome::events(subject, &told));
            self.notices.extend(events.into_iter().flatten());
            let verdict = Verdict::After {
                delay: again,
                failure: None,
            };
            return (verdict, self.notices);
        }
        let verdict = match self.over {
            Some(Over::Failed(failure)) => Verdict::Retry {
                failure,
                hung: false,
            },
            Some(Over::Done) | None => Verdict::Done,
        };
        (verdict, self.notices)
    }

    fn done<T>(&mut self) -> Option<T> {
        self.over = Some(Over::Done);
        None
    }

    pub(super) fn fail(&mut self, what: &'static str, error: impl Into<String>) {
        let error = error.into();
        self.over = Some(Over::Failed(Failed { what, error }));
    }

    /// It fails, and users are told why.
    pub(super) fn complain(&mut self, complaint: Complaint) {
        if let Some(subject) = &self.subject {
            self.notices.extend(outcome::events(subject, &complaint));
        }
        self.fail(complaint.reason, complaint.message);
    }

    /// Whether it is the same object still; another one of the name has its own attempt.
    fn follows(&mut self, now: Subject) -> bool {
        let was = self.subject.as_ref();
        let same = was.is_none_or(|was| was.uid() == now.uid());
        if same {
            self.subject = Some(now);
        }
        same
    }
}

impl Controller {
    pub(super) fn next(
        &mut self,
        attempt: &mut Attempt,
        informers: Informed<'_>,
        now: Timestamp,
    ) -> Option<Request> {
        if let Some(complaint) = attempt.untold.take() {
            return self.fail(attempt, *complaint, now);
        }
        if attempt.over.is_some() {
            return None;
        }
        let next = match attempt.reread.take() {
            Some(object) => read(object),
            None => self.wanted(attempt, informers)?,
        };
        match next {
            Next::Done => attempt.done(),
            Next::Wait(claim) => {
                // Who writes to it cannot have ended in between: this is the same turn.
                self.in_flight.claims.wait(&claim, attempt.key.clone());
                attempt.done()
            }
            Next::Await(trigger) => {
                self.in_flight.failed(&attempt.key, &[trigger]);
                attempt.done()
            }
            Next::Fail(complaint) => self.fail(attempt, *complaint, now),
            Next::Ask(request) => {
                if let Request::Write(Write {
                    object: Object::Claim(claim),
                    ..
                }) = &*request
                {
                    self.in_flight.claims.begin(claim);
                }
                Some(*request)
            }
        }
    }

    /// What the decision wants; `None` if there is nothing to decide on.
    fn wanted(&mut self, attempt: &mut Attempt, informers: Informed<'_>) -> Option<Next> {
        let view = View {
            informers,
            in_flight: &self.in_flight,
            learnt: &attempt.learnt,
        };
        if view.is_gone(&attempt.key.object()) {
            // The deletion is on its way as an event.
            return attempt.done();
        }
        let decided = match &attempt.key {
            Key::Snapshot(key) => informers.snapshot(key).map(|subject| {
                let next = snapshot::decide(&view, &subject);
                (next, Some(Subject::Snapshot(subject)))
            }),
            Key::Content(name) => informers.content(name).map(|subject| {
                let next = contents::decide(&view, &subject);
                (next, Some(Subject::Content(subject)))
            }),
            Key::Claim(key) => {
                let next = claim::release(&view, key, None);
                next.map(|next| (next, None))
            }
            // Once they are served, everything of theirs is looked at.
            Key::Group(_) | Key::GroupContent(_) if !informers.groups() => None,
            Key::Group(key) => informers.group(key).map(|subject| {
                let next = group::decide(&view, &subject);
                (next, Some(Subject::Group(subject)))
            }),
            Key::GroupContent(name) => informers.group_content(name).map(|subject| {
                let next = group::content::decide(&view, &subject);
                (next, Some(Subject::GroupContent(subject)))
            }),
        };
        let Some((next, subject)) = decided else {
            return attempt.done();
        };
        // What was learnt is of the object before.
        if subject.is_none_or(|subject| attempt.follows(subject)) {
            Some(next)
        } else {
            attempt.done()
        }
    }

    /// The attempt fails. That is written into the status first, if it is to be and is news.
    fn fail(
        &mut self,
        attempt: &mut Attempt,
        complaint: Complaint,
        now: Timestamp,
    ) -> Option<Request> {
        self.in_flight.failed(&attempt.key, &complaint.triggers);
        match &attempt.subject {
            Some(subject)
                if [contents::ORPHANED, group::content::ORPHANED].contains(&complaint.reason) =>
            {
                // No retry: only its deletion for its owner, or an administrator, ends this.
                self.in_flight.tell(subject.uid());
                attempt.complain(complaint);
                attempt.done()
            }
            Some(subject) => {
                if let Some((of, patch)) = subject.failing(&complaint, now) {
                    let purpose = Purpose::Complain(Box::new(complaint));
                    return Some(Request::Write(request::status(purpose, of, patch)));
                }
                // What the status says already was told when it was written.
                match (complaint.record, subject) {
                    (Record::Error | Record::Unready, Subject::Snapshot(_) | Subject::Group(_)) => {
                        attempt.fail(complaint.reason, complaint.message)
                    }
                    (Record::Nothing | Record::Error | Record::Unready, _) => {
                        attempt.complain(complaint);
                    }
                }
                None
            }
            None => {
                attempt.complain(complaint);
                None
            }
        }
    }
}

impl Subject {
    /// The patch of its status that says why it fails, if that is news there.
    fn failing(&self, complaint: &Complaint, now: Timestamp) -> Option<(Object, Value)> {
        match self {
            Self::Snapshot(of) => {
                Some((of.object(), status::complaint(&of.shown(), complaint, now)?))
            }
            Self::Group(of) => Some((of.object(), status::complaint(&of.shown(), complaint, now)?)),
            Self::Content(_) | Self::GroupContent(_) => None,
        }
    }
}

/// The content that a VolumeSnapshot has or will have, if it is there.
pub(super) fn content(snapshot: &Snapshot, informers: Informed<'_>) -> Option<Arc<Content>> {
    informers.content(&snapshot.content_name()?)
}

/// The driver that has a VolumeSnapshot's snapshot, as far as that is known.
pub(super) fn driver(snapshot: &Snapshot, informers: Informed<'_>) -> Option<Text> {
    let content = content(snapshot, informers);
    let class = || informers.class(snapshot.class.as_deref()?);
    let driver = content.map(|content| content.driver.clone());
    driver.or_else(|| class().map(|class| class.driver.clone()))
}

/// The content that a VolumeGroupSnapshot has or will have, if it is there.
pub(super) fn content_of_group(
    group: &Group,
    informers: Informed<'_>,
) -> Option<Arc<GroupContent>> {
    match (group.bound(), &group.source) {
        (Some(bound), _) => informers.group_content(bound),
        (None, GroupSource::Claims(_)) => informers.group_content(&group_content_name(&group.uid)),
        (None, GroupSource::Content(name)) => informers.group_content(name),
        (None, GroupSource::Unclear) => None,
    }
}

/// The driver that has the snapshots of a VolumeGroupSnapshot, as far as that is known.
pub(super) fn driver_of_group(group: &Group, informers: Informed<'_>) -> Option<Text> {
    let content = content_of_group(group, informers);
    let class = || informers.group_class(group.class.as_deref()?);
    let driver = content.map(|content| content.driver.clone());
    driver.or_else(|| class().map(|class| class.0.driver.clone()))
}
