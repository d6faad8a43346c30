//! Faulty health monitors, each of which must be caught.

use sidecar::controller::request::Body;

use super::world::Faults;
use crate::plan::request::{Called, Found, Reply, Request};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mutant {
    None,
    /// Writes to any claim of that name.
    WritesByName,
    /// Takes an error about a volume as a healthy volume.
    TakesErrorsForHealth,
    /// Takes a failed list as complete.
    TakesFailedListsForComplete,
    /// Takes the first page as the whole list.
    ReadsOnePage,
    /// Believes that the API server stores conditions that it drops.
    BelievesEveryAnswer,
    /// Does not store its own writes in the cache.
    ForgetsOwnWrites,
    /// Ignores deleted volumes.
    MissesTheEndOfVolumes,
    /// Ignores the work that a cycle makes due.
    NeverAsks,
    /// Retries without back-off.
    RetriesAtOnce,
    /// Sends no events.
    TellsNobody,
    /// Writes conditions that the driver did not report.
    WritesAnotherReason,
    /// Ignores earlier events, and treats every claim as one with an event.
    TakesAllForTold,
}

impl Mutant {
    /// The faults under which each must be caught, and the violation that catches it.
    pub(super) const CAUGHT_BY: [(Self, Faults, &'static str); 12] = [
        (Self::WritesByName, Faults::All, "bound to another"),
        (Self::TakesErrorsForHealth, Faults::All, "did not report"),
        (
            Self::TakesFailedListsForComplete,
            Faults::All,
            "did not report",
        ),
        (Self::ReadsOnePage, Faults::None, "did not report"),
        (Self::BelievesEveryAnswer, Faults::All, "drops"),
        (Self::ForgetsOwnWrites, Faults::None, "written twice"),
        (Self::MissesTheEndOfVolumes, Faults::None, "remembers"),
        (Self::NeverAsks, Faults::None, "at rest"),
        (Self::RetriesAtOnce, Faults::All, "does not end"),
        (Self::TellsNobody, Faults::None, "were not told"),
        (Self::WritesAnotherReason, Faults::None, "did not report"),
        (
            Self::TakesAllForTold,
            Faults::None,
            "recovery of what they did not hear of",
        ),
    ];

    /// The mutant's version of the request.
    pub(super) fn decides(self, mut request: Request) -> Option<Request> {
        match &mut request {
            Request::Write(write) if self == Self::WritesByName => write.uid = None,
            Request::Write(write) if self == Self::WritesAnotherReason => {
                if let Body::Patch(part, patch) = &write.body {
                    let body = patch
                        .body()
                        .to_string()
                        .replace("\"reason\":\"A\"", "\"reason\":\"X\"");
                    let body = serde_json::from_str(&body).unwrap();
                    write.body =
                        Body::Patch(*part, sidecar::controller::request::Patch::Merge(body));
                }
            }
            Request::Event(_) if self == Self::TellsNobody => return None,
            Request::Write(_)
            | Request::Event(_)
            | Request::Get(_)
            | Request::Secret(_)
            | Request::Call(_) => {}
        }
        Some(request)
    }

    /// The mutant's version of the reply.
    pub(super) fn hears(self, reply: Reply, uids: Vec<crate::model::Uid>) -> Reply {
        match (self, reply) {
            (Self::TakesErrorsForHealth, Reply::Call(Called::GetHealth(call, Err(_)), took)) => {
                Reply::Call(Called::GetHealth(call, Ok(Default::default())), took)
            }
            (
                Self::TakesFailedListsForComplete,
                Reply::Call(Called::ListHealth(call, Err(_)), took),
            ) => Reply::Call(Called::ListHealth(call, Ok(Default::default())), took),
            (Self::ReadsOnePage, Reply::Call(Called::ListHealth(call, Ok(mut page)), took)) => {
                page.next_token.clear();
                Reply::Call(Called::ListHealth(call, Ok(page)), took)
            }
            (Self::BelievesEveryAnswer, Reply::Write(write, Ok(_))) => {
                Reply::Write(write, Ok(Found::Claim { unhealthy: true }))
            }
            (Self::TakesAllForTold, Reply::Get(object, Ok(_))) => {
                Reply::Get(object, Ok(Found::Events(uids)))
            }
            (_, reply) => reply,
        }
    }
}
