//! Attempts: turn a decision into a request, and the reply into the next decision.

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
use crate::plan::unhandled::Reaction;
use crate::plan::view::{Learnt, Next, Purpose, View};
use crate::plan::{claim, content as contents, group, snapshot, status};

/// Limit of requests in an attempt; more than any attempt needs, even for the largest group.
pub(super) fn most_requests(key: &Key) -> u32 {
    match key {
        Key::Group(_) => 4096,
        Key::Snapshot(_) | Key::Content(_) | Key::Claim(_) | Key::GroupContent(_) => 48,
    }
}

/// How often an attempt reads an object again after a conflict before it fails.
pub(super) const CONFLICTS: u32 = 5;

/// An attempt on a key.
#[derive(Debug)]
pub struct Attempt {
    pub(super) key: Key,
    /// The newest known state of the object, so that events can name it after its deletion.
    pub(super) subject: Option<Subject>,
    pub(super) learnt: Vec<(Object, Learnt)>,
    /// The object to read before anything else: a write showed that the known version is old.
    pub(super) reread: Option<Object>,
    /// The failure of a request, not yet reported to users.
    pub(super) unreported: Option<Box<Complaint>>,
    pub(super) conflicts: u32,
    pub(super) over: Option<Over>,
    pub(super) notices: Vec<Notice>,
}

/// The object of an attempt.
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
            unreported: None,
            conflicts: 0,
            over: None,
            notices: Vec::new(),
        }
    }

    /// Ends the attempt. `look` checks whether a settled object waits for a sidecar that never
    /// begins.
    pub(super) fn end(
        mut self,
        look: impl FnOnce(&Subject) -> Option<Reaction>,
    ) -> (Verdict<Failed>, Vec<Notice>) {
        if let (Some(Over::Done), Some(subject)) = (&self.over, &self.subject)
            && let Some(Reaction { event, after }) = look(subject)
        {
            let events = event.map(|event| outcome::events(subject, &event));
            self.notices.extend(events.into_iter().flatten());
            let verdict = Verdict::After {
                delay: after,
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

    /// Fails the attempt and reports the failure to users.
    pub(super) fn complain(&mut self, complaint: Complaint) {
        if let Some(subject) = &self.subject {
            self.notices.extend(outcome::events(subject, &complaint));
        }
        self.fail(complaint.reason, complaint.message);
    }

    /// Whether the object is still the same; another object of the name gets its own attempt.
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
        if let Some(complaint) = attempt.unreported.take() {
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
                // The write cannot have ended in between: this is the same turn.
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

    /// The next step that the decision wants; `None` if there is nothing to decide.
    fn wanted(&mut self, attempt: &mut Attempt, informers: Informed<'_>) -> Option<Next> {
        let view = View {
            informers,
            in_flight: &self.in_flight,
            learnt: &attempt.learnt,
        };
        if view.is_gone(&attempt.key.object()) {
            // The watch will report the deletion.
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
            // When groups become served, all their objects are requeued.
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
        // The replies of this attempt are about the earlier object.
        if subject.is_none_or(|subject| attempt.follows(subject)) {
            Some(next)
        } else {
            attempt.done()
        }
    }

    /// Fails the attempt. Writes the failure to the status first, if the complaint asks for it and
    /// the status does not show it yet.
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
                // No retry: only an administrator, or the deletion of the content for its owner,
                // ends this.
                self.in_flight.report_orphan(subject.uid());
                attempt.complain(complaint);
                attempt.done()
            }
            Some(subject) => {
                if let Some((of, patch)) = subject.failing(&complaint, now) {
                    let purpose = Purpose::Complain(Box::new(complaint));
                    return Some(Request::Write(request::status(purpose, of, patch)));
                }
                // The event was recorded when the status was written.
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
    /// The patch that writes the failure to the status, unless the status shows it already.
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

/// The content of a VolumeSnapshot, if it exists.
pub(super) fn content(snapshot: &Snapshot, informers: Informed<'_>) -> Option<Arc<Content>> {
    informers.content(&snapshot.content_name()?)
}

/// The driver of a VolumeSnapshot, if known.
pub(super) fn driver(snapshot: &Snapshot, informers: Informed<'_>) -> Option<Text> {
    let content = content(snapshot, informers);
    let class = || informers.class(snapshot.class.as_deref()?);
    let driver = content.map(|content| content.driver.clone());
    driver.or_else(|| class().map(|class| class.driver.clone()))
}

/// The content of a VolumeGroupSnapshot, if it exists.
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

/// The driver of a VolumeGroupSnapshot, if known.
pub(super) fn driver_of_group(group: &Group, informers: Informed<'_>) -> Option<Text> {
    let content = content_of_group(group, informers);
    let class = || informers.group_class(group.class.as_deref()?);
    let driver = content.map(|content| content.driver.clone());
    driver.or_else(|| class().map(|class| class.0.driver.clone()))
}
