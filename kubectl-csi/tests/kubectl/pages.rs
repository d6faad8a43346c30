//! `docs/why.md` shows real output: this test generates the text between its marks. `WHY_PAGE=write` in front
//! writes it.

use crate::world::{Row, rows, shown};
use kubectl_csi::plan::CAUSES;
use kubectl_csi::show::{Format, Style, audit, verdict};

/// The causes on the page, one world each.
const SHOWN: &[&str] = &[
    "C1", "C5", "C9", "C12", "C28", "C36", "C46", "C49", "C51", "C61", "C67", "C70", "C78",
];

fn output(row: &Row) -> String {
    let (answer, _) = row.world().ask(&row.subject, false);
    indented(&verdict(&answer, Format::Human, Style::default()))
}

fn indented(text: &str) -> String {
    let lines = text
        .trim_end()
        .lines()
        .map(|line| format!("    {line}").trim_end().to_owned());
    lines.collect::<Vec<_>>().join("\n")
}

fn generated() -> String {
    let rows = rows();
    let mut page = String::new();
    for id in SHOWN {
        let row = rows.iter().rfind(|row| row.id == *id).unwrap();
        let title = CAUSES.iter().find(|(one, _)| one == id).unwrap().1;
        page.push_str(&format!("### {id}: {title}\n\n{}\n\n", output(row)));
    }
    let audited = audit(&shown(), Format::Human, Style::default());
    page.push_str(&format!("### An audit\n\n{}\n\n", indented(&audited)));
    page.push_str("## Every cause\n\n| number | means |\n|---|---|\n");
    for (id, title) in CAUSES {
        page.push_str(&format!("| {id} | {title} |\n"));
    }
    page
}

#[test]
fn w_65_the_page_has_what_the_program_says() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/why.md");
    let page = std::fs::read_to_string(path).unwrap();
    let (begin, end) = (
        "<!-- begin: kubectl-csi/tests/kubectl/pages.rs -->\n",
        "<!-- end -->\n",
    );
    let (front, rest) = page.split_once(begin).unwrap();
    let (old, behind) = rest.split_once(end).unwrap();
    let new = generated();
    if std::env::var("WHY_PAGE").is_ok_and(|value| value == "write") {
        std::fs::write(path, format!("{front}{begin}\n{new}\n{end}{behind}")).unwrap();
        return;
    }
    assert!(
        old.trim() == new.trim(),
        "docs/why.md is not what the program says: WHY_PAGE=write cargo test -p kubectl-csi --test kubectl pages"
    );
}
