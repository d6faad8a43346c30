//! Edits a copy of a chart as its author does to include ours.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::table::Pod;

/// Adds our chart to the dependencies, and its values to a schema that allows no others.
pub(super) fn dependency(chart: &Path) -> Result<()> {
    let path = chart.join("Chart.yaml");
    let yaml = fs::read_to_string(&path)?;
    let yaml = yaml.replace("apiVersion: v1\n", "apiVersion: v2\n");
    let listed = "\ndependencies: [{name: csi-sidecars, version: \">=0\"}]\n";
    fs::write(&path, yaml + listed)?;
    let path = chart.join("values.schema.json");
    if path.is_file() {
        let mut schema: Value = serde_json::from_slice(&fs::read(&path)?)?;
        let properties = schema
            .pointer_mut("/properties")
            .and_then(Value::as_object_mut);
        let properties = properties.context("a schema with properties")?;
        properties.insert("csi-sidecars".to_owned(), json!({"type": "object"}));
        fs::write(&path, serde_json::to_vec(&schema)?)?;
    }
    Ok(())
}

/// The workload's template with our sidecars in place of its own.
pub(super) fn pod(template: &str, pod: &Pod) -> Result<String> {
    let mut lines = without(template, pod.without)?;
    let place = pod.place;
    let start =
        position(&lines, 0, |line| line == "  template:").context("no template of a pod")?;
    let label = position(&lines, start, |line| {
        line.trim_start().starts_with(pod.label)
    });
    include(&mut lines, label, &format!("{place}.selectorLabels"))?;
    for (list, what) in [
        ("      containers:", format!("{place}.containers")),
        ("      volumes:", pod.volumes.to_owned()),
    ] {
        let list = position(&lines, start, |line| line == list);
        if !what.is_empty() {
            include(&mut lines, list, &what)?;
        }
    }
    Ok(lines.join("\n"))
}

fn position(lines: &[String], from: usize, is: impl Fn(&str) -> bool) -> Option<usize> {
    let found = lines.iter().skip(from).position(|line| is(line))?;
    Some(from + found)
}

/// Includes one of our templates after a line: beside a label, or as the first items of a list.
fn include(lines: &mut Vec<String>, line: Option<usize>, what: &str) -> Result<()> {
    let line = line.with_context(|| format!("no place for {what}"))?;
    let mut below = lines.iter().skip(line);
    let here = below.next().context("a line")?;
    let item = below.find(|it| it.trim_start().starts_with("- "));
    let like = item.filter(|_| here.ends_with(':')).unwrap_or(here);
    let depth = indent(like);
    let ours = "(index .Subcharts \"csi-sidecars\")";
    let text = format!(
        "{:depth$}{{{{- include \"csi-sidecars.{what}\" {ours} | trim | nindent {depth} }}}}",
        ""
    );
    lines.insert(line + 1, text);
    Ok(())
}

fn indent(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

/// Number of blocks that a line opens, minus those that it closes.
fn opened(line: &str) -> i32 {
    let actions = line.split("{{").skip(1);
    let words = actions.filter_map(|action| {
        action
            .trim_start_matches('-')
            .split(|it: char| !it.is_alphanumeric())
            .find(|it| !it.is_empty())
    });
    words
        .map(|word| match word {
            "if" | "with" | "range" | "define" | "block" => 1,
            "end" => -1,
            _ => 0,
        })
        .sum()
}

/// The template without the list items of these names, each of which must exist. An item ends where the next one
/// begins, or with its list, or with the block around it.
fn without(template: &str, names: &[&str]) -> Result<Vec<String>> {
    let lines: Vec<_> = template.lines().collect();
    let mut kept = Vec::new();
    let mut left = names.to_vec();
    let mut at = 0;
    while let Some(line) = lines.get(at) {
        at += 1;
        let named = line.trim_start().strip_prefix("- name: ");
        let Some(name) = named.and_then(|it| names.iter().find(|name| **name == it)) else {
            kept.push((*line).to_owned());
            continue;
        };
        left.retain(|it| it != name);
        at = behind(&lines, at, indent(line));
    }
    ensure!(left.is_empty(), "there is no {}", left.join(", "));
    Ok(kept)
}

/// First line after an item whose first line is before `at`.
fn behind(lines: &[&str], mut at: usize, depth: usize) -> usize {
    let is_text = |line: &str| !line.trim().is_empty() && !line.trim_start().starts_with("{{");
    let mut blocks = 0;
    while let Some(line) = lines.get(at) {
        let next = lines.iter().skip(at).find(|it| is_text(it));
        let leaves = next.is_some_and(|it| indent(it) <= depth);
        let is_end = is_text(line) || opened(line) > 0;
        if blocks + opened(line) < 0 || (blocks == 0 && is_end && leaves) {
            return at;
        }
        blocks += opened(line);
        at += 1;
    }
    at
}
