//! Faulty csi-snapshotters: their input and their requests.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use sidecar::controller::reactor::Verdict;
use sidecar::controller::request::{Body, Patch};
use sidecar::snapshot::{CONTENT_BOUND, YES};
use sidecar::text::Text;
use snapshotter::model::{Class, Content, Kind, Policy};
use snapshotter::plan::patch;
use snapshotter::plan::reactor::Retry;
use snapshotter::plan::request::{self, Call, ContentWrite, Purpose, Request, StatusWrite};

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
            Self::LeavesMark if seen.handle().is_some() && !seen.deleting => {
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
        let write = |what, body| Request::Write(request::patch(name, Purpose::Content(what), body));
        match (self, request) {
            (Self::UnmarksFirst, Request::Write(asked))
                if matches!(asked.purpose, Purpose::Status(StatusWrite::Report(_)))
                    && content.being_created =>
            {
                write(ContentWrite::Unmark, patch::unmark(content))
            }
            (Self::UnmarksGroupsFirst, Request::Write(asked))
                if matches!(asked.purpose, Purpose::Status(StatusWrite::Report(_)))
                    && content.being_created
                    && content.kind() == Kind::Group =>
            {
                write(ContentWrite::Unmark, patch::unmark(content))
            }
            (Self::ReleasesFirst, Request::Call(Call::Delete(_))) if content.is_protected() => {
                write(ContentWrite::Release, patch::release(content))
            }
            (Self::ClearsFirst, request @ Request::Call(Call::Delete(_))) => {
                match patch::clear(content) {
                    Some(body) => {
                        let purpose = Purpose::Status(StatusWrite::Clear);
                        Request::Write(request::patch(name, purpose, body))
                    }
                    None => request,
                }
            }
            (Self::NamesAnew, Request::Call(Call::Create(mut call))) => {
                call.name = format!("{}-{}", call.name, content.version);
                Request::Call(Call::Create(call))
            }
            (_, Request::Write(mut asked)) => {
                let metadata = matches!(asked.purpose, Purpose::Content(_));
                let marks = asked.purpose == Purpose::Content(ContentWrite::Mark);
                if let Body::Patch(_, Patch::Merge(body)) = &mut asked.body
                    && metadata
                {
                    self.writes(marks, body, content);
                }
                self.wants_of_group(Request::Write(asked), content)
            }
            (_, request) => self.wants_of_group(request, content),
        }
    }

    /// Changes a patch of metadata as a faulty snapshotter writes it. `marks`: it is the one before a call.
    fn writes(self, marks: bool, body: &mut Value, content: &Content) {
        match self {
            Self::ForgetsMark if marks => {
                if let Some(metadata) = body["metadata"].as_object_mut() {
                    metadata.remove("annotations");
                    metadata.insert("finalizers".to_owned(), [CONTENT_BOUND].as_slice().into());
                }
            }
            Self::PatchesAnyVersion => {
                if let Some(metadata) = body["metadata"].as_object_mut() {
                    metadata.remove("resourceVersion");
                }
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
            (Self::ForgetsRetries, _) => false,
            (Self::ForgetsUnready, Verdict::Retry { failure, .. }) => *failure != Retry::NotReady,
            (_, _) => true,
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
