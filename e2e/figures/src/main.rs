//! `figures` redraws all recorded results and the recording of the demonstration, and writes the tables of results;
//! `figures capture` copies standard input, the demonstration, to standard output, and records it in
//! `docs/figures/demo.cast`.

use std::fs;
use std::io::{self, Write as _};
use std::process::ExitCode;

use anyhow::{Result, bail};
use figures::{cast, folder, plots, readme, record, tables};

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let outcome = match *words {
        [] => draw(),
        ["capture"] => capture(),
        _ => Err(anyhow::anyhow!("usage: figures [capture]")),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(io::stderr(), "figures: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn draw() -> Result<()> {
    let records = record::read(&folder().join("recorded"))?;
    let drawn = plots::draw(&records);
    for (file, text) in &drawn.files {
        fs::write(folder().join(file), text)?;
    }
    fs::write(folder().join(tables::PAGE), tables::page(&records))?;
    let text = fs::read_to_string(readme())?;
    fs::write(readme(), tables::readme(&text, &records))?;
    let figures = folder().join("README.md");
    let text = fs::read_to_string(&figures)?;
    fs::write(&figures, tables::pictures(&text, &drawn.plots))?;
    let drivers = folder().join("../driver-authors.md");
    let text = fs::read_to_string(&drivers)?;
    fs::write(&drivers, tables::memory(&text, &records))?;
    for file in plots::superfluous(&drawn)? {
        fs::remove_file(folder().join(file))?;
    }
    let mut out = io::stdout().lock();
    for missing in &drawn.missing {
        writeln!(out, "figures: not drawn, nothing is recorded: {missing}")?;
    }
    let recording = folder().join("demo.cast");
    if recording.exists() {
        let text = fs::read_to_string(recording)?;
        fs::write(folder().join("demo.svg"), cast::play(&text)?)?;
    }
    Ok(())
}

fn capture() -> Result<()> {
    let Some(provenance) = record::Provenance::now()? else {
        bail!("FIGURES_COMMAND does not name the command: make recording");
    };
    let text = cast::capture(io::stdin().lock(), io::stdout().lock(), &provenance)?;
    if !text.contains("demo: PASSED") {
        bail!("the demonstration did not pass, and its recording is not kept");
    }
    fs::write(folder().join("demo.cast"), text)?;
    Ok(())
}
