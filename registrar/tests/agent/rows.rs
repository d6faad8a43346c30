//! Counts the rows that have a test.

use std::collections::BTreeSet;
use std::path::Path;

/// Row numbers in the names of test functions: `fn v_8_38_a_name` covers 8 and 38.
fn rows_in(source: &str) -> BTreeSet<u32> {
    let mut rows = BTreeSet::new();
    for line in source.lines() {
        let line = line.trim_start().trim_start_matches("async ");
        let Some(name) = line.strip_prefix("fn v_") else {
            continue;
        };
        rows.extend(name.split('_').map_while(|part| part.parse::<u32>().ok()));
    }
    rows
}

#[test]
fn every_row_of_the_specification_has_a_test() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/agent");
    let mut covered = BTreeSet::new();
    for file in std::fs::read_dir(folder).unwrap() {
        covered.extend(rows_in(
            &std::fs::read_to_string(file.unwrap().path()).unwrap(),
        ));
    }
    let all: BTreeSet<u32> = (1..=40).collect();
    let missing: Vec<&u32> = all.difference(&covered).collect();
    println!(
        "V rows with a test: {} of {}; missing: {missing:?}",
        covered.len(),
        all.len()
    );
    assert!(missing.is_empty(), "rows without a test: {missing:?}");
    assert_eq!(covered, all, "rows that the specification does not have");
}
