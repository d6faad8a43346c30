//! The report of a run: tables for people and for documentation.

use std::collections::BTreeMap;

use anyhow::Result;
use csi_test_driver::instrument::record::Call;
use csi_test_driver::invariants::Violation;
use e2e::program;

use crate::audit::{Damage, Finding};
use crate::schedule::Who;

/// Number of examples per kind of damage.
const EXAMPLES: usize = 5;

/// Label of this project's programs.
const WE: &str = "ours";

/// The result of a run.
#[derive(Debug, Default)]
pub(crate) struct Report {
    /// Programs by name: their path, or a label.
    pub(crate) programs: Vec<(String, String)>,
    /// Counters of the users' acts.
    pub(crate) users: Vec<(&'static str, u64)>,
    /// Number of faults by kind.
    pub(crate) faults: BTreeMap<&'static str, u64>,
    /// Number of faults without a target.
    pub(crate) missed: u64,
    /// Calls to the driver by method: all of them, and the successful ones.
    pub(crate) calls: Vec<(&'static str, usize, usize)>,
    /// Starts of a program, and how often it ended without having been killed or terminated.
    pub(crate) starts: Vec<(String, u64, u64)>,
    /// Seconds until no work was in progress, and until nothing was left; `None` if that did not happen.
    pub(crate) settled: Option<f64>,
    pub(crate) emptied: Option<f64>,
    /// Violations of the CSI specification in the driver's record, by rule.
    pub(crate) broken_rules: BTreeMap<String, Vec<String>>,
    /// Damage after the users had stopped.
    pub(crate) after_faults: Vec<Finding>,
    /// Damage after everything was deleted.
    pub(crate) at_the_end: Vec<Finding>,
}

impl Report {
    /// Whether there is no damage.
    pub(crate) fn is_clean(&self) -> bool {
        self.after_faults.is_empty() && self.at_the_end.is_empty()
    }

    /// The tables.
    pub(crate) fn text(&self) -> String {
        let mut lines = vec![
            String::new(),
            "| run | |".to_owned(),
            "|---|---|".to_owned(),
        ];
        let mut row = |name: &str, value: String| lines.push(format!("| {name} | {value} |"));
        for (name, path) in &self.programs {
            row(name, path.clone());
        }
        for (name, number) in &self.users {
            row(name, number.to_string());
        }
        let faults: u64 = self.faults.values().sum();
        row("faults", format!("{faults} ({} missed)", self.missed));
        for (method, all, ok) in &self.calls {
            row(
                &format!("{method} calls"),
                format!("{all}, {ok} of them OK"),
            );
        }
        for (name, starts, itself) in &self.starts {
            row(
                &format!("starts of {name}"),
                format!("{starts}, after {itself} ends of its own"),
            );
        }
        row("settled after", seconds(self.settled));
        row("all gone after", seconds(self.emptied));
        for (rule, stories) in &self.broken_rules {
            let times = stories.len().to_string();
            row(&format!("calls against the rule {rule}"), times);
        }
        lines.extend(["", "| fault | times |", "|---|---|"].map(str::to_owned));
        let faults = self.faults.iter();
        lines.extend(faults.map(|(name, times)| format!("| {name} | {times} |")));
        lines.extend(
            [
                "",
                "| damage | after the faults | when all was deleted |",
                "|---|---|---|",
            ]
            .map(str::to_owned),
        );
        for damage in Damage::ALL {
            let [settled, end] = [&self.after_faults, &self.at_the_end]
                .map(|found| found.iter().filter(|it| it.damage == damage).count());
            lines.push(format!("| {damage} | {settled} | {end} |"));
        }
        lines.push(String::new());
        lines.extend(self.examples());
        lines.join("\n")
    }

    /// The result as numbers, for `make figures`: for each damage the larger count, after the faults or at the end.
    pub(crate) fn figures(&self) -> Vec<(String, f64)> {
        let number = |count: usize| u32::try_from(count).map_or(f64::NAN, f64::from);
        let of = |found: &[Finding], damage| found.iter().filter(|it| it.damage == damage).count();
        let mut figures: Vec<_> = { Damage::ALL.into_iter() }
            .map(|it| {
                let most = of(&self.after_faults, it).max(of(&self.at_the_end, it));
                (it.to_string(), number(most))
            })
            .collect();
        figures.extend(self.settled.map(|it| ("settled after, s".to_owned(), it)));
        figures.extend(self.emptied.map(|it| ("all gone after, s".to_owned(), it)));
        figures
    }

    /// Whether a program of another project took part.
    pub(crate) fn is_of_others(&self) -> bool {
        self.programs.iter().any(|(_, whose)| whose != WE)
    }

    fn examples(&self) -> Vec<String> {
        let stages = [
            ("after the faults", &self.after_faults),
            ("when all was deleted", &self.at_the_end),
        ];
        let mut lines = Vec::new();
        for (when, found) in stages {
            for damage in Damage::ALL {
                let these = found.iter().filter(|it| it.damage == damage);
                let objects: Vec<_> = these.map(|it| it.object.as_str()).collect();
                let shown = objects.get(..EXAMPLES).unwrap_or(&objects);
                lines.extend(shown.iter().map(|it| format!("  {when}: {damage}: {it}")));
                if objects.len() > shown.len() {
                    lines.push(format!("    and {} more", objects.len() - shown.len()));
                }
            }
        }
        for stories in self.broken_rules.values() {
            let stories = stories.iter().take(EXAMPLES);
            lines.extend(stories.map(|story| format!("  against a rule: {story}")));
        }
        lines
    }
}

/// The programs under test, and which project they belong to.
pub(crate) fn programs() -> Result<Vec<(String, String)>> {
    let mut named = if program::are_together()? {
        vec![("csi-sidecars", program::all_in_one()?)]
    } else {
        let paths = [
            program::provisioner()?,
            program::attacher()?,
            program::resizer()?,
            program::snapshotter()?,
        ];
        { Who::OF_DRIVER.into_iter().zip(paths) }
            .map(|(who, path)| (who.program(), path))
            .collect()
    };
    let controller = program::snapshot_controller()?;
    named.push((Who::SnapshotController.program(), controller));
    { named.into_iter() }
        .map(|(name, path)| {
            let whose = if program::is_foreign(&path)? {
                "another project's"
            } else {
                WE
            };
            Ok((name.to_owned(), whose.to_owned()))
        })
        .collect()
}

/// The text of a violation, and all calls about its volume.
pub(crate) fn story(all: &[Call], violation: &Violation) -> String {
    let id = |call: &Call| format!("{}#{}", call.instance, call.seq);
    let first = { all.iter() }.find(|call| violation.calls.contains(&id(call)));
    let volume = first.map(|call| call.volume.as_str()).unwrap_or_default();
    let began = all.iter().map(|call| call.start_ns).min().unwrap_or(0);
    let ms = |at: u64| at.saturating_sub(began) / 1_000_000;
    let mut lines = vec![violation.to_string()];
    for call in all.iter().filter(|call| call.volume == volume) {
        let end = call
            .end_ns
            .map_or("no end".to_owned(), |end| ms(end).to_string());
        lines.push(format!(
            "      {} {} at {} to {end} ms: {}, by {}{}",
            id(call),
            call.method,
            ms(call.start_ns),
            call.code.as_deref().unwrap_or("no answer"),
            call.caller.unwrap_or_default(),
            if call.caller_gone {
                ", who was gone"
            } else {
                ""
            },
        ));
    }
    lines.join("\n")
}

fn seconds(took: Option<f64>) -> String {
    took.map_or("never".to_owned(), |took| format!("{took:.0} s"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damage_is_counted_and_named() {
        let mut report = Report::default();
        assert!(report.is_clean());
        let leak = |number: u32| Finding {
            damage: Damage::VolumeWithoutPv,
            object: format!("handle-{number}"),
        };
        report.at_the_end = (1..=7).map(leak).collect();
        assert!(!report.is_clean());
        let text = report.text();
        assert!(text.contains("(leaked) | 0 | 7 |"), "{text}");
        assert!(text.contains(": handle-5\n    and 2 more"), "{text}");
        assert!(text.contains("| all gone after | never |"), "{text}");
        let figures = report.figures();
        let leaked = figures.iter().find(|(name, _)| name.contains("(leaked)"));
        assert_eq!(leaked.map(|(_, value)| *value), Some(7.0));
        assert!(!figures.iter().any(|(name, _)| name.contains("gone after")));
    }
}
