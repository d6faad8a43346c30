//! Runs scenarios one after the other and prints the verdict.

use std::env;
use std::io::{Write, stdout};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context as _, Result, anyhow};

use crate::interrupt;

/// One scenario: a name that states the expected behaviour, and the code.
pub struct Scenario<C> {
    /// A sentence in snake case.
    pub name: &'static str,
    /// Fails with the reason.
    pub run: fn(&C) -> Result<Verdict>,
}

impl<C> std::fmt::Debug for Scenario<C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

/// The result of a scenario that did not fail.
#[derive(Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Everything held.
    Passed,
    /// Everything held; the counts are columns of a table, by name.
    Counted(Vec<(&'static str, String)>),
    /// It could not run here; the reason.
    Skipped(String),
}

/// The scenarios' counts, as a table for people and for documentation.
#[derive(Default)]
struct Table {
    lines: Vec<String>,
    header: Vec<&'static str>,
}

impl Table {
    fn add(&mut self, scenario: &str, columns: Vec<(&'static str, String)>, seconds: f64) {
        let (header, values): (Vec<_>, Vec<_>) = columns.into_iter().unzip();
        if header != self.header {
            self.lines.push(String::new());
            self.lines
                .push(format!("| scenario | {} | seconds |", header.join(" | ")));
            self.lines
                .push(format!("|---{}|---|", "|---".repeat(header.len())));
            self.header = header;
        }
        let values = values.join(" | ");
        self.lines
            .push(format!("| {scenario} | {values} | {seconds:.1} |"));
    }

    fn text(&self) -> String {
        let mut text = self.lines.join("\n");
        if !text.is_empty() {
            text.push('\n');
        }
        text
    }
}

/// Prints a line of the report at once.
pub fn say(line: &str) {
    let mut out = stdout().lock();
    // A closed standard output must not fail a test run.
    let _ = writeln!(out, "{line}");
    let _ = out.flush();
}

/// The whole chain of causes, one a line; a backtrace would hide it.
pub fn reasons(error: &anyhow::Error) -> String {
    let causes: Vec<_> = error.chain().map(|cause| format!("    {cause}")).collect();
    causes.join("\n")
}

/// The beginning of each cause, for the end of a report: the whole stands far above it, and a cause may be a log.
fn excerpt(error: &anyhow::Error) -> String {
    const LINES: usize = 3;
    const CHARACTERS: usize = 240;
    let causes = error.chain().map(ToString::to_string);
    let beginnings = causes.map(|cause| {
        let lines = cause.lines().take(LINES);
        let lines = lines.map(|line| line.chars().take(CHARACTERS).collect::<String>());
        lines
            .map(|line| format!("    {line}"))
            .collect::<Vec<_>>()
            .join("\n")
    });
    beginnings.collect::<Vec<_>>().join("\n")
}

/// The first argument that is no flag: it selects scenarios by a part of their name.
pub fn wanted() -> Option<String> {
    env::args()
        .skip(1)
        .find(|argument| !argument.starts_with('-'))
}

/// Part `number` of `of` parts of all scenarios, which run at the same time on clusters of their own: `--part=1/2`.
/// Every scenario is in exactly one part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Part {
    number: usize,
    of: usize,
}

impl Part {
    const ALL: Self = Self { number: 1, of: 1 };

    fn of_arguments(arguments: impl Iterator<Item = String>) -> Result<Self> {
        let mut named = arguments.filter_map(|one| Some(one.strip_prefix("--part=")?.to_owned()));
        let Some(text) = named.next() else {
            return Ok(Self::ALL);
        };
        let part = text.split_once('/').and_then(|(number, of)| {
            let (number, of) = (number.parse().ok()?, of.parse().ok()?);
            (1..=of).contains(&number).then_some(Self { number, of })
        });
        part.with_context(|| format!("--part={text}: must be like 1/2, the first of two parts"))
    }

    const fn has(self, index: usize) -> bool {
        index % self.of == self.number - 1
    }
}

/// The main function of a program with scenarios: returns the result of `scenarios`, or prints why it could not
/// start or end.
pub fn main(scenarios: fn() -> Result<ExitCode>) -> ExitCode {
    match interrupt::listen().and_then(|()| scenarios()) {
        Ok(code) => code,
        Err(error) => {
            say(&format!("{}\n0 passed, 1 failed", reasons(&error)));
            let stopped = interrupt::behind(&error);
            stopped.map_or(ExitCode::FAILURE, |signal| signal.exit_code().into())
        }
    }
}

/// Runs one scenario and the action after it; returns both results, and the scenario's duration in seconds.
fn carry_out<C>(
    scenario: &Scenario<C>,
    context: &C,
    after: &mut impl FnMut(&str, &str) -> Result<()>,
) -> (Result<Verdict>, f64) {
    let start = Instant::now();
    let outcome = catch_unwind(AssertUnwindSafe(|| (scenario.run)(context)))
        .unwrap_or_else(|_| Err(anyhow!("panicked")));
    let seconds = start.elapsed().as_secs_f64();
    let ending = match &outcome {
        Ok(Verdict::Passed | Verdict::Counted(_)) => "passed",
        Ok(Verdict::Skipped(_)) => "skipped",
        Err(_) => "failed",
    };
    let afterwards = after(scenario.name, ending);
    (
        outcome.and_then(|verdict| afterwards.map(|()| verdict)),
        seconds,
    )
}

/// Runs the selected scenarios and prints `N passed, N failed, N skipped` at the end. A signal ends the running
/// scenario, so that it takes down what it started, and the run.
///
/// # Errors
/// `--part` does not parse.
pub fn run<C>(groups: &[&[Scenario<C>]], context: &C) -> Result<ExitCode> {
    run_and(groups, context, |_, _| Ok(()))
}

/// Like [`run`]; calls `after` after each scenario with its name and result; it may fail the scenario.
///
/// # Errors
/// `--part` does not parse.
pub fn run_and<C>(
    groups: &[&[Scenario<C>]],
    context: &C,
    mut after: impl FnMut(&str, &str) -> Result<()>,
) -> Result<ExitCode> {
    let wanted = wanted();
    let part = Part::of_arguments(env::args())?;
    let mut stopped = None;
    let mut failures = Vec::new();
    let (mut passed, mut skipped) = (0, 0);
    let mut table = Table::default();
    for (index, scenario) in groups.iter().copied().flatten().enumerate() {
        let is_wanted = |name: &String| scenario.name.contains(name.as_str());
        if !part.has(index) || !wanted.as_ref().is_none_or(is_wanted) {
            continue;
        }
        stopped = stopped.or_else(interrupt::take);
        if stopped.is_some() {
            break;
        }
        let (outcome, seconds) = carry_out(scenario, context, &mut after);
        match outcome {
            Ok(Verdict::Passed) => {
                passed += 1;
                say(&format!("  ok      {:<60} {seconds:6.2} s", scenario.name));
            }
            Ok(Verdict::Counted(columns)) => {
                passed += 1;
                say(&format!("  ok      {:<60} {seconds:6.2} s", scenario.name));
                table.add(scenario.name, columns, seconds);
            }
            Ok(Verdict::Skipped(why)) => {
                skipped += 1;
                say(&format!("  skipped {:<60} {why}", scenario.name));
            }
            Err(error) => {
                say(&format!(
                    "  FAILED  {:<60} {seconds:6.2} s\n{}\n",
                    scenario.name,
                    reasons(&error)
                ));
                stopped = interrupt::behind(&error);
                failures.push(format!("failed: {}\n{}", scenario.name, excerpt(&error)));
            }
        }
    }
    say(&table.text());
    for failure in &failures {
        say(failure);
    }
    say(&format!(
        "{passed} passed, {} failed, {skipped} skipped",
        failures.len()
    ));
    if let Some(signal) = stopped {
        say(&format!("stopped: {signal}; the rest was not run"));
        return Ok(ExitCode::from(signal.exit_code()));
    }
    let nothing_ran = passed == 0 && skipped == 0;
    if let Some(part) = wanted.filter(|_| nothing_ran && failures.is_empty()) {
        say(&format!("no scenario has {part:?} in its name; there are:"));
        for scenario in groups.iter().copied().flatten() {
            say(&format!("  {}", scenario.name));
        }
    }
    Ok(if failures.is_empty() && !nothing_ran {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
