//! Results: the table, the verdict, and the record.

use std::process::ExitCode;

use anyhow::Result;
use e2e::suite::say;
use figures::record::{self, FIVE, OURS, Provenance};

use crate::contender::Contender;
use crate::together;

/// Target of a figure.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Target {
    /// No target: the figure is only printed.
    None,
    /// Ours is at most this.
    AtMost(f64),
    /// Ours divided by the other's is at most this.
    RatioAtMost(f64),
}

/// A result of our program and of the one beside it.
#[derive(Debug, Clone)]
pub(crate) struct Figure {
    pub(crate) what: String,
    pub(crate) ours: f64,
    pub(crate) other: Option<f64>,
    pub(crate) third: Option<f64>,
    pub(crate) target: Target,
}

impl Figure {
    /// `values` are our value and the other's, if there is one.
    pub(crate) fn new(what: impl Into<String>, values: &[f64], target: Target) -> Self {
        Self {
            what: what.into(),
            ours: values.first().copied().unwrap_or(f64::NAN),
            other: values.get(1).copied(),
            third: values.get(2).copied(),
            target,
        }
    }

    fn ratio(&self) -> Option<f64> {
        self.other.map(|other| self.ours / other)
    }

    /// Whether the target is met; `None` if there is none, or nothing to compare with.
    fn met(&self) -> Option<bool> {
        match self.target {
            Target::None => None,
            // NaN meets no target.
            Target::AtMost(most) => Some(self.ours <= most),
            Target::RatioAtMost(most) => self.ratio().map(|ratio| ratio <= most),
        }
    }
}

/// Records the results of a profile for `make figures`.
pub(crate) fn keep(
    provenance: &Provenance,
    (program, profile): (&'static str, &'static str),
    contenders: &[Contender],
    all: &[Figure],
) -> Result<()> {
    let of = |value: fn(&Figure) -> Option<f64>| {
        let each = all.iter();
        each.filter_map(move |it| Some((it.what.clone(), value(it)?)))
    };
    let mut runs = vec![provenance.run(profile, OURS, None, of(|it| Some(it.ours)))];
    if all.iter().any(|it| it.other.is_some()) {
        let beside = match (program, profile) {
            ("csi-sidecars", _) => FIVE,
            (_, "journal") => "without journal",
            _ => "upstream",
        };
        let version = contenders.get(1).and_then(|it| record::version(&it.path));
        runs.push(provenance.run(profile, beside, version, of(|it| it.other)));
    }
    if all.iter().any(|it| it.third.is_some()) {
        let version = together::upstream_versions();
        runs.push(provenance.run(profile, "upstream", version, of(|it| it.third)));
    }
    let folder = figures::folder().join("recorded");
    let file = record::add(&folder, program, runs)?;
    say(&format!("kept in {}", file.display()));
    Ok(())
}

/// All results of a run.
#[derive(Debug, Default)]
pub(crate) struct Sheet {
    rows: Vec<(&'static str, &'static str, Figure)>,
}

impl Sheet {
    pub(crate) fn add(&mut self, program: &'static str, profile: &'static str, of: Vec<Figure>) {
        self.rows
            .extend(of.into_iter().map(|figure| (program, profile, figure)));
    }

    /// Prints everything. Fails unless all targets were met.
    pub(crate) fn verdict(&self) -> ExitCode {
        say("");
        say("| program | profile | figure | ours | other | ratio | target | | upstream |");
        say("|---|---|---|---|---|---|---|---|---|");
        let (mut judged, mut missed) = (0, Vec::new());
        for (program, profile, figure) in &self.rows {
            let verdict = match figure.met() {
                Some(true) => "ok",
                Some(false) => "MISSED",
                None => "",
            };
            let target = match figure.target {
                Target::None => String::new(),
                Target::AtMost(most) => format!("<= {}", short(most)),
                Target::RatioAtMost(most) => format!("ratio <= {}", short(most)),
            };
            let optional = |value: Option<f64>| value.map(short).unwrap_or_default();
            say(&format!(
                "| {program} | {profile} | {} | {} | {} | {} | {target} | {verdict} | {} |",
                figure.what,
                short(figure.ours),
                optional(figure.other),
                optional(figure.ratio()),
                optional(figure.third),
            ));
            judged += usize::from(figure.met().is_some());
            if figure.met() == Some(false) {
                missed.push(format!("{program} {profile}: {}", figure.what));
            }
        }
        say("");
        if missed.is_empty() {
            say(&format!("bench: all {judged} targets met"));
            return ExitCode::SUCCESS;
        }
        for what in &missed {
            say(&format!("missed: {what}"));
        }
        say(&format!(
            "bench: {} of {judged} targets MISSED",
            missed.len()
        ));
        ExitCode::FAILURE
    }
}

/// Formats with three significant digits.
fn short(value: f64) -> String {
    if !value.is_finite() {
        return "-".to_owned();
    }
    let decimals = match value.abs() {
        0.0 => 0,
        size if size < 0.1 => 4,
        size if size < 1.0 => 3,
        size if size < 10.0 => 2,
        size if size < 100.0 => 1,
        _ => 0,
    };
    format!("{value:.decimals$}")
}

/// The median of several measurements.
pub(crate) fn median(values: &[f64]) -> f64 {
    quantile(values, 0.5)
}

/// The smallest value that at least that share of all values does not exceed.
pub(crate) fn quantile(values: &[f64], share: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let rank = (share * sorted.len() as f64).ceil() as usize;
    sorted
        .get(rank.saturating_sub(1))
        .copied()
        .unwrap_or(f64::NAN)
}
