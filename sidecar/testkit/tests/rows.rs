//! Compares tests with acceptance tables: every row that a test cites is in `docs/spec/`, and each row
//! there is shown by a test that carries its number and can fail, or `docs/spec/README.md` explains why
//! none does.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "shared steps of tests fail as tests do"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use sidecar_testkit::rows::{is_number, numbers, tests_that_can_fail};

/// A family of rows: the crates whose tests cite them, and the form of their names.
struct Family {
    /// File below `docs/spec/`, and the prefix of its rows' numbers there.
    table: (&'static str, &'static str),
    /// Crates whose tests may cite its rows with `names`.
    crates: &'static [&'static str],
    /// Start of such names: `row_62_a_claim`, `rows_7_and_9_to_12_sizes`.
    names: &'static [&'static str],
    /// Start of names in crates with their own rows: `common_63_the_event`.
    elsewhere: Option<&'static str>,
}

const ROWS: &[&str] = &["row", "rows"];

const FAMILIES: &[Family] = &[
    Family {
        table: ("common.md", ""),
        crates: &["sidecar", "csi-proto"],
        names: ROWS,
        elsewhere: Some("common"),
    },
    Family {
        table: ("attacher.md", ""),
        crates: &["attacher"],
        names: ROWS,
        elsewhere: Some("attacher"),
    },
    Family {
        table: ("provisioner.md", ""),
        crates: &["provisioner"],
        names: ROWS,
        elsewhere: Some("provisioner"),
    },
    Family {
        table: ("journal.md", "J-"),
        crates: &["provisioner"],
        names: &["j"],
        elsewhere: None,
    },
    Family {
        table: ("migration.md", "M-"),
        crates: &["attacher", "provisioner", "resizer"],
        names: &["m"],
        elsewhere: None,
    },
    Family {
        table: ("resizer.md", "Z-"),
        crates: &["resizer"],
        names: &["z"],
        elsewhere: None,
    },
    Family {
        table: ("snapshotter.md", "S-"),
        crates: &["snapshotter", "e2e/snapshots"],
        names: &["s"],
        elsewhere: None,
    },
    Family {
        table: ("all-in-one.md", "A-"),
        crates: &["multicall", "together", "sidecar"],
        names: &["a"],
        elsewhere: None,
    },
    Family {
        table: ("snapshotter.md", "C-"),
        crates: &["snapshot-controller"],
        names: &["c"],
        elsewhere: None,
    },
    Family {
        table: ("snapshot-metadata.md", "CB-"),
        crates: &["snapshot-metadata"],
        names: &["cb"],
        elsewhere: None,
    },
    Family {
        table: ("health-monitor.md", "H-"),
        crates: &["health-monitor"],
        names: &["h"],
        elsewhere: None,
    },
    Family {
        table: ("snapshotter.md", "G-"),
        crates: &["snapshotter", "snapshot-controller"],
        names: &["g"],
        elsewhere: None,
    },
    Family {
        table: ("registrar-and-kubelet.md", "R-"),
        crates: &["registrar"],
        names: &["r"],
        elsewhere: None,
    },
    Family {
        table: ("registrar-and-kubelet.md", "L-"),
        crates: &["livenessprobe"],
        names: &["l"],
        elsewhere: None,
    },
    Family {
        table: ("registrar-and-kubelet.md", "K-"),
        crates: &["registrar"],
        names: &["k"],
        elsewhere: None,
    },
    Family {
        table: ("upstream.md", "N-"),
        crates: &["provisioner", "resizer", "sidecar", "node-agent"],
        names: &["n"],
        elsewhere: None,
    },
    Family {
        table: ("observability.md", "O-"),
        crates: &[
            "sidecar",
            "livenessprobe",
            "multicall",
            "together",
            "registrar",
            "attacher",
            "provisioner",
            "resizer",
            "snapshot-controller",
        ],
        names: &["o"],
        elsewhere: None,
    },
    Family {
        table: ("why.md", "W-"),
        crates: &[
            "sidecar",
            "attacher",
            "provisioner",
            "resizer",
            "snapshotter",
            "multicall",
        ],
        names: &["w"],
        elsewhere: None,
    },
    Family {
        table: ("registrar-and-kubelet.md", "V-"),
        crates: &["node-agent"],
        names: &["v"],
        elsewhere: None,
    },
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn text(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap()
}

/// First cells of the tables below the acceptance heading, without `prefix`.
fn rows_of_table(page: &str, prefix: &str) -> BTreeSet<String> {
    let acceptance = page.split("\n## ").filter(|section| {
        let heading = section.lines().next().unwrap_or_default();
        heading.to_lowercase().contains("acceptance")
    });
    let cells = acceptance
        .flat_map(str::lines)
        .filter_map(|line| line.strip_prefix("| ")?.split(" |").next());
    cells
        .filter_map(|cell| cell.trim().strip_prefix(prefix))
        .filter(|number| is_number(number))
        .map(str::to_owned)
        .collect()
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            if !path.ends_with("target") {
                sources(&path, found);
            }
        } else if path.extension().is_some_and(|end| end == "rs") {
            found.push(path);
        }
    }
}

/// Tests that can fail, by crate.
fn tests() -> BTreeMap<&'static str, BTreeSet<String>> {
    let crates = FAMILIES.iter().flat_map(|family| family.crates).copied();
    let mut found = BTreeMap::new();
    for name in crates.collect::<BTreeSet<_>>() {
        let mut files = Vec::new();
        sources(&root().join(name), &mut files);
        let of_crate: &mut BTreeSet<String> = found.entry(name).or_default();
        for file in files {
            let source = text(&file);
            of_crate.extend(tests_that_can_fail(&source));
        }
    }
    found
}

/// Rows that the README lists as shown in another way or not at all: table, row, test or empty.
fn exceptions() -> Vec<(String, String, String)> {
    let page = text(&root().join("docs/spec/README.md"));
    let lines = page.lines().filter(|line| line.starts_with("| `"));
    let rows = lines.flat_map(|line| {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        assert_eq!(cells.len(), 3, "three cells wanted: {line}");
        let (table, rows, why) = (cells[0], cells[1], cells[2]);
        let test = why.split('`').nth(1).unwrap_or_default().to_owned();
        let table = table.trim_matches('`').to_owned();
        let rows: Vec<_> = rows
            .split(", ")
            .map(|row| (table.clone(), row.to_owned(), test.clone()))
            .collect();
        rows
    });
    rows.collect()
}

/// Whether the tests of a crate cite rows of this family with names that start with `first`.
fn cites(family: &Family, of_crate: &str, first: &str) -> bool {
    let own = family.crates.contains(&of_crate) && family.names.contains(&first);
    own || family.elsewhere == Some(first)
}

/// Compares one family's rows, citations and exceptions; returns the number of rows that tests show.
fn compare(
    family: &Family,
    tests: &BTreeMap<&'static str, BTreeSet<String>>,
    exceptions: &[(String, String, String)],
    wrong: &mut Vec<String>,
) -> usize {
    let (file, prefix) = family.table;
    let rows = rows_of_table(&text(&root().join("docs/spec").join(file)), prefix);
    let mut shown = BTreeSet::new();
    for (name, test) in tests
        .iter()
        .flat_map(|(name, tests)| tests.iter().map(move |test| (*name, test)))
    {
        let Some((first, rest)) = test.split_once('_') else {
            continue;
        };
        if !cites(family, name, first) {
            continue;
        }
        for row in numbers(rest, family.names) {
            if !rows.contains(&row) {
                wrong.push(format!(
                    "{name}: {test} cites {prefix}{row}, which {file} does not have"
                ));
            }
            shown.insert(row);
        }
    }
    let mut excused = BTreeSet::new();
    for (table, row, test) in exceptions {
        let Some(row) = row
            .strip_prefix(prefix)
            .filter(|row| table == file && is_number(row))
        else {
            continue;
        };
        if shown.contains(row) {
            wrong.push(format!(
                "{file}: README.md excuses {prefix}{row}, which a test shows"
            ));
        }
        if !rows.contains(row) {
            wrong.push(format!(
                "{file}: README.md excuses {prefix}{row}: no such row"
            ));
        }
        if !test.is_empty() && !tests.values().any(|tests| tests.contains(test)) {
            wrong.push(format!(
                "{file}: {prefix}{row}: no test {test}, or it cannot fail"
            ));
        }
        excused.insert(row);
    }
    for row in &rows {
        if !shown.contains(row) && !excused.contains(row.as_str()) {
            wrong.push(format!(
                "{file}: no test shows {prefix}{row}, and README.md does not say why"
            ));
        }
    }
    rows.intersection(&shown).count()
}

#[test]
fn each_row_is_shown_and_each_citation_has_a_row() {
    let tests = tests();
    let exceptions = exceptions();
    let mut wrong = Vec::new();
    for family in FAMILIES {
        let shown = compare(family, &tests, &exceptions, &mut wrong);
        assert!(shown > 10, "{:?}: the table was not read", family.table);
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn rows_are_read_below_acceptance_only() {
    let page = "# P\n\n## 1. Steps\n| 1 | a |\n\n## 2. Acceptance table\n| # | x |\n|---|---|\n| 2 | b |\n| 88b | c |\n| Z-3 | d |\n";
    let rows: Vec<_> = rows_of_table(page, "").into_iter().collect();
    assert_eq!(rows, ["2", "88b"]);
    assert_eq!(rows_of_table(page, "Z-").into_iter().next().unwrap(), "3");
}
