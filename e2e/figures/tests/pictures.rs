//! The pictures in `docs/figures` match the recorded results, and pages show them.

use std::fs;

use figures::{cast, folder, plots, readme, record, tables};

const REMEDY: &str = "run `make figures`";

#[test]
fn plots_are_those_of_the_recorded_results() {
    let records = record::read(&folder().join("recorded")).unwrap();
    let drawn = plots::draw(&records);
    for (file, text) in &drawn.files {
        let there = fs::read_to_string(folder().join(file)).unwrap_or_default();
        assert_eq!(&there, text, "{file}: {REMEDY}");
    }
    assert_eq!(plots::superfluous(&drawn).unwrap(), [""; 0], "{REMEDY}");
}

#[test]
fn tables_are_those_of_the_recorded_results() {
    let records = record::read(&folder().join("recorded")).unwrap();
    let page = fs::read_to_string(folder().join(tables::PAGE)).unwrap_or_default();
    assert_eq!(page, tables::page(&records), "{REMEDY}");
    let text = fs::read_to_string(readme()).unwrap();
    assert_eq!(text, tables::readme(&text, &records), "{REMEDY}");
    assert!(text.contains("commit "), "README has no table of results");
}

#[test]
fn every_plot_stands_on_the_page_of_figures() {
    let records = record::read(&folder().join("recorded")).unwrap();
    let page = fs::read_to_string(folder().join("README.md")).unwrap();
    let drawn = plots::draw(&records);
    for file in drawn.files.keys() {
        assert!(
            page.contains(&format!("\"{file}\"")),
            "{file} is on no page: {REMEDY}"
        );
    }
    assert_eq!(page, tables::pictures(&page, &drawn.plots), "{REMEDY}");
}

#[test]
fn the_recording_is_played_as_it_was_captured() {
    let recording = fs::read_to_string(folder().join("demo.cast")).unwrap();
    let there = fs::read_to_string(folder().join("demo.svg")).unwrap_or_default();
    assert_eq!(there, cast::play(&recording).unwrap(), "{REMEDY}");
}

#[test]
fn nothing_is_recorded_of_a_commit_with_changes() {
    for (program, runs) in record::read(&folder().join("recorded")).unwrap() {
        for run in runs {
            let what = format!("{program} {} of {}", run.profile, run.of);
            let commit = run.commit.unwrap_or_default();
            assert!(!commit.ends_with("-dirty"), "{what}");
            assert!(!run.command.is_empty(), "{what}");
            assert!(run.of != record::OURS || commit.len() >= 7, "{what}");
        }
    }
}
