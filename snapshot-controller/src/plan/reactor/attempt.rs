//! Attempts: from what a decision wants to a request, and from its answer to the next decision.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;
use sidecar::controller::reactor::Verdict;
use sidecar::snapshot::{content_name, group_content_name};

use super::{Controller, Failed, Informed, News, Notice, outcome, wake};
use crate::model::{Content, Group, GroupContent, GroupSource, Snapshot, Source, Text};
use crate::plan::complaint::{Complaint, Record};
use crate::plan::memory::Key;
use crate::plan::silent::Silence;
use crate::plan::step::{Answer, ApiError, ErrorKind, Object, Step};
use crate::plan::view::{Learnt, Next, Purpose, View, read};
use crate::plan::{claim, content as contents, group, snapshot, status};

/// More requests than any attempt needs: what takes more goes in circles, and is retried later.
const MOST: u32 = 48;
/// The same for a group, with as many members as anybody has.
const MOST_OF_GROUP: u32 = 4096;
/// How often what others change meanwhile is read again before the attempt waits.
const CONFLICTS: u32 = 5;

/// An attempt on a key.
#[derive(Debug)]
pub struct Attempt {
    key: Key,
    /// The newest that is known of the object, so that events can tell of one that is gone.
    subject: Option<Subject>,
    learnt: Vec<(Object, Learnt)>,
    asked: Option<Purpose>,
    /// What has to be read before anything else: it has changed since it was read.
    reread: Option<Object>,
    /// What a request that failed means, which users are not told yet.
    untold: Option<Box<Complaint>>,
    steps: u32,
    conflicts: u32,
    over: Option<Over>,
    notices: Vec<Notice>,
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
enum Over {
    Done,
    Failed(Failed),
}

impl Attempt {
    pub(super) fn new(key: &Key) -> Self {
        Self {
            key: key.clone(),
            subject: None,
            learnt: Vec::new(),
            asked: None,
            reread: None,
            untold: None,
            steps: 0,
            conflicts: 0,
            over: None,
            notices: Vec::new(),
        }
    }

    /// `look` says whether a VolumeSnapshot with which all is done waits in vain.
    pub(super) fn end(
        mut self,
        look: impl FnOnce(&Snapshot) -> Option<Silence>,
    ) -> (Verdict<Failed>, Vec<Notice>) {
        if let (Some(Over::Done), Some(Subject::Snapshot(of))) = (&self.over, &self.subject)
            && let Some(Silence { told, again }) = look(of)
        {
            let subject = Subject::Snapshot(Arc::clone(of));
            let events = told.map(|told| outcome::events(&subject, &told));
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

    fn fail(&mut self, what: &'static str, error: impl Into<String>) {
        let error = error.into();
        self.over = Some(Over::Failed(Failed { what, error }));
    }

    /// It fails, and users are told why.
    fn complain(&mut self, complaint: Complaint) {
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

    fn ask(&mut self, step: Step, purpose: Purpose) -> Step {
        self.steps += 1;
        self.asked = Some(purpose);
        step
    }
}

impl Controller {
    pub(super) fn next(
        &mut self,
        attempt: &mut Attempt,
        informers: Informed<'_>,
        now: Timestamp,
    ) -> Option<Step> {
        if let Some(complaint) = attempt.untold.take() {
            return self.fail(attempt, *complaint, now);
        }
        if attempt.over.is_some() {
            return None;
        }
        let most = match attempt.key {
            Key::Group(_) => MOST_OF_GROUP,
            Key::Snapshot(_) | Key::Content(_) | Key::Claim(_) | Key::GroupContent(_) => MOST,
        };
        if attempt.steps >= most {
            attempt.fail("deciding", "too many requests in one attempt");
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
                self.memory.claims.wait(&claim, attempt.key.clone());
                attempt.done()
            }
            Next::Fail(complaint) => self.fail(attempt, *complaint, now),
            Next::Ask(step, purpose) => {
                if let Purpose::Protect(claim) | Purpose::Release(claim) = &purpose {
                    self.memory.claims.begin(claim);
                }
                Some(attempt.ask(step, purpose))
            }
        }
    }

    /// What the decision wants; `None` if there is nothing to decide on.
    fn wanted(&mut self, attempt: &mut Attempt, informers: Informed<'_>) -> Option<Next> {
        let view = View {
            informers,
            memory: &self.memory,
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
                let next = group::content::decide(&subject);
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
    ) -> Option<Step> {
        self.memory.failed(&attempt.key, &complaint.cures);
        match &attempt.subject {
            Some(Subject::Content(content)) if complaint.reason == contents::ORPHANED => {
                // No retry: only its deletion for a VolumeSnapshot, or an administrator, ends this.
                self.memory.tell(&content.uid);
                attempt.complain(complaint);
                attempt.done()
            }
            Some(subject) => {
                if let Some((of, patch)) = subject.failing(&complaint, now) {
                    let step = Step::PatchStatus(of, patch);
                    return Some(attempt.ask(step, Purpose::Complain(Box::new(complaint))));
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

    pub(super) fn heard(
        &mut self,
        attempt: &mut Attempt,
        step: &Step,
        answer: Answer,
        informers: Informed<'_>,
        due: &mut News,
    ) {
        let Some(purpose) = attempt.asked.take() else {
            return;
        };
        if let Purpose::Protect(claim) | Purpose::Release(claim) = &purpose {
            let unknown =
                matches!(&answer, Answer::Refused(error) if error.kind == ErrorKind::Unknown);
            let waiting = self.memory.claims.end(claim, unknown);
            due.wakes.extend(waiting.into_iter().map(wake));
        }
        match (answer, purpose) {
            (Answer::Read(json), Purpose::Read(object)) => {
                due.wakes
                    .extend(concerned(&object, attempt, informers).map(wake));
                self.learns(attempt, object, Learnt::Read(json));
            }
            (Answer::Refused(error), Purpose::Read(object)) => {
                self.unread(attempt, object, error);
            }
            (Answer::Done | Answer::Read(_), purpose) => {
                // What was read before is not so any more.
                let written = written(step);
                attempt
                    .learnt
                    .retain(|(of, _)| Some(of) != written.as_ref());
                self.succeeded(attempt, purpose, informers);
            }
            (Answer::Refused(error), purpose) => refused(attempt, step, purpose, error),
        }
        due.notices.append(&mut attempt.notices);
    }

    fn learns(&mut self, attempt: &mut Attempt, object: Object, learnt: Learnt) {
        if let Object::Claim(claim) = &object {
            self.memory.claims.settle(claim);
        }
        attempt.learnt.push((object, learnt));
    }

    fn unread(&mut self, attempt: &mut Attempt, object: Object, error: ApiError) {
        let told = error.kind == ErrorKind::NotFound
            || matches!(object, Object::Volume(_) | Object::Claims(..));
        if told {
            self.learns(attempt, object, Learnt::Unread(error))
        } else {
            attempt.fail("reading", error.message)
        }
    }

    fn succeeded(&mut self, attempt: &mut Attempt, purpose: Purpose, informers: Informed<'_>) {
        let Some(subject) = attempt.subject.clone() else {
            return;
        };
        if let Purpose::Status(progress) = &purpose {
            let driver = match &subject {
                Subject::Snapshot(of) => driver(of, informers),
                Subject::Group(of) => driver_of_group(of, informers),
                Subject::Content(_) | Subject::GroupContent(_) => None,
            };
            let (operations, uid) = (&mut self.operations, subject.uid());
            let samples = outcome::samples(operations, uid, *progress, driver.as_ref());
            attempt.notices.extend(samples);
        }
        attempt.notices.extend(outcome::success(&subject, &purpose));
        if let Purpose::Complain(complaint) = purpose {
            attempt.complain(*complaint);
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

/// Whose attempt has to look at what another one's has read: no watch will tell of it any more.
fn concerned(object: &Object, by: &Attempt, informers: Informed<'_>) -> Option<Key> {
    let snapshot = match object {
        Object::Snapshot(key) => Some(key.clone()),
        Object::Content(name) => informers
            .content(name)
            .map(|content| content.snapshot_key()),
        Object::Claim(_)
        | Object::Volume(_)
        | Object::Group(_)
        | Object::GroupContent(_)
        | Object::Claims(..) => None,
    };
    let known = snapshot.filter(|key| informers.snapshot(key).is_some());
    known.map(Key::Snapshot).filter(|key| *key != by.key)
}

/// Somebody else was first, or the request failed.
fn refused(attempt: &mut Attempt, step: &Step, purpose: Purpose, error: ApiError) {
    let stale = match (error.kind, step) {
        (ErrorKind::NotFound, Step::Patch(of, _) | Step::PatchStatus(of, _))
            if attempt.key.object() == *of =>
        {
            // Its deletion is on its way as an event.
            attempt.over = Some(Over::Done);
            return;
        }
        // It has changed, is gone, or is there already, and no watch has told of that yet.
        (ErrorKind::Conflict | ErrorKind::NotFound | ErrorKind::Exists, step) => written(step),
        (ErrorKind::Unknown | ErrorKind::Refused, _) => None,
    };
    if let Some(object) = stale {
        attempt.conflicts += 1;
        if attempt.conflicts <= CONFLICTS {
            attempt.reread = Some(object)
        } else {
            attempt.fail("writing", error.message)
        }
        return;
    }
    if let Purpose::Complain(complaint) = purpose {
        // The event tells, even if the status does not.
        return attempt.complain(*complaint);
    }
    let complaint = match &attempt.subject {
        Some(Subject::Snapshot(of)) => outcome::refusal(of, &purpose, &error),
        Some(Subject::Group(of)) => outcome::refusal_of_group(of, &purpose, &error),
        Some(Subject::Content(_) | Subject::GroupContent(_)) | None => None,
    };
    match complaint {
        Some(complaint) => attempt.untold = Some(Box::new(complaint)),
        None => attempt.fail("writing", error.message),
    }
}

/// The object that a step writes.
fn written(step: &Step) -> Option<Object> {
    match step {
        Step::Patch(of, _)
        | Step::PatchStatus(of, _)
        | Step::Create(of, _)
        | Step::Delete(of, _) => Some(of.clone()),
        Step::UpdateClaim(key, _) => Some(Object::Claim(key.clone())),
        Step::Read(_) => None,
    }
}

/// The content that a VolumeSnapshot has or will have, if it is there.
pub(super) fn content(snapshot: &Snapshot, informers: Informed<'_>) -> Option<Arc<Content>> {
    match (snapshot.bound(), &snapshot.source) {
        (Some(bound), _) => informers.content(bound),
        (None, Source::Claim(_)) => informers.content(&content_name(&snapshot.uid)),
        (None, Source::Content(name)) => informers.content(name),
        (None, Source::Unclear) => None,
    }
}

/// The driver that has a VolumeSnapshot's snapshot, as far as that is known.
pub(super) fn driver(snapshot: &Snapshot, informers: Informed<'_>) -> Option<Text> {
    let content = content(snapshot, informers);
    let class = || informers.class(snapshot.class.as_deref()?);
    let driver = content.map(|content| content.driver.clone());
    driver.or_else(|| class().map(|class| class.driver.clone()))
}

/// The driver that has the snapshots of a VolumeGroupSnapshot, as far as that is known.
pub(super) fn driver_of_group(group: &Group, informers: Informed<'_>) -> Option<Text> {
    let content = match (group.bound(), &group.source) {
        (Some(bound), _) => informers.group_content(bound),
        (None, GroupSource::Claims(_)) => informers.group_content(&group_content_name(&group.uid)),
        (None, GroupSource::Content(name)) => informers.group_content(name),
        (None, GroupSource::Unclear) => None,
    };
    let class = || informers.group_class(group.class.as_deref()?);
    let driver = content.map(|content| content.driver.clone());
    driver.or_else(|| class().map(|class| class.0.driver.clone()))
}
