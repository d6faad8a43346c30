//! Which Secret a class names for the calls on a content, and why it does not.

use std::fmt;

use crate::log::quote;
use crate::secret::{self, Part};

/// A class does not say clearly which Secret it means. Users know upstream's words, and search for them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unclear {
    /// What users call such Secrets.
    pub called: &'static str,
    /// Why.
    pub why: secret::Unclear,
}

impl fmt::Display for Unclear {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        const TEMPLATES: &str = "failed to get name and namespace template from params";
        let called = self.called;
        match &self.why {
            secret::Unclear::Half { .. } => write!(
                out,
                "{TEMPLATES}: either name and namespace for {called} secrets specified, Both must be \
                 specified"
            ),
            secret::Unclear::Empty(_) => write!(
                out,
                "{TEMPLATES}: {called} secrets specified in parameters but value of either namespace \
                 or name is empty"
            ),
            secret::Unclear::Tokens(_, text, unknown) => {
                write!(out, "error resolving value {}: {unknown}", quote(text))
            }
            secret::Unclear::Invalid {
                part,
                template,
                resolved,
                ..
            } => {
                out.write_str(&quote(template))?;
                if template != resolved {
                    write!(out, " resolved to {} which", quote(resolved))?;
                }
                out.write_str(match part {
                    Part::Name => " is not a valid secret name",
                    Part::Namespace => " is not a valid namespace name",
                })
            }
        }
    }
}

impl std::error::Error for Unclear {}
