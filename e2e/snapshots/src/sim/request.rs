//! Requests to the API server, whichever program makes them, and what each does.

use serde_json::Value;
use sidecar::text::Text;
use sidecar_testkit::sim::server::{Part, Refused};

use super::kind::{Kind, Server};

#[derive(Clone, Debug)]
pub(super) enum Request {
    Read(Kind, Text),
    /// The claims of a namespace that a label selector selects.
    Select(Text, Text),
    Patch(Kind, Text, Part, Value),
    Create(Kind, Text, Value),
    /// Of exactly this UID and version, if that is said.
    Delete(Kind, Text, Option<(Text, Text)>),
    Put(Kind, Text, Text),
}

impl Request {
    /// The object that it is about, if it is one.
    pub(super) fn about(&self) -> Option<(Kind, &Text)> {
        match self {
            Self::Read(kind, key)
            | Self::Patch(kind, key, ..)
            | Self::Create(kind, key, _)
            | Self::Delete(kind, key, _)
            | Self::Put(kind, key, _) => Some((*kind, key)),
            Self::Select(..) => None,
        }
    }

    pub(super) fn is_write(&self) -> bool {
        !matches!(self, Self::Read(..) | Self::Select(..))
    }

    pub(super) fn apply(&self, server: &mut Server) -> Result<Text, Refused> {
        match self {
            Self::Read(kind, key) => server.read(*kind, key),
            Self::Select(namespace, selector) => Ok(selected(server, namespace, selector)),
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
            Self::Patch(Kind::Content | Kind::GroupContent, _, Part::Main, patch) => {
                !patch["spec"].is_null()
            }
            Self::Read(..) | Self::Select(..) | Self::Patch(..) | Self::Delete(..) => false,
        }
    }
}

/// Names of the claims of a namespace that a selector selects, one a line.
fn selected(server: &Server, namespace: &str, selector: &str) -> Text {
    let fits = |labels: &Value| {
        let mut terms = selector.split(',');
        terms.all(|term| match term.split_once('=') {
            Some((key, value)) => labels[key] == value,
            None => labels[term].is_string(),
        })
    };
    let all = server.all(Kind::Claim).filter(|(_, claim)| {
        claim["metadata"]["namespace"] == namespace && fits(&claim["metadata"]["labels"])
    });
    let names = all.filter_map(|(_, claim)| claim["metadata"]["name"].as_str());
    names.collect::<Vec<_>>().join("\n").into()
}
