//! Formats answers.
//!
//! | file | holds |
//! |---|---|
//! | `audit` | the result of an audit, for people and for programs |
//! | `controllers` | what controllers say |
//! | `human` | for people: one sentence for the fault, one for the reason, then the remedies |
//! | `json` | for programs |

mod audit;
mod controllers;
mod human;
mod json;

use sidecar::redact;

use crate::model::Ref;
use crate::plan::{Audit, Overview, Verdict};

pub use human::Style;

/// The output format.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// For people.
    #[default]
    Human,
    /// For programs.
    Json,
    /// Only the names of objects.
    Name,
}

/// The answer about one object.
#[must_use]
pub fn verdict(verdict: &Verdict, format: Format, style: Style) -> String {
    match format {
        Format::Human => human::verdict(verdict, style),
        Format::Json => json::verdict(verdict),
        Format::Name => names(verdict.causes.iter().map(|cause| &cause.object)),
    }
}

/// Everything that is stuck.
#[must_use]
pub fn overview(overview: &Overview, place: &str, format: Format, style: Style) -> String {
    match format {
        Format::Human => human::overview(overview, place, style),
        Format::Json => json::overview(overview),
        Format::Name => names(overview.found.iter().flat_map(|found| &found.subjects)),
    }
}

/// The differences between storage and cluster.
#[must_use]
pub fn audit(audit: &Audit, format: Format, style: Style) -> String {
    match format {
        Format::Human => audit::human(audit, style),
        Format::Json => audit::json(audit),
        Format::Name => audit::handles(audit),
    }
}

/// An error that may quote a driver, redacted.
#[must_use]
pub fn error(error: &dyn std::error::Error) -> String {
    redact::words(&error.to_string())
}

/// One object a line, as kubectl accepts it as an argument.
fn names<'a>(objects: impl Iterator<Item = &'a Ref>) -> String {
    let mut text = String::new();
    for object in objects {
        let group = match object.kind.group() {
            "" => String::new(),
            group => format!(".{group}"),
        };
        let kind = object.kind.name().to_lowercase();
        let namespace = match &*object.namespace {
            "" => String::new(),
            namespace => format!(" -n {}", redact::plain(namespace)),
        };
        let name = redact::plain(&object.name);
        text.push_str(&format!("{kind}{group}/{name}{namespace}\n"));
    }
    text
}
