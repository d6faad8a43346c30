//! Recorded results as text: the page of all results, and the table in the repository's README.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use crate::plots::{named, value};
use crate::record::{FIVE, OURS, Records, Run};
use crate::svg::digits;

/// The page in the folder of figures.
pub const PAGE: &str = "measured.md";

/// Marks around the generated part of a page.
const MARKS: [&str; 2] = ["<!-- make figures -->\n", "<!-- end -->\n"];

/// The page of all recorded results.
pub fn page(records: &Records) -> String {
    let mut page = "# All recorded results\n\n\
        `make figures` writes this page from [recorded](recorded), for each program and profile of `make bench` and `make chaos`. What\n\
        profiles do: [README.md](README.md).\n"
        .to_owned();
    for (program, runs) in records {
        let _ = write!(page, "\n## {program}\n");
        let mut kinds: Vec<(&str, f64)> = Vec::new();
        for run in runs {
            let kind = (run.profile.as_str(), run.scale);
            if !kinds.contains(&kind) {
                kinds.push(kind);
            }
        }
        for kind in kinds {
            let mut of: Vec<&Run> = { runs.iter() }
                .filter(|run| (run.profile.as_str(), run.scale) == kind)
                .collect();
            // Our program comes first.
            of.sort_by_key(|run| run.of != OURS);
            section(&mut page, kind, &of);
        }
    }
    page
}

fn section(page: &mut String, (profile, scale): (&str, f64), runs: &[&Run]) {
    let size = if scale == 1.0 {
        String::new()
    } else {
        format!(", SCALE={scale}")
    };
    let _ = write!(page, "\n### {profile}{size}\n\n");
    for run in runs {
        let _ = writeln!(page, "- {}: `{}`, {}", whose(run), run.command, run.machine);
    }
    let heads: Vec<&str> = runs.iter().map(|run| run.of.as_str()).collect();
    let _ = write!(page, "\n| | {} |\n|---|", heads.join(" | "));
    for _ in runs {
        page.push_str("---|");
    }
    page.push('\n');
    let names: BTreeSet<&String> = runs.iter().flat_map(|run| run.figures.keys()).collect();
    for name in names {
        let cells: Vec<String> = { runs.iter() }
            .map(|run| {
                run.figures
                    .get(name)
                    .map_or(String::new(), |it| digits(*it))
            })
            .collect();
        let name = name.replace('|', "\\|");
        let _ = writeln!(page, "| {name} | {} |", cells.join(" | "));
    }
}

/// The program of these results, with its version or commit.
fn whose(run: &Run) -> String {
    let mut of = run.of.clone();
    if let Some(version) = &run.version {
        let _ = write!(of, " {version}");
    }
    // For upstream's programs the commit is that of the harness.
    if let Some(commit) = run.commit.as_ref().filter(|_| run.of != "upstream") {
        let _ = write!(of, ", commit {commit}");
    }
    of
}

/// A row of README's table: the needs of our and upstream's programs.
struct Row {
    what: &'static str,
    ours: String,
    upstream: String,
    of: Vec<Run>,
}

/// README with its table replaced by the recorded results; unchanged if it has none.
pub fn readme(text: &str, records: &Records) -> String {
    between_marks(text, &short_table(records))
}

/// The sidecars of a driver's controller.
const CONTROLLER: [&str; 5] = [
    "csi-provisioner",
    "csi-attacher",
    "csi-resizer",
    "csi-snapshotter",
    "livenessprobe",
];

/// The sidecars on each node.
const NODE: [&str; 2] = ["csi-node-driver-registrar", "livenessprobe"];

/// A page with its table of each program's memory replaced by the recorded results.
pub fn memory(text: &str, records: &Records) -> String {
    let snapshots = ["csi-snapshotter", "snapshot-controller"];
    let single = |it: &str| format!("{it}: RSS with *, MB");
    let one = "RSS with *, beside the sum, MB".to_owned();
    let large = { CONTROLLER.iter() }
        .map(|it| (*it, "csi-sidecars", FIVE, single(it)))
        .chain([("csi-sidecars with all of these", "csi-sidecars", OURS, one)])
        .chain(snapshots.map(|it| (it, "csi-snapshotter", OURS, single(it))))
        .map(|row| ("large", row));
    let startup = NODE.map(|it| ("startup", (it, it, OURS, "RSS, MB".to_owned())));
    let mut rows = String::new();
    for (profile, (what, program, of, figure)) in large.chain(startup) {
        let mut runs = records.get(program).into_iter().flatten();
        let run = runs.find(|run| run.profile == profile && run.of == of && run.scale == 1.0);
        let Some((name, megabytes)) = run.and_then(|run| named(run, &figure)) else {
            continue;
        };
        let with = name.split_once("RSS with ").map(|(_, with)| with);
        let with = with.map_or("nothing but a driver", |with| {
            let with = with.trim_end_matches(", MB");
            with.trim_end_matches(", beside the sum")
        });
        let _ = writeln!(rows, "| {what} | {} MB | {with} |", digits(megabytes));
    }
    if rows.is_empty() {
        return between_marks(text, "No measurement of today's programs is recorded.\n");
    }
    let table = format!("| program | resident memory | with |\n|---|---|---|\n{rows}");
    between_marks(text, &table)
}

/// The page of figures with all drawn plots.
pub fn pictures(text: &str, plots: &[(&str, &str)]) -> String {
    let each = plots.iter().map(|(name, title)| {
        format!(
            "<picture>\n  <source media=\"(prefers-color-scheme: dark)\" srcset=\"{name}-dark.svg\">\n  \
             <img alt=\"{title}\" src=\"{name}-light.svg\">\n</picture>\n"
        )
    });
    between_marks(text, &each.collect::<Vec<_>>().join("\n"))
}

fn between_marks(text: &str, new: &str) -> String {
    let [begin, end] = MARKS;
    let parts = text.split_once(begin);
    let Some((before, (_, after))) = parts.and_then(|(it, rest)| Some((it, rest.split_once(end)?)))
    else {
        return text.to_owned();
    };
    format!("{before}{begin}{new}{end}{after}")
}

fn short_table(records: &Records) -> String {
    let rows: Vec<Row> = [node, controller, claims, leaks, files]
        .into_iter()
        .filter_map(|row| row(records))
        .collect();
    let mut table = "| | csi-sidecars | upstream |\n|---|---|---|\n".to_owned();
    for row in &rows {
        let _ = writeln!(table, "| {} | {} | {} |", row.what, row.ours, row.upstream);
    }
    let runs = || rows.iter().flat_map(|row| &row.of);
    let commits: BTreeSet<&str> = runs()
        .filter(|run| run.of == OURS)
        .filter_map(|run| run.commit.as_deref())
        .collect();
    let each: Vec<String> = { commits.iter() }
        .map(|commit| {
            let of = runs().filter(|run| run.of == OURS && run.commit.as_deref() == Some(commit));
            let commands: BTreeSet<String> = of.map(|run| command(&run.command)).collect();
            let commands: Vec<String> = commands.iter().map(|it| format!("`{it}`")).collect();
            format!("{} of commit {commit}", commands.join(", "))
        })
        .collect();
    let _ = write!(
        table,
        "\nMeasured by {}, and the same with upstream's programs.\n\
        [All results, with upstream's versions and the machine](docs/figures/measured.md).\n",
        each.join("; ")
    );
    table
}

/// The command without the paths of other programs.
fn command(whole: &str) -> String {
    let words = whole.split(' ').filter(|it| !it.contains("=/path/"));
    words.collect::<Vec<_>>().join(" ")
}

/// The full-size runs of a profile, ours and the other's.
fn pair<'a>(
    records: &'a Records,
    program: &str,
    profile: &str,
    other: &str,
) -> Option<[&'a Run; 2]> {
    let runs = records.get(program)?;
    let one = |of: &str| {
        let mut all = runs.iter();
        all.find(|run| run.profile == profile && run.of == of && run.scale == 1.0)
    };
    Some([one(OURS)?, one(other)?])
}

fn sum(
    records: &Records,
    what: &'static str,
    unit: &str,
    of: &[(&str, &str, &str)],
) -> Option<Row> {
    let (mut sums, mut used) = ([0.0, 0.0], Vec::new());
    for (program, profile, figure) in of {
        let runs = pair(records, program, profile, "upstream")?;
        for (sum, run) in sums.iter_mut().zip(runs) {
            *sum += value(run, figure)?;
        }
        used.extend(runs.map(Clone::clone));
    }
    let [ours, upstream] = sums.map(|sum| format!("{} {unit}", digits(sum)));
    Some(Row {
        what,
        ours,
        upstream,
        of: used,
    })
}

fn node(records: &Records) -> Option<Row> {
    let of = NODE.map(|it| (it, "startup", "RSS, MB"));
    let what = "memory on each node: csi-node-driver-registrar and livenessprobe";
    sum(records, what, "MB", &of)
}

fn controller(records: &Records) -> Option<Row> {
    let figure = "RSS with 50000 *, beside the sum, MB";
    let [one, upstream] = pair(records, "csi-sidecars", "large", "upstream")?;
    let [_, five] = pair(records, "csi-sidecars", "large", FIVE)?;
    let mb = |run: &Run| Some(digits(value(run, figure)?));
    Some(Row {
        what: "memory of a controller with 50,000 volumes: five sidecars",
        ours: format!("{} MB; {} MB in one process", mb(five)?, mb(one)?),
        upstream: format!("{} MB", mb(upstream)?),
        of: [one, five, upstream].map(Clone::clone).to_vec(),
    })
}

fn claims(records: &Records) -> Option<Row> {
    let of = [("csi-provisioner", "provision", "CPU-s for both")];
    let what = "processor time of csi-provisioner for 1,000 claims, created and deleted";
    sum(records, what, "s", &of)
}

fn leaks(records: &Records) -> Option<Row> {
    let seeds = ["seed 1", "seed 2"];
    let of = { seeds.iter() }.filter_map(|seed| pair(records, "chaos", seed, "upstream"));
    let of: Vec<[&Run; 2]> = of.collect();
    let each = |index: usize| {
        let leaked = of.iter().map(|runs| runs.get(index).copied());
        let leaked = leaked.map(|run| value(run?, "volumes in the storage without *").map(digits));
        leaked.collect::<Option<Vec<_>>>().map(|it| it.join(" / "))
    };
    if of.is_empty() {
        return None;
    }
    Some(Row {
        what: "volumes leaked while [a fault strikes every 3.5 seconds](docs/figures/chaos.md), for each schedule",
        ours: each(0)?,
        upstream: each(1)?,
        of: of.iter().flat_map(|runs| runs.map(Clone::clone)).collect(),
    })
}

fn files(records: &Records) -> Option<Row> {
    let controllers = [
        "csi-provisioner",
        "csi-attacher",
        "csi-resizer",
        "csi-snapshotter",
        "snapshot-controller",
    ];
    let of = { controllers.map(|it| (it, "size", "binary, MB")).into_iter() }
        .chain(NODE.map(|it| (it, "startup", "binary, MB")))
        .collect::<Vec<_>>();
    let what = "size of the seven static programs, which the images hold and little else";
    sum(records, what, "MB", &of)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(profile: &str, of: &str, figures: &[(&str, f64)]) -> Run {
        let figures = figures.iter().map(|(name, it)| ((*name).to_owned(), *it));
        Run {
            profile: profile.to_owned(),
            of: of.to_owned(),
            version: (of == "upstream").then(|| "v6.4.0".to_owned()),
            commit: Some("0123456789ab".to_owned()),
            command: "make bench ATTACHER=/path/to/csi-attacher".to_owned(),
            machine: "2 cores".to_owned(),
            scale: 1.0,
            figures: figures.collect(),
        }
    }

    /// Results for all of README's table, with upstream's twice as large.
    fn everything() -> Records {
        let mut records = Records::new();
        let mut add = |program: &str, profile: &str, of: &[&str], figure: &str| {
            let runs = records.entry(program.to_owned()).or_default();
            for (index, of) in of.iter().enumerate() {
                runs.push(run(profile, of, &[(figure, [10.0, 20.0, 15.0][index])]));
            }
        };
        let both = [OURS, "upstream"];
        for program in ["csi-node-driver-registrar", "livenessprobe"] {
            add(program, "startup", &both, "RSS, MB");
        }
        let beside = "RSS with 50000 PVs, beside the sum, MB";
        add("csi-sidecars", "large", &[OURS, "upstream", FIVE], beside);
        add("csi-provisioner", "provision", &both, "CPU-s for both");
        for seed in ["seed 1", "seed 2"] {
            let figure = "volumes in the storage without PersistentVolume (leaked)";
            add("chaos", seed, &both, figure);
        }
        records
    }

    #[test]
    fn readme_has_a_row_for_whatever_is_recorded() {
        let text = "before\n<!-- make figures -->\nold\n<!-- end -->\nafter\n";
        let written = readme(text, &everything());
        for line in [
            "before\n<!-- make figures -->\n| | csi-sidecars | upstream |\n",
            "| 20 MB | 40 MB |\n",
            "| 15 MB; 10 MB in one process | 20 MB |\n",
            "| 10 s | 20 s |\n",
            "| 10 / 10 | 20 / 20 |\n",
            "Measured by `make bench` of commit 0123456789ab, and",
            "<!-- end -->\nafter\n",
        ] {
            assert!(written.contains(line), "{line}: {written}");
        }
        assert!(!written.contains("old"), "{written}");
        // File sizes are not recorded.
        assert!(!written.contains("static programs"), "{written}");
        assert_eq!(readme(&written, &everything()), written);
        assert_eq!(readme("no table\n", &everything()), "no table\n");
    }

    #[test]
    fn a_page_has_the_memory_of_each_program() {
        let mut records = everything();
        let figure = "csi-attacher: RSS with 50000 PVs, MB";
        let runs = records.entry("csi-sidecars".to_owned()).or_default();
        let of_five = runs.iter_mut().find(|run| run.of == FIVE);
        of_five.unwrap().figures.insert(figure.to_owned(), 26.4);
        let written = memory("<!-- make figures -->\nold\n<!-- end -->\n", &records);
        assert_eq!(
            written,
            "<!-- make figures -->\n| program | resident memory | with |\n|---|---|---|\n\
             | csi-attacher | 26.4 MB | 50000 PVs |\n\
             | csi-sidecars with all of these | 10 MB | 50000 PVs |\n\
             | csi-node-driver-registrar | 10 MB | nothing but a driver |\n\
             | livenessprobe | 10 MB | nothing but a driver |\n<!-- end -->\n"
        );
        let empty = memory(&written, &Records::new());
        assert!(empty.contains("No measurement of today's programs is recorded.\n<!-- end -->"));
        assert!(!empty.contains("| program |"), "{empty}");
    }

    #[test]
    fn the_page_says_whose_results_they_are() {
        let page = page(&everything());
        for line in [
            "## csi-sidecars\n\n### large\n\n- ours, commit 0123456789ab: `make bench",
            "- upstream v6.4.0: `make bench",
            "\n| | ours | upstream | five programs |\n|---|---|---|---|\n",
            "| RSS with 50000 PVs, beside the sum, MB | 10 | 20 | 15 |\n",
        ] {
            assert!(page.contains(line), "{line}: {page}");
        }
    }
}
