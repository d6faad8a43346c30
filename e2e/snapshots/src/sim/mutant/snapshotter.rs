//! Faulty csi-snapshotters: their input and their requests.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use sidecar::controller::reactor::Verdict;
use sidecar::controller::request::{Body, Patch};
use sidecar::snapshot::YES;
use sidecar::text::Text;
use snapshotter::model::{Class, Content, Kind, Policy};
use snapshotter::plan::patch;
use snapshotter::plan::reactor::Retry;
use snapshotter::plan::request::{self, Call, ContentWrite, Purpose, Request, StatusWrite, Write};

use super::super::driver::ANOTHER;
use super::super::objects::DRIVER;
use super::Mutant;

impl Mutant {
    /// The content as a faulty snapshotter sees it.
    pub(in super::super) fn sees(self, content: &Arc<Content>) -> Arc<Content> {
        let mut arc = Arc::clone(content);
        if self == Self::None {
            return arc;
        }
        let seen = Arc::make_mut(&mut arc);
        match self {
            Self::DeletesOnDeletionAlone if seen.deleting => seen.being_deleted = true,
            Self::ForgetsMark => seen.being_created = true,
            Self::DeletesInDoubt if seen.deleting => seen.being_created = false,
            Self::DeletesRetained => seen.policy = Policy::Delete,
            Self::ForgetsProtection if !seen.deleting => {
                seen.finalizers = [seen.kind().finalizer().into()].into();
            }
            // A member is deleted along with its group.
            Self::TakesCopies if seen.member && seen.deleting => seen.policy = Policy::Retain,
            Self::TakesForeign => seen.driver = DRIVER.into(),
            Self::PollsWhatIsKept if seen.policy == Policy::Retain && !seen.deleting => {
                seen.being_deleted = false;
            }
            Self::OverlooksMark if seen.handle().is_some() && !seen.deleting => {
                seen.being_created = false;
            }
            Self::ReleasesForOthers => {
                let finalizer = seen.kind().finalizer();
                let ours = seen.finalizers.iter().filter(|held| ***held == *finalizer);
                seen.finalizers = ours.cloned().collect();
            }
            _ => self.sees_of_group(&mut arc),
        }
        arc
    }

    /// The class as a faulty snapshotter sees it.
    pub(in super::super) fn sees_class(self, class: &Arc<Class>) -> Arc<Class> {
        let mut seen = Arc::clone(class);
        if self == Self::TakesForeign {
            Arc::make_mut(&mut seen).driver = DRIVER.into();
        }
        seen
    }

    /// The request of a faulty snapshotter in place of the right one.
    pub(in super::super) fn snapshotter_wants(
        self,
        request: Request,
        name: &Text,
        content: Option<&Content>,
    ) -> Request {
        let Some(content) = content.filter(|_| self != Self::None) else {
            return request;
        };
        match request {
            Request::Call(call) => self.calls(call, name, content),
            Request::Write(asked) => self.writes(asked, name, content),
            request => request,
        }
    }

    /// The request in place of a call.
    fn calls(self, call: Call, name: &Text, content: &Content) -> Request {
        let write = |purpose, body| Request::Write(request::patch(name, purpose, body));
        match (self, call) {
            (Self::ReleasesFirst, Call::Delete(_) | Call::DeleteGroup(_))
                if content.is_protected() =>
            {
                let purpose = Purpose::Content(ContentWrite::Release);
                write(purpose, patch::release(content))
            }
            (Self::ClearsFirst, call @ (Call::Delete(_) | Call::DeleteGroup(_))) => {
                let body = patch::clear(content);
                let clear = body.map(|body| write(Purpose::Status(StatusWrite::Clear), body));
                clear.unwrap_or(Request::Call(call))
            }
            (Self::NamesAnew, Call::Create(mut call)) => {
                call.name = format!("{}-{}", call.name, content.version);
                Request::Call(Call::Create(call))
            }
            (Self::DeletesOthers, Call::Delete(mut call)) => {
                call.snapshot_id = ANOTHER.to_owned();
                Request::Call(Call::Delete(call))
            }
            (Self::DeletesOthers, Call::DeleteGroup(mut call)) => {
                call.group_snapshot_id = ANOTHER.to_owned();
                Request::Call(Call::DeleteGroup(call))
            }
            (_, call) => self.wants_of_group(Request::Call(call), content),
        }
    }

    /// The request in place of a write.
    fn writes(self, mut asked: Write, name: &Text, content: &Content) -> Request {
        let reports = matches!(asked.purpose, Purpose::Status(StatusWrite::Report(_)));
        let unmarks_first = match self {
            Self::UnmarksFirst => true,
            Self::UnmarksGroupsFirst => content.kind() == Kind::Group,
            _ => false,
        };
        if unmarks_first && reports && content.being_created {
            let purpose = Purpose::Content(ContentWrite::Unmark);
            return Request::Write(request::patch(name, purpose, patch::unmark(content)));
        }
        let unmarks = asked.purpose == Purpose::Content(ContentWrite::Unmark);
        if self == Self::LeavesMark && unmarks {
            return Request::Get(name.clone());
        }
        if let Body::Patch(_, Patch::Merge(body)) = &mut asked.body {
            match &asked.purpose {
                Purpose::Content(what) => self.patches(*what, body, content),
                Purpose::Status(what) => self.reports(what, body, content),
            }
        }
        self.wants_of_group(Request::Write(asked), content)
    }

    /// Changes a patch of metadata as a faulty snapshotter writes it.
    fn patches(self, what: ContentWrite, body: &mut Value, content: &Content) {
        let marks = what == ContentWrite::Mark;
        match self {
            Self::ForgetsMark if marks => {
                if let Some(metadata) = body["metadata"].as_object_mut() {
                    metadata.remove("annotations");
                    let finalizer = content.kind().finalizer();
                    metadata.insert("finalizers".to_owned(), [finalizer].as_slice().into());
                }
            }
            Self::PatchesAnyVersion => {
                if let Some(metadata) = body["metadata"].as_object_mut() {
                    metadata.remove("resourceVersion");
                }
            }
            Self::WritesOthersAnnotations => {
                body["metadata"]["annotations"]["x/y"] = "z".into();
            }
            Self::TakesNothingOver if marks && content.being_created => {
                let same = if content.marked_again {
                    patch::AGAIN
                } else {
                    YES
                };
                body["metadata"]["annotations"][content.kind().being_created()] = same.into();
            }
            _ => {}
        }
    }

    /// Changes a patch of the status as a faulty snapshotter writes it.
    fn reports(self, what: &StatusWrite, body: &mut Value, content: &Content) {
        match (self, what) {
            (Self::HidesLosses, StatusWrite::Fail(_)) => {
                // Each differs: the status changes.
                body["status"]["error"]["message"] =
                    format!("failed at {}", content.version).into();
            }
            (Self::RepeatsReports, StatusWrite::Report(_)) => {
                if let Some(had) = content.status.as_ref().and_then(|status| status.ready) {
                    body["status"] = json!({"readyToUse": had});
                }
            }
            _ => {}
        }
    }

    /// Whether it notices contents only once.
    pub(in super::super) fn overhears(self) -> bool {
        self == Self::OverhearsContents
    }

    /// Whether a change of a class reaches a faulty snapshotter.
    pub(in super::super) fn hears_of_classes(self) -> bool {
        self != Self::ForgetsForeignClasses
    }

    /// Whether the answer to its own write reaches the cache of a faulty snapshotter.
    pub(in super::super) fn knows_its_writes(self) -> bool {
        self != Self::ForgetsOwnWrites
    }

    /// Whether a faulty snapshotter tries again.
    pub(in super::super) fn retries(self, verdict: &Verdict<Retry>) -> bool {
        match (self, verdict) {
            (Self::ForgetsRetries, Verdict::Retry { failure, .. }) => {
                !matches!(failure, Retry::Failed(_))
            }
            (Self::ForgetsUnready, Verdict::Retry { failure, .. }) => *failure != Retry::NotReady,
            (_, _) => true,
        }
    }

    /// The verdict as a faulty snapshotter understands it.
    pub(in super::super) fn judges(self, verdict: Verdict<Retry>) -> Verdict<Retry> {
        match (self, verdict) {
            (
                Self::TakesImpossibleForFailure,
                Verdict::After {
                    failure: Some(failure),
                    ..
                },
            ) => Verdict::Retry {
                failure,
                hung: false,
            },
            (_, verdict) => verdict,
        }
    }

    /// The wait that a faulty snapshotter chooses itself.
    pub(in super::super) fn hurries(self, verdict: &Verdict<Retry>) -> Option<Duration> {
        match (self, verdict) {
            (Self::RetriesAtOnce, Verdict::Retry { .. } | Verdict::After { .. }) => {
                Some(Duration::ZERO)
            }
            (Self::ForgetsImpossible, Verdict::After { .. }) => Some(Duration::from_secs(1)),
            (_, _) => None,
        }
    }
}
