//! Checks the rows in docs/parity.md: each row claimed for the built program has a test here that runs, and in
//! which something can fail.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use sidecar_testkit::rows::{numbers, tests_that_can_fail};

/// Prefixes of the names of tests for rows.
const PREFIXES: [&str; 2] = ["row_", "rows_"];
/// Heading of the table of rows.
const SECTION: &str = "\n## csi-provisioner\n";
/// Prefix of the evidence for rows that are shown here.
const EVIDENCE: &str = "the built program";

/// Rows in the name of a test: `rows_2_to_4_and_8_a_name_7` covers 2, 3, 4 and 8.
fn rows_of(name: &str) -> BTreeSet<u32> {
    let words = PREFIXES.map(|prefix| prefix.trim_end_matches('_'));
    let rest = PREFIXES.iter().find_map(|prefix| name.strip_prefix(prefix));
    let rows = numbers(rest.unwrap_or_default(), &words).into_iter();
    rows.filter_map(|row| row.parse().ok()).collect()
}

/// Rows of a cell like `1 to 3, 8`.
fn rows_in(cell: &str) -> impl Iterator<Item = u32> {
    cell.split(',').flat_map(|part| {
        let mut ends = part.split(" to ").map(|end| end.trim().parse().unwrap());
        let first: u32 = ends.next().unwrap();
        first..=ends.next().unwrap_or(first)
    })
}

/// The rows that docs/parity.md claims for the built program.
fn promised(parity: &str) -> BTreeSet<u32> {
    let (_, section) = parity.split_once(SECTION).unwrap();
    let cells = section.lines().filter_map(|line| {
        let (rows, evidence) = line.strip_prefix("| ")?.split_once(" | ")?;
        (evidence.starts_with(EVIDENCE) && rows.starts_with(|first: char| first.is_ascii_digit()))
            .then_some(rows)
    });
    cells.flat_map(rows_in).collect()
}

/// Names of the row tests that run together with this one, without being ignored. Whether they pass is their own
/// affair: they take minutes, and a run without filter includes them.
fn running() -> BTreeSet<String> {
    let listed = |more: &[&str]| -> BTreeSet<String> {
        let mut command = Command::new(std::env::current_exe().unwrap());
        let filters = PREFIXES.map(|prefix| format!("::{prefix}"));
        let output = command.args(filters).args(["--list", "--format=terse"]);
        let output = output.args(more).output().unwrap();
        let output = String::from_utf8_lossy(&output.stdout).into_owned();
        let names = output
            .lines()
            .filter_map(|line| line.strip_suffix(": test"));
        names
            .filter_map(|name| name.rsplit("::").next().map(str::to_owned))
            .collect()
    };
    &listed(&[]) - &listed(&["--ignored"])
}

#[test]
fn every_row_that_parity_promises_has_a_test() {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut in_source = BTreeSet::new();
    let mut paths = vec![package.join("tests/process")];
    while let Some(path) = paths.pop() {
        if path.is_dir() {
            let entries = std::fs::read_dir(path).unwrap();
            paths.extend(entries.map(|entry| entry.unwrap().path()));
        } else {
            let source = std::fs::read_to_string(path).unwrap();
            in_source.extend(tests_that_can_fail(&source));
        }
    }
    let running = running();
    let counted = running.intersection(&in_source);
    let covered: BTreeSet<u32> = counted.flat_map(|name| rows_of(name)).collect();
    let parity = std::fs::read_to_string(package.join("../docs/parity.md")).unwrap();
    let promised = promised(&parity);
    assert!(promised.len() > 150, "{promised:?}");
    let missing: Vec<&u32> = promised.difference(&covered).collect();
    let blind: Vec<&String> = running.difference(&in_source).collect();
    assert!(
        missing.is_empty() && blind.is_empty(),
        "rows without a test: {missing:?}; nothing can fail in {blind:?}"
    );
}

#[test]
fn names_and_tables_are_read_alike() {
    let rows = rows_of("rows_2_to_4_8_and_10_a_name_7");
    assert_eq!(rows.into_iter().collect::<Vec<_>>(), [2, 3, 4, 8, 10]);
    assert!(rows_of("fp_5_a_name").is_empty());
    let table = "\n## csi-provisioner\n\n| rows | evidence |\n|---|---|\n| 2 to 4, 8 | the built \
        program |\n| 9 | tables |\n";
    assert_eq!(promised(table), BTreeSet::from([2, 3, 4, 8]));
}
