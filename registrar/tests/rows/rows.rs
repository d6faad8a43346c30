//! Counts the rows that have a test which was run to its end and looked at something.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use sidecar_testkit::rows::{numbers, tests_that_can_fail};

/// How the names of tests of rows begin, and the number of rows.
const ROWS: (&str, u32) = match env!("CARGO_CRATE_NAME").as_bytes() {
    b"agent" => ("v_", 40),
    _ => ("k_", 83),
};

/// Rows in the name of a test: `v_8_38_a_name` covers 8 and 38.
fn rows_of(name: &str) -> Vec<u32> {
    let rest = name.strip_prefix(ROWS.0).unwrap_or_default();
    let rows = numbers(rest, &[ROWS.0.trim_end_matches('_')]);
    rows.iter().filter_map(|row| row.parse().ok()).collect()
}

/// Names of the tests of rows that pass, each in this program run once more.
fn passing() -> BTreeSet<String> {
    let program = std::env::current_exe().unwrap();
    let mut command = Command::new(program);
    let output = command.arg(format!("::{}", ROWS.0)).output().unwrap();
    let output = String::from_utf8_lossy(&output.stdout).into_owned();
    let lines = output.lines().filter_map(|line| {
        let name = line.strip_prefix("test ")?.strip_suffix(" ... ok")?;
        Some(name.rsplit("::").next()?.to_owned())
    });
    lines.collect()
}

#[test]
fn every_row_of_the_specification_has_a_test() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let folder = folder.join(env!("CARGO_CRATE_NAME"));
    let mut in_source = BTreeSet::new();
    for file in std::fs::read_dir(folder).unwrap() {
        let file = file.unwrap().path();
        if file.is_file() {
            in_source.extend(tests_that_can_fail(&std::fs::read_to_string(file).unwrap()));
        }
    }
    let passing = passing();
    let counted = passing.intersection(&in_source);
    let covered: BTreeSet<u32> = counted.flat_map(|name| rows_of(name)).collect();
    let all: BTreeSet<u32> = (1..=ROWS.1).collect();
    let missing: Vec<&u32> = all.difference(&covered).collect();
    println!(
        "{} rows with a test that passes: {} of {}; missing: {missing:?}",
        ROWS.0,
        covered.len(),
        all.len()
    );
    assert!(missing.is_empty(), "rows without a test: {missing:?}");
    assert_eq!(covered, all, "rows that the specification does not have");
}
