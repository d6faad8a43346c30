//! Requests to the API server, whichever program makes them, and what each does.

use serde_json::Value;
use sidecar::snapshot::{
    BEING_CREATED, BEING_DELETED, CLAIM_AS_SOURCE, SNAPSHOT_AS_SOURCE, SNAPSHOT_BOUND,
};
use sidecar::text::Text;
use sidecar_testkit::sim::server::{Part, Refused, finalizers};

use super::kind::{Kind, Server};

#[derive(Clone, Debug)]
pub(super) enum Request {
    Read(Kind, Text),
    Patch(Kind, Text, Part, Value),
    Create(Kind, Text, Value),
    /// Of exactly this UID and version, if that is said.
    Delete(Kind, Text, Option<(Text, Text)>),
    Put(Kind, Text, Text),
}

/// What an attempt has brought about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    ProtectsSnapshot,
    ProtectsBound,
    ChoosesClass,
    ProtectsClaim,
    FreesClaim,
    MakesContent,
    ShowsBound,
    Follows,
    Complains,
    Binds,
    ProtectsContent,
    Announces,
    DeletesContent,
    FreesSnapshot,
    Marks,
    /// The driver has taken it.
    Takes,
    Reports,
    /// What is in the status already is reported again.
    ReportsMore,
    Unmarks,
    /// After a final error: nothing is in doubt, and nothing there.
    GivesUp,
    /// Why is in the status.
    Tells,
    /// The driver has deleted it.
    Removes,
    Clears,
    LetsGo,
}

impl Request {
    pub(super) fn about(&self) -> (Kind, &Text) {
        match self {
            Self::Read(kind, key)
            | Self::Patch(kind, key, ..)
            | Self::Create(kind, key, _)
            | Self::Delete(kind, key, _)
            | Self::Put(kind, key, _) => (*kind, key),
        }
    }

    pub(super) fn is_write(&self) -> bool {
        !matches!(self, Self::Read(..))
    }

    pub(super) fn apply(&self, server: &mut Server) -> Result<Text, Refused> {
        match self {
            Self::Read(kind, key) => server.read(*kind, key),
            Self::Patch(kind, key, part, body) => server.patch(*kind, key, *part, body),
            Self::Create(kind, _, body) => server.create(*kind, body.clone()),
            Self::Delete(kind, key, exactly) => {
                let exactly = exactly.as_ref().map(|(uid, version)| (&**uid, &**version));
                server.delete(*kind, key, exactly)
            }
            Self::Put(kind, key, json) => server.put(*kind, key, json),
        }
    }

    /// Whether it arrives before its process sends the next one about the same, and before its successor
    /// lists: the controller relies on that.
    pub(super) fn comes_in_order(&self) -> bool {
        match self {
            Self::Create(..) | Self::Put(..) => true,
            Self::Patch(Kind::Content, _, Part::Main, patch) => !patch["spec"].is_null(),
            Self::Read(..) | Self::Patch(..) | Self::Delete(..) => false,
        }
    }

    /// What it does to what was there `before`.
    pub(super) fn effect(&self, before: Option<&Value>) -> Option<Effect> {
        let had = |one: &str| {
            let held = before.map(finalizers).unwrap_or_default();
            held.iter().any(|held| held == one)
        };
        match self {
            Self::Read(..) => None,
            Self::Create(..) => Some(Effect::MakesContent),
            Self::Delete(..) => Some(Effect::DeletesContent),
            Self::Put(..) if had(CLAIM_AS_SOURCE) => Some(Effect::FreesClaim),
            Self::Put(..) => Some(Effect::ProtectsClaim),
            Self::Patch(Kind::Snapshot, _, Part::Main, patch) => {
                let gets = |one: &str| finalizers(patch).iter().any(|held| held == one);
                Some(if !patch["spec"].is_null() {
                    Effect::ChoosesClass
                } else if gets(SNAPSHOT_BOUND) && !had(SNAPSHOT_BOUND) {
                    Effect::ProtectsBound
                } else if gets(SNAPSHOT_AS_SOURCE) && !had(SNAPSHOT_AS_SOURCE) {
                    Effect::ProtectsSnapshot
                } else {
                    Effect::FreesSnapshot
                })
            }
            Self::Patch(Kind::Snapshot, _, Part::Status, patch) => {
                let bound = &patch["status"]["boundVolumeSnapshotContentName"];
                Some(if bound.is_string() {
                    Effect::ShowsBound
                } else if patch["status"]["error"].is_object() {
                    Effect::Complains
                } else {
                    Effect::Follows
                })
            }
            Self::Patch(_, _, Part::Main, patch) => {
                let handle = before.map(|before| &before["status"]["snapshotHandle"]);
                let has_handle = handle.is_some_and(Value::is_string);
                let annotations = patch["metadata"]["annotations"].as_object();
                let mark = annotations.and_then(|all| all.get(BEING_CREATED));
                let told = annotations.is_some_and(|all| all.contains_key(BEING_DELETED));
                Some(match mark {
                    _ if !patch["spec"].is_null() => Effect::Binds,
                    _ if told => Effect::Announces,
                    Some(Value::Null) if has_handle => Effect::Unmarks,
                    Some(Value::Null) => Effect::GivesUp,
                    Some(_) => Effect::Marks,
                    None if had(sidecar::snapshot::CONTENT_BOUND) => Effect::LetsGo,
                    None => Effect::ProtectsContent,
                })
            }
            Self::Patch(_, _, Part::Status, patch) => {
                let handle = patch["status"].get("snapshotHandle");
                let before = before.unwrap_or(&Value::Null);
                let marked = before["metadata"]["annotations"][BEING_CREATED].is_string();
                Some(match handle {
                    Some(Value::Null) => Effect::Clears,
                    Some(_) if marked => Effect::Reports,
                    _ if patch["status"]["error"].is_object() => Effect::Tells,
                    Some(_) | None => Effect::ReportsMore,
                })
            }
        }
    }
}
