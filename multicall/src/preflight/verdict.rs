//! The verdicts and remarks of preflight.

use super::container::Container;
use super::program::{Program, Read};
use super::roles::Account;

/// The effort of changing the image; the worst remark decides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Verdict {
    /// Replace the image, and nothing else.
    #[default]
    Swap,
    /// A fact that decides could not be seen.
    Unknown,
    /// Something gets lost.
    Loss,
    /// Something must be changed first.
    Change,
    /// Another image alone does not work.
    Cannot,
}

impl Verdict {
    /// The wording in the output, for people and in JSON.
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

/// One finding.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Remark {
    /// The specification's row, such as `P-1`.
    pub(crate) row: &'static str,
    pub(crate) verdict: Verdict,
    pub(crate) text: String,
    /// The remedy; empty if none is needed.
    pub(crate) way: String,
    /// File and line, if the finding has a place.
    pub(crate) place: Option<String>,
}

impl Remark {
    /// A finding that does not stand in the way.
    pub(crate) fn note(row: &'static str, text: impl Into<String>) -> Self {
        Self {
            row,
            text: text.into(),
            ..Self::default()
        }
    }

    /// A finding that stands in the way.
    pub(crate) fn new(row: &'static str, verdict: Verdict, text: impl Into<String>) -> Self {
        Self {
            verdict,
            ..Self::note(row, text)
        }
    }

    /// Adds the remedy.
    pub(crate) fn way(mut self, way: impl Into<String>) -> Self {
        self.way = way.into();
        self
    }

    /// Adds the place.
    pub(crate) fn at(mut self, place: Option<String>) -> Self {
        self.place = place;
        self
    }
}

/// The user's plan for the change.
#[derive(Clone, Debug, Default)]
pub(crate) struct Plan {
    /// The registry of our images; empty if not given.
    pub(crate) registry: String,
    /// Kubernetes' minor version, if known.
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

    /// Whether this is one of our images already.
    pub(crate) fn is_ours(&self, image: &str) -> bool {
        let registry = self.registry.trim_end_matches('/');
        !registry.is_empty()
            && image
                .strip_prefix(registry)
                .is_some_and(|rest| rest.starts_with('/'))
    }
}

/// The subject of a check: one container with its surroundings.
pub(crate) struct Case<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) input: &'a super::input::Input,
    pub(crate) container: &'a Container<'a>,
    pub(crate) program: &'static Program,
    /// The result of the command line; `None` if the program refuses it.
    pub(crate) read: Option<(sidecar::flags::Values, Read)>,
    pub(crate) account: &'a Account<'a>,
}

impl Case<'_> {
    /// The place where the container's document contains `needle`.
    pub(crate) fn place(&self, needle: &str) -> Option<String> {
        self.input.place(self.container.workload, needle)
    }
}

/// A container with all findings about it.
#[derive(Debug)]
pub(crate) struct Answer {
    /// `Deployment csi/controller`.
    pub(crate) workload: String,
    pub(crate) container: String,
    /// Empty for a container that is none of ours.
    pub(crate) program: &'static str,
    pub(crate) remarks: Vec<Remark>,
}

impl Answer {
    /// The worst verdict.
    pub(crate) fn verdict(&self) -> Verdict {
        let verdicts = self.remarks.iter().map(|remark| remark.verdict);
        verdicts.max().unwrap_or_default()
    }
}
