//! Errors with their causes on one line.
//!
//! `Display` of an error names the failure and not its cause; logs and status messages want the
//! whole chain, which is put together only here.

use std::error::Error;
use std::fmt;

/// Shows an error and all its causes, separated by `: `.
///
/// ```
/// use sidecar::error::Chain;
/// let error = std::io::Error::other("boom");
/// assert_eq!(Chain(&error).to_string(), "boom");
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Chain<'a>(pub &'a (dyn Error + 'static));

impl fmt::Display for Chain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = self.0.to_string();
        f.write_str(&shown)?;
        let mut cause = self.0.source();
        while let Some(error) = cause {
            let text = error.to_string();
            // Libraries often repeat their cause; print it once.
            if !text.is_empty() && !shown.ends_with(&text) {
                write!(f, ": {text}")?;
                shown = text;
            }
            cause = error.source();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("cannot open {0}")]
    struct Outer(&'static str, #[source] std::io::Error);

    #[test]
    fn shows_every_cause_once() {
        let error = Outer("/x", std::io::Error::other("no such file"));
        assert_eq!(Chain(&error).to_string(), "cannot open /x: no such file");
    }

    #[test]
    fn does_not_repeat_a_cause_that_is_already_in_the_text() {
        #[derive(Debug, thiserror::Error)]
        #[error("failed: {0}")]
        struct Repeats(#[source] std::io::Error);
        let error = Repeats(std::io::Error::other("boom"));
        assert_eq!(Chain(&error).to_string(), "failed: boom");
    }
}
