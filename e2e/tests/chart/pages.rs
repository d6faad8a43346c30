//! Renders the helm commands of the pages, and their values.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use e2e::cluster::Cluster;
use e2e::suite::{self, Verdict};
use e2e::{process, program};

pub(super) const README: &str = "charts/csi-sidecars/README.md";

const PAGES: [&str; 6] = [
    "README.md",
    README,
    "charts/snapshot-controller/README.md",
    "docs/driver-authors.md",
    "docs/administrators.md",
    "docs/lifecycle.md",
];

/// Values of an existing release that is changed with `--reuse-values`.
const REUSED: &str = "csi-sidecars.image.registry=registry.example.com/storage";

pub(super) fn commands(cluster: &Cluster) -> Result<Verdict> {
    let values = cluster.dir().join("run").join("my-values.yaml");
    let readme = read(README)?;
    let mut blocks = blocks(&readme).into_iter();
    std::fs::write(&values, blocks.next().context("values of a driver")?)?;
    let more = cluster.dir().join("run").join("more-values.yaml");
    let mut rendered = 0;
    // Blocks for a chart that includes ours are tested in such a chart, see `included`.
    let of_another = |block: &String| block.contains("{{") || block.starts_with("# ");
    for block in blocks.filter(|block| !of_another(block)) {
        std::fs::write(&more, &block)?;
        let mut helm = helm("template test")?;
        if block.starts_with("csi-sidecars:") {
            helm.arg("charts/csi-driver-host-path-demo");
        } else {
            helm.arg("charts/csi-sidecars").arg("--values").arg(&values);
        }
        render(helm.arg("--values").arg(&more)).with_context(|| block.clone())?;
        rendered += 1;
    }
    ensure!(rendered >= 3, "{README} has only {rendered} examples");

    let mut typed = 0;
    for page in PAGES {
        for (command, refused) in typed_in(&read(page)?) {
            let mut helm = as_template(&command, &values)?;
            match refused {
                None => render(&mut helm),
                Some(says) => refuses(&mut helm, &says),
            }
            .with_context(|| format!("{page}: {command}"))?;
            typed += 1;
        }
    }
    suite::say(&format!("    {typed} commands, {rendered} examples"));
    ensure!(typed >= 9, "pages have only {typed} commands");
    Ok(Verdict::Passed)
}

pub(super) fn read(page: &str) -> Result<String> {
    std::fs::read_to_string(program::root().join(page)).with_context(|| page.to_owned())
}

fn helm(words: &str) -> Result<Command> {
    let mut helm = Command::new(program::helm()?);
    helm.current_dir(program::root()).env_remove("KUBECONFIG");
    helm.args(words.split_whitespace());
    Ok(helm)
}

/// The YAML blocks of a page.
pub(super) fn blocks(page: &str) -> Vec<String> {
    let parts = page.split("```yaml\n").skip(1);
    let parts = parts.filter_map(|part| part.split("```").next());
    parts.map(str::to_owned).collect()
}

/// Commands that render something, on one line each, and the refusal that the page shows.
fn typed_in(page: &str) -> Vec<(String, Option<String>)> {
    let mut found = Vec::new();
    let mut lines = page.lines().peekable();
    while let Some(line) = lines.next() {
        let Some(line) = line.strip_prefix("    ") else {
            continue;
        };
        let (shown, line) = match line.strip_prefix("$ ") {
            Some(line) => (true, line),
            None => (false, line),
        };
        let line = line.strip_prefix("bin/").unwrap_or(line);
        let verbs = ["helm install ", "helm upgrade ", "helm template "];
        if !verbs.iter().any(|verb| line.starts_with(verb)) {
            continue;
        }
        let mut command = line.to_owned();
        while let Some(begun) = command.strip_suffix('\\') {
            command = format!("{begun} {}", lines.next().unwrap_or_default());
        }
        let mut says = String::new();
        while let Some(line) = lines.next_if(|line| shown && line.starts_with("    ")) {
            says.push_str(line.trim());
            says.push('\n');
        }
        found.push((command, shown.then_some(says)));
    }
    found
}

/// The command as `helm template`, which needs no cluster.
fn as_template(command: &str, values: &Path) -> Result<Command> {
    let mut helm = helm("template")?;
    for word in command.split_whitespace().skip(2) {
        match word {
            "--create-namespace" => {}
            "--reuse-values" => drop(helm.args(["--set", REUSED])),
            "my-values.yaml" => drop(helm.arg(values)),
            _ => drop(helm.arg(word)),
        }
    }
    Ok(helm)
}

fn render(helm: &mut Command) -> Result<()> {
    let said = process::output(helm)?;
    ensure!(said.contains("\nkind: "), "renders nothing: {said}");
    Ok(())
}

fn refuses(helm: &mut Command, says: &str) -> Result<()> {
    let error = process::output(helm).err().context("is not refused")?;
    let error = format!("{error:#}");
    for line in says.lines() {
        ensure!(error.contains(line), "does not say {line:?} but {error}");
    }
    Ok(())
}
