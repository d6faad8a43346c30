//! Legend and sources of a plot: whose colours these are, and where its numbers are from.

use std::collections::BTreeSet;

use crate::record::{FIVE, OURS, Run};
use crate::svg::Colour;

/// The colour of a program; upstream's is the same everywhere.
pub(crate) fn colour(of: &str) -> Colour {
    match of {
        OURS => 0,
        FIVE => 2,
        _ => 1,
    }
}

/// What the legend and the sources call a program.
fn name<'a>(of: &'a str, all: &BTreeSet<&str>) -> &'a str {
    match of {
        OURS if all.contains(FIVE) => "one process, csi-sidecars",
        OURS => "csi-sidecars",
        FIVE => "ours, five programs",
        _ => of,
    }
}

fn programs<'a>(runs: &[&'a Run]) -> BTreeSet<&'a str> {
    runs.iter().map(|run| run.of.as_str()).collect()
}

pub(crate) fn legend(runs: &[&Run]) -> Vec<(Colour, String)> {
    let all = programs(runs);
    let mut legend = vec![(0, name(OURS, &all).to_owned())];
    // Bars have two colours, lines one per program.
    let is_alone = all.len() <= 2;
    for of in all.iter().copied().filter(|of| *of != OURS) {
        let colour = if is_alone { 1 } else { colour(of) };
        legend.push((colour, name(of, &all).to_owned()));
    }
    legend
}

/// Maximum number of letters in a line of sources.
const LONG: usize = 118;

/// The commands and commits that the numbers are from; pages tell where other programs were.
pub(crate) fn sources(runs: &[&Run]) -> Vec<String> {
    let all = programs(runs);
    let mut commands: Vec<(String, Vec<String>)> = Vec::new();
    for run in runs {
        let words = run.command.split(' ').filter(|it| !it.contains("=/path/"));
        let command = words.collect::<Vec<_>>().join(" ");
        let version = run.version.iter().map(|it| format!(" {it}"));
        let commit = run.commit.iter().map(|it| match run.of.as_str() {
            OURS | FIVE => format!(" at {it}"),
            _ => format!(", beside {it}"),
        });
        let name = name(&run.of, &all).to_owned();
        let whose = version.chain(commit).fold(name, |all, it| all + &it);
        match commands.iter_mut().find(|(it, _)| *it == whose) {
            Some((_, known)) if known.contains(&command) => {}
            Some((_, known)) => known.push(command),
            None => commands.push((whose, vec![command])),
        }
    }
    let mut lines = Vec::new();
    for (whose, commands) in commands {
        let mut line = String::new();
        for word in format!("{whose}: {}", commands.join("; ")).split(' ') {
            if line.len() + word.len() > LONG {
                lines.push(std::mem::take(&mut line));
            }
            line.push_str(word);
            line.push(' ');
        }
        lines.push(line);
    }
    lines
        .iter()
        .map(|line| line.trim_end().to_owned())
        .collect()
}
