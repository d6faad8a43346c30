//! The demonstration as a recording: an asciicast (version 2), and an SVG that plays it.
//!
//! It plays only whole lines without cursor movement, which is all that the demonstration writes.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{BufRead, Write};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::record::Provenance;
use crate::svg::escaped;

const COLUMNS: usize = 132;
const ROWS: usize = 34;

/// Longer pauses are shortened to this many seconds.
const PAUSE: f64 = 1.5;

/// How many seconds the last picture stays.
const END: f64 = 10.0;

/// Copies lines, and returns them as a recording.
///
/// # Errors
///
/// A line cannot be read or written.
pub fn capture(from: impl BufRead, mut to: impl Write, how: &Provenance) -> Result<String> {
    let header = json!({
        "version": 2, "width": COLUMNS, "height": ROWS,
        "title": how.command,
    });
    let typed = json!([0, "o", format!("$ {}\r\n", how.command)]);
    let mut cast = format!("{header}\n{typed}\n");
    let began = Instant::now();
    for line in from.lines() {
        let line = line?;
        writeln!(to, "{line}")?;
        let at = (began.elapsed().as_secs_f64() * 1e3).round() / 1e3;
        writeln!(cast, "{}", json!([at, "o", format!("{line}\r\n")]))?;
    }
    Ok(cast)
}

#[derive(Deserialize)]
struct Header {
    version: u8,
    title: String,
}

/// The recording as an SVG that plays in a loop; readers who prefer reduced motion see its end.
///
/// # Errors
///
/// The text is not a recording of this program.
pub fn play(cast: &str) -> Result<String> {
    let mut lines = cast.lines();
    let header: Header = serde_json::from_str(lines.next().context("an empty recording")?)?;
    ensure!(header.version == 2, "asciicast version {}", header.version);
    // The lines, and when each appears.
    let mut shown: Vec<(f64, String)> = Vec::new();
    let (mut now, mut last) = (0.5, 0.0);
    for line in lines {
        let (at, kind, text): (f64, String, Value) = serde_json::from_str(line)?;
        let text = text.as_str().context("output that is no text")?;
        ensure!(
            kind == "o" && !text.contains('\u{1b}'),
            "not plain output: {line}"
        );
        now += (at - last).clamp(0.0, PAUSE);
        last = at;
        for text in text.trim_end_matches(['\r', '\n']).split("\r\n") {
            shown.extend(wrapped(text).map(|text| (now, text)));
        }
    }
    ensure!(!shown.is_empty(), "a recording of nothing");
    Ok(svg(&header.title, &shown, now + END))
}

/// Splits a line into pieces that fit into a row of the terminal.
fn wrapped(line: &str) -> impl Iterator<Item = String> + use<> {
    let letters: Vec<char> = line.chars().collect();
    let mut rows: Vec<String> = letters
        .chunks(COLUMNS)
        .map(|it| it.iter().collect())
        .collect();
    if rows.is_empty() {
        rows.push(String::new());
    }
    rows.into_iter()
}

/// Height of a row, and width of a letter in a font of 12 pixels.
const ROW: f64 = 16.0;
const LETTER: f64 = 7.23;

/// All rows are in one strip. A cover moves down from row to row, and the strip moves up once the window is full.
#[expect(clippy::cast_precision_loss, reason = "a hundred rows")]
fn svg(title: &str, shown: &[(f64, String)], length: f64) -> String {
    let width = COLUMNS as f64 * LETTER + 24.0;
    let height = ROWS as f64 * ROW + 20.0;
    // The number of rows from each time on.
    let mut steps: BTreeMap<u32, usize> = BTreeMap::from([(0, 0)]);
    for (index, (at, _)) in shown.iter().enumerate() {
        steps.insert(hundredths(at / length), index + 1);
    }
    let all = shown.len();
    let hidden = |rows: usize| rows.saturating_sub(ROWS) as f64 * ROW;
    let (mut cover, mut strip) = (String::new(), String::new());
    for (at, rows) in &steps {
        let at = f64::from(*at) / 100.0;
        let _ = write!(
            cover,
            "{at}%{{transform:translateY({}px)}}",
            *rows as f64 * ROW
        );
        if *rows > ROWS || at == 0.0 {
            let _ = write!(strip, "{at}%{{transform:translateY(-{}px)}}", hidden(*rows));
        }
    }
    let mut texts = String::new();
    for (index, (_, text)) in shown.iter().enumerate() {
        if !text.trim().is_empty() {
            let y = (index + 1) as f64 * ROW;
            let _ = writeln!(texts, "<text x=\"12\" y=\"{y}\">{}</text>", escaped(text));
        }
    }
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" width=\"{width:.0}\" height=\"{height:.0}\" role=\"img\">\n\
         <title>{title}</title>\n\
         <style>text{{font:12px ui-monospace,Menlo,Consolas,monospace;fill:#e6edf3}}\
         @media (prefers-reduced-motion:no-preference){{.c{{animation:c {length:.1}s step-end infinite}}.s{{animation:s {length:.1}s step-end infinite}}}}\
         @keyframes c{{{cover}}}@keyframes s{{{strip}}}</style>\n\
         <rect width=\"100%\" height=\"100%\" rx=\"6\" fill=\"#0d1117\"/>\n\
         <svg y=\"8\" height=\"{}\" overflow=\"hidden\" xml:space=\"preserve\"><g class=\"s\" transform=\"translate(0,-{})\">\n{texts}\
         <rect class=\"c\" y=\"4\" width=\"100%\" height=\"{rows}\" fill=\"#0d1117\" transform=\"translate(0,{rows})\"/></g></svg>\n</svg>\n",
        ROWS as f64 * ROW + 4.0,
        hidden(all),
        rows = all as f64 * ROW,
        title = escaped(title),
    )
}

/// Rounds to hundredths of a percent.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a share of one"
)]
fn hundredths(share: f64) -> u32 {
    (share.clamp(0.0, 1.0) * 10_000.0).round() as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = r#"{"version": 2, "width": 132, "height": 34, "title": "make demo"}"#;

    #[test]
    fn what_is_captured_can_be_played() {
        let lines: String = (0..60).map(|line| format!("line <{line}>\n")).collect();
        let mut copy = Vec::new();
        let how = Provenance {
            command: "make demo".to_owned(),
            commit: "0123456789ab".to_owned(),
            machine: String::new(),
            scale: 1.0,
        };
        let cast = capture(lines.as_bytes(), &mut copy, &how).unwrap();
        assert_eq!(copy, lines.as_bytes());
        let svg = play(&cast).unwrap();
        assert!(svg.contains("<title>make demo</title>"));
        assert!(svg.contains(">line &lt;59&gt;</text>"));
        // At the end all 61 rows are uncovered, and 27 have left the window at the top.
        assert!(svg.contains("transform=\"translate(0,976)\""), "{svg}");
        assert!(svg.contains("transform=\"translate(0,-432)\""), "{svg}");
    }

    #[test]
    fn long_pauses_are_shortened_and_long_lines_wrapped() {
        let long = "x".repeat(COLUMNS + 1);
        let cast =
            format!("{HEADER}\n[1.0, \"o\", \"a\\r\\n\"]\n[100.0, \"o\", \"{long}\\r\\n\"]\n");
        let svg = play(&cast).unwrap();
        assert!(svg.contains("animation:c 13.0s"), "{svg}");
        assert!(svg.contains("y=\"48\">x</text>"), "{svg}");
    }

    #[test]
    fn what_is_no_plain_recording_is_refused() {
        for (cast, why) in [
            (String::new(), "empty"),
            (HEADER.to_owned(), "nothing"),
            (HEADER.replace('2', "3"), "version 3"),
            (format!("{HEADER}\n[1.0, \"i\", \"x\"]\n"), "not plain"),
            (
                format!("{HEADER}\n[1.0, \"o\", \"\\u001b[1m\"]\n"),
                "not plain",
            ),
        ] {
            let error = play(&cast).unwrap_err().to_string();
            assert!(error.contains(why), "{why}: {error}");
        }
    }
}
