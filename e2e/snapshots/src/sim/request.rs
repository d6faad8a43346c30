//! Requests of either program to the API server.

use sidecar::controller::request::{self, Body, Part, Requests};
use sidecar::text::Text;
use sidecar_testkit::sim::server::Refused;

use super::kind::{Kind, Server};

#[derive(Clone, Debug)]
pub(super) enum Request {
    Read(Kind, Text),
    /// The claims of a namespace that a label selector selects.
    Select(Text, Text),
    Write(Write),
}

/// A write of the object of this kind and key.
#[derive(Clone, Debug)]
pub(super) struct Write {
    pub(super) kind: Kind,
    pub(super) key: Text,
    uid: Option<Text>,
    pub(super) body: Body,
}

impl Request {
    /// A program's write of the object of this kind and key.
    pub(super) fn write<R: Requests>(kind: Kind, key: Text, write: &request::Write<R>) -> Self {
        Self::Write(Write {
            kind,
            key,
            uid: write.uid.clone(),
            body: write.body.clone(),
        })
    }

    /// The object of the request, unless it lists.
    pub(super) fn about(&self) -> Option<(Kind, &Text)> {
        match self {
            Self::Read(kind, key) | Self::Write(Write { kind, key, .. }) => Some((*kind, key)),
            Self::Select(..) => None,
        }
    }

    pub(super) fn is_write(&self) -> bool {
        matches!(self, Self::Write(_))
    }

    pub(super) fn is_delete(&self) -> bool {
        matches!(self, Self::Write(write) if matches!(write.body, Body::Delete(_)))
    }

    pub(super) fn apply(&self, server: &mut Server) -> Result<Text, Refused> {
        match self {
            Self::Read(kind, key) => server.read(*kind, key),
            Self::Select(namespace, selector) => {
                Ok(server.select(Kind::Claim, namespace, selector))
            }
            Self::Write(write) => {
                server.write(write.kind, &write.key, write.uid.as_deref(), &write.body)
            }
        }
    }

    /// Whether it arrives before its process sends another write of the same object, and before its successor
    /// lists: the controller relies on that.
    pub(super) fn comes_in_order(&self) -> bool {
        let Self::Write(write) = self else {
            return false;
        };
        match (write.kind, &write.body) {
            (_, Body::Create(_) | Body::Replace(_) | Body::Edit(_)) => true,
            (Kind::Content | Kind::GroupContent, Body::Patch(Part::Main, patch)) => {
                !patch.body()["spec"].is_null()
            }
            (_, Body::Patch(..) | Body::Delete(_)) => false,
        }
    }
}
