//! Holds tests and acceptance tables together: what a test cites is in `docs/spec/`, and each row there
//! is shown by a test that bears its number and can fail, or `docs/spec/README.md` says why by none.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "shared steps of tests fail as tests do"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// A family of rows: whose tests cite them, and how.
struct Family {
    /// File below `docs/spec/`, and what its rows' numbers begin with there.
    table: (&'static str, &'static str),
    /// Crates whose tests may cite its rows with `names`.
    crates: &'static [&'static str],
    /// How such names begin: `row_62_a_claim`, `rows_7_and_9_to_12_sizes`.
    names: &'static [&'static str],
    /// How names begin in crates with rows of their own: `common_63_the_event`.
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
        crates: &["attacher", "resizer"],
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
        table: ("registrar-and-kubelet.md", "V-"),
        crates: &["registrar"],
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

/// First cells of the tables below the heading that speaks of acceptance, without `prefix`.
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

/// `62`, or `88b`.
fn is_number(text: &str) -> bool {
    let digits = text.trim_end_matches(|last: char| last.is_ascii_lowercase());
    text.len() - digits.len() <= 1
        && !digits.is_empty()
        && digits.bytes().all(|byte| byte.is_ascii_digit())
}

/// The numbers in what follows `row_`: `7_and_9_to_12_sizes_and_row_20` has 7, 9, 10, 11, 12 and 20.
fn cited(rest: &str, names: &[&str]) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let mut words = rest.split('_');
    let mut counts = true;
    while let Some(word) = words.next() {
        if names.contains(&word) {
            counts = true;
        } else if counts && is_number(word) {
            found.push(word.to_owned());
        } else if counts && word == "to" {
            let range = found.last().zip(words.next());
            let range = range.map(|(from, to)| (from.parse::<u32>(), to.parse::<u32>()));
            let Some((Ok(from), Ok(to))) = range else {
                break;
            };
            found.extend((from + 1..=to).map(|number| number.to_string()));
        } else {
            counts &= word == "and";
        }
    }
    found
}

/// Names of the tests in a source that run without being asked for and in which something can fail.
fn tests_that_can_fail(source: &str) -> Vec<&str> {
    let lines: Vec<&str> = source.lines().collect();
    let mut found = Vec::new();
    let mut attributes: Vec<&str> = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let code = line.trim_start();
        if code.starts_with("#[") {
            attributes.push(code);
            continue;
        }
        let declared = code.strip_prefix("async ").unwrap_or(code);
        if let Some(name) = declared.strip_prefix("fn ").and_then(|rest| {
            let end = rest.find(|of: char| !of.is_ascii_alphanumeric() && of != '_')?;
            rest.get(..end)
        }) {
            let is_test = attributes.iter().any(|one| one.contains("test"));
            let waits_to_be_asked = attributes.iter().any(|one| one.starts_with("#[ignore"));
            let indent = &line[..line.len() - code.len()];
            let end = format!("{indent}}}");
            let body = lines.iter().skip(at + 1).take_while(|line| **line != end);
            let looks = body
                .filter(|line| !line.trim_start().starts_with("//"))
                .any(|line| {
                    let checks = [
                        "assert", "unwrap", "expect", "until", "must_", "check", "hold(", ".await",
                        "join!",
                    ];
                    checks.iter().any(|check| line.contains(check))
                });
            if is_test && !waits_to_be_asked && looks {
                found.push(name);
            }
        }
        if !code.starts_with("//") {
            attributes.clear();
        }
    }
    found
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
            of_crate.extend(tests_that_can_fail(&source).into_iter().map(str::to_owned));
        }
    }
    found
}

/// Rows that the README names as shown in another way or not at all: table, row, test or empty.
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

/// Whether the tests of a crate cite rows of this family with a name that begins so.
fn cites(family: &Family, of_crate: &str, first: &str) -> bool {
    let own = family.crates.contains(&of_crate) && family.names.contains(&first);
    own || family.elsewhere == Some(first)
}

/// Compares one family's rows, citations and exceptions; returns how many rows tests show.
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
        for row in cited(rest, family.names) {
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
fn numbers_are_read_from_names() {
    let cases: &[(&str, &[&str])] = &[
        ("62_a_claim", &["62"]),
        ("7_and_9_to_12_sizes", &["7", "9", "10", "11", "12"]),
        ("88b_burst", &["88b"]),
        ("63_that_and_row_65_too", &["63", "65"]),
        ("nothing_5", &[]),
        ("to_3", &[]),
    ];
    for (name, numbers) in cases {
        assert_eq!(cited(name, ROWS), *numbers, "{name}");
    }
}

#[test]
fn what_cannot_fail_does_not_count() {
    let source = "\
#[test]
fn row_1_empty() {
}

#[test]
fn row_2_a_comment() {
    // assert!(false);
}

#[test]
#[ignore = \"by hand\"]
fn row_3_asked_for() {
    assert!(true);
}

fn row_4_no_test() {
    assert!(true);
}

    #[tokio::test]
    async fn row_5_counts() {
        assert!(true);
    }
";
    assert_eq!(tests_that_can_fail(source), ["row_5_counts"]);
}

#[test]
fn rows_are_read_below_acceptance_only() {
    let page = "# P\n\n## 1. Steps\n| 1 | a |\n\n## 2. Acceptance table\n| # | x |\n|---|---|\n| 2 | b |\n| 88b | c |\n| Z-3 | d |\n";
    let rows: Vec<_> = rows_of_table(page, "").into_iter().collect();
    assert_eq!(rows, ["2", "88b"]);
    assert_eq!(rows_of_table(page, "Z-").into_iter().next().unwrap(), "3");
}
