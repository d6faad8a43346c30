//! A demonstration as a list of steps, each printed with its duration.

use std::io::{IsTerminal, Write, stdout};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::interrupt;
use crate::suite::say;

/// The steps so far.
#[derive(Debug)]
pub struct Story {
    began: Instant,
    steps: Vec<(String, Duration)>,
}

impl Default for Story {
    fn default() -> Self {
        Self {
            began: Instant::now(),
            steps: Vec::new(),
        }
    }
}

impl Story {
    /// Runs one step and prints its line; an error names the step.
    pub fn step<T>(&mut self, what: &str, act: impl FnOnce() -> Result<T>) -> Result<T> {
        interrupt::check()?;
        announce(what);
        let start = Instant::now();
        let done = act().with_context(|| format!("step failed: {what}"))?;
        let took = start.elapsed();
        self.steps.push((what.to_owned(), took));
        say(&format!("{}  {:6.2} s  {what}", anew(), took.as_secs_f64()));
        Ok(done)
    }

    /// Prints a fact about the previous step.
    pub fn note(&self, fact: &str) {
        say(&format!("            {fact}"));
    }

    /// Number of steps, and time since the start.
    pub fn total(&self) -> (usize, Duration) {
        (self.steps.len(), self.began.elapsed())
    }
}

/// Shows the current step at a terminal; the step's line will replace it.
fn announce(what: &str) {
    let mut out = stdout().lock();
    if out.is_terminal() {
        let _ = write!(out, "    ...     {what}");
        let _ = out.flush();
    }
}

/// Returns to the beginning of the announced line.
fn anew() -> &'static str {
    if stdout().is_terminal() {
        "\r\x1b[K"
    } else {
        ""
    }
}
