//! Faulty snapshot-controllers: their input and their requests.

use std::borrow::Cow;
use std::sync::Arc;

use sidecar::controller::request::{Body, Part, Patch};
use sidecar::snapshot::{CONTENT_BOUND, SNAPSHOT_AS_SOURCE, SNAPSHOT_IN_USE};
use sidecar::text::Text;
use snapshot_controller::model::{Content, MISSING, Snapshot, Source};
use snapshot_controller::plan::request::{ApiError, Object, Refusal, Reply, Request};
use snapshotter::model::Policy;

use super::Mutant;

/// Whether the status says that the content is gone.
fn is_lost(snapshot: &Snapshot) -> bool {
    let status = snapshot.status.as_deref();
    let error = status.and_then(|status| status.error.as_ref());
    error.and_then(|error| error.message.as_deref()) == Some(MISSING)
}

/// Adds a finalizer.
fn hold(snapshot: &mut Snapshot, finalizer: &str) {
    let held = snapshot.finalizers.iter().cloned();
    snapshot.finalizers = held.chain([finalizer.into()]).collect();
}

impl Mutant {
    /// The VolumeSnapshot as a faulty controller sees it.
    pub(in super::super) fn sees_snapshot(self, snapshot: &Arc<Snapshot>) -> Arc<Snapshot> {
        let mut arc = Arc::clone(snapshot);
        if self == Self::None {
            return arc;
        }
        let seen = Arc::make_mut(&mut arc);
        match self {
            Self::DeletesForTheLiving if seen.is_ready() => seen.deleting = true,
            Self::FreesMembers if seen.deleting => {
                seen.owners = None;
                if let Some(status) = &mut seen.status {
                    status.group = None;
                }
            }
            Self::TakesAnew if is_lost(seen) => {
                if let Some(status) = &mut seen.status {
                    status.creation_time = None;
                    status.restore_size = None;
                }
            }
            Self::AdoptsWhatIsLoose if seen.owners.is_none() => {
                let bound = seen.bound().cloned();
                let named = seen.status.as_mut().and_then(|status| status.group.take());
                if let Some(bound) = bound.filter(|_| named.is_some()) {
                    seen.source = Source::Content(bound);
                }
            }
            Self::ForgetsWhatIsBound if !seen.is_ready() && !seen.deleting => {
                if let Some(status) = &mut seen.status {
                    status.bound = None;
                }
            }
            Self::WaitsForStrangers => hold(seen, SNAPSHOT_IN_USE),
            _ => {}
        }
        arc
    }

    /// The content as a faulty controller sees it.
    pub(in super::super) fn sees_content(self, content: &Arc<Content>) -> Arc<Content> {
        let mut seen = Arc::clone(content);
        match self {
            Self::IgnoresPolicy => {
                Arc::make_mut(&mut seen).policy = Policy::Delete;
            }
            Self::ForgetsToAnnounce => Arc::make_mut(&mut seen).being_deleted = true,
            Self::CallsReadyEarly => {
                if let Some(status) = &mut Arc::make_mut(&mut seen).status {
                    status.ready = Some(true);
                }
            }
            Self::ResetsMembers if seen.group.is_some() => {
                if let Some(status) = &mut Arc::make_mut(&mut seen).status {
                    status.is_taken = false;
                }
            }
            Self::LeavesContentsBare | Self::PostsWithoutFinalizer => {
                Arc::make_mut(&mut seen).finalizers = Arc::new([CONTENT_BOUND.into()]);
            }
            _ => {}
        }
        seen
    }

    /// The change of a VolumeSnapshot as a faulty controller notices it.
    pub(in super::super) fn hears_snapshot(self, snapshot: &Snapshot) -> Cow<'_, Snapshot> {
        let mut heard = Cow::Borrowed(snapshot);
        match self {
            Self::OverhearsOwners => heard.to_mut().owners = None,
            Self::CountsWhatIsLost => {
                if let Some(status) = &mut heard.to_mut().status {
                    status.error = None;
                }
            }
            Self::CountsWhatNeverBegan if !heard.holds(SNAPSHOT_AS_SOURCE) => {
                hold(heard.to_mut(), SNAPSHOT_AS_SOURCE);
            }
            _ => {}
        }
        heard
    }

    pub(in super::super) fn controller_wants(
        self,
        mut request: Request,
        deleting: impl Fn(&str) -> bool,
        other: Option<Text>,
    ) -> Request {
        let Request::Write(write) = &mut request else {
            return request;
        };
        match (self, &write.object, &mut write.body) {
            (Self::DeletesAnything, _, Body::Delete(version)) => *version = None,
            (Self::PostsWithoutFinalizer, _, Body::Create(body)) => {
                if let Some(metadata) = body["metadata"].as_object_mut() {
                    metadata.remove("finalizers");
                }
            }
            (
                Self::PatchesAnything,
                Object::Snapshot(_),
                Body::Patch(Part::Main, Patch::Merge(patch)),
            ) => {
                if let Some(metadata) = patch["metadata"].as_object_mut() {
                    metadata.remove("resourceVersion");
                }
            }
            (
                Self::FreesForOthers,
                Object::Snapshot(key),
                Body::Patch(Part::Main, Patch::Merge(patch)),
            ) if deleting(key) => {
                patch["metadata"]["finalizers"] = serde_json::Value::Null;
            }
            _ => self.wants_of_member(write, other),
        }
        request
    }

    pub(in super::super) fn controller_hears(self, reply: Reply) -> Reply {
        match (self, reply) {
            (Self::TrustsTheCache, Reply::Get(of @ Object::Content(_), _))
            | (Self::TrustsTheCacheOfGroups, Reply::Get(of @ Object::GroupContent(_), _)) => {
                let error = ApiError {
                    message: "not found".to_owned(),
                    refusal: Refusal::NotFound,
                };
                Reply::Get(of, Err(error))
            }
            (Self::TellsOfConflicts, Reply::Write(write, Err(mut error)))
                if error.is_conflict() =>
            {
                error.refusal = Refusal::Other;
                Reply::Write(write, Err(error))
            }
            (_, reply) => reply,
        }
    }
}
