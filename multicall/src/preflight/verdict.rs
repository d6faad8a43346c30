//! What preflight says.

use super::container::Container;
use super::program::{Program, Read};
use super::roles::Account;

/// What changing the image comes to; the worst remark decides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Verdict {
    /// Another image, and nothing else.
    #[default]
    Swap,
    /// Something that it depends on could not be seen.
    Unknown,
    /// Something is less than before.
    Loss,
    /// Something has to be changed first.
    Change,
    /// Not with another image.
    Cannot,
}

impl Verdict {
    /// As people and JSON have it.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::Swap => "swap",
            Self::Unknown => "unknown",
            Self::Loss => "swap with loss",
            Self::Change => "change first",
            Self::Cannot => "cannot",
        }
    }
}

/// One thing that is said.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Remark {
    /// `P-1` …: a contract.
    pub(crate) row: &'static str,
    pub(crate) verdict: Verdict,
    pub(crate) text: String,
    /// What to do about it; empty: nothing.
    pub(crate) way: String,
    /// File and line, if it is about one.
    pub(crate) place: Option<String>,
}

impl Remark {
    /// Nothing is against the change.
    pub(crate) fn note(row: &'static str, text: impl Into<String>) -> Self {
        Self {
            row,
            text: text.into(),
            ..Self::default()
        }
    }

    /// Something is against it.
    pub(crate) fn new(row: &'static str, verdict: Verdict, text: impl Into<String>) -> Self {
        Self {
            verdict,
            ..Self::note(row, text)
        }
    }

    /// What to do about it.
    pub(crate) fn way(mut self, way: impl Into<String>) -> Self {
        self.way = way.into();
        self
    }

    /// Where it stands.
    pub(crate) fn at(mut self, place: Option<String>) -> Self {
        self.place = place;
        self
    }
}

/// What the user says of the change.
#[derive(Clone, Debug, Default)]
pub(crate) struct Plan {
    /// Where our images are; empty: not said.
    pub(crate) registry: String,
    /// Minor version of Kubernetes, if it is known.
    pub(crate) kubernetes: Option<u32>,
}

impl Plan {
    /// The image of a program.
    pub(crate) fn image(&self, program: &str) -> String {
        let registry = match &*self.registry {
            "" => "REGISTRY",
            registry => registry.trim_end_matches('/'),
        };
        format!("{registry}/{program}:VERSION")
    }

    /// Whether an image is one of ours already.
    pub(crate) fn is_ours(&self, image: &str) -> bool {
        let registry = self.registry.trim_end_matches('/');
        !registry.is_empty()
            && image
                .strip_prefix(registry)
                .is_some_and(|rest| rest.starts_with('/'))
    }
}

/// What checks of a container look at.
pub(crate) struct Case<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) input: &'a super::input::Input,
    pub(crate) container: &'a Container<'a>,
    pub(crate) program: &'static Program,
    /// What the command line comes to; none: it is refused.
    pub(crate) read: Option<(sidecar::flags::Values, Read)>,
    pub(crate) account: &'a Account<'a>,
}

impl Case<'_> {
    /// Where the container's document names something.
    pub(crate) fn place(&self, needle: &str) -> Option<String> {
        self.input.place(self.container.workload, needle)
    }
}

/// A container, and all that is said of it.
#[derive(Debug)]
pub(crate) struct Answer {
    /// `Deployment csi/controller`.
    pub(crate) workload: String,
    pub(crate) container: String,
    /// Empty: none of ours.
    pub(crate) program: &'static str,
    pub(crate) remarks: Vec<Remark>,
}

impl Answer {
    /// The worst of it.
    pub(crate) fn verdict(&self) -> Verdict {
        let verdicts = self.remarks.iter().map(|remark| remark.verdict);
        verdicts.max().unwrap_or_default()
    }
}
