//! Alerts for clusters without the chart, and the page with the remedy for each.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;

use anyhow::{Context, Result, ensure};
use e2e::api::text;
use e2e::chart::Release;
use e2e::cluster::Cluster;
use e2e::program;
use e2e::suite::Verdict;
use serde_json::Value;

use super::metrics::metrics;
use super::rendered::items;

/// A placeholder for any driver.
const DRIVER: &str = "any.example.com";

/// A placeholder for any namespace.
const NAMESPACE: &str = "any-namespace";

const HEADER: &str = "\
# Alerts on csi-sidecars for a Prometheus without its operator and without the charts: the charts', for all
# drivers at once. What to do about each is in alerts.md.
# Written by `UPDATE=1 make chart ONLY=alerts`, and compared with the chart by `make chart`.
groups:
  - name: csi-sidecars
    rules:
";

pub(super) fn told(_: &Cluster) -> Result<Verdict> {
    let mut rules = rules(&Release {
        chart: "csi-sidecars",
        namespace: NAMESPACE,
        file: "ci/minimal-values.yaml",
        set: &[
            "driver.name=any.example.com",
            "features.nodeDeployment=true",
            "sidecars=together",
            "healthMonitor.enabled=true",
            "features.volumeHealth=true",
            "snapshotMetadata.enabled=true",
            "snapshotMetadata.tls.secretName=tls",
            "metrics.prometheusRule.enabled=true",
        ],
    })?;
    rules.extend(self::rules(&Release {
        chart: "snapshot-controller",
        namespace: NAMESPACE,
        file: "ci/minimal-values.yaml",
        set: &["metrics.prometheusRule.enabled=true"],
    })?);
    let mut file = HEADER.to_owned();
    for rule in &rules {
        // Which targets Prometheus scrapes, and under which labels, is not known here.
        if !is_of_scraping(field(rule, "/expr")?) {
            file.push_str(&plain(rule)?);
        }
    }
    let docs = program::root().join("docs");
    let recorded = docs.join("alerts.yaml");
    if std::env::var_os("UPDATE").is_some() {
        fs::write(&recorded, &file)?;
    }
    ensure!(
        fs::read_to_string(&recorded).unwrap_or_default() == file,
        "docs/alerts.yaml is not what the chart says now: make chart ONLY=alerts UPDATE=1"
    );

    let expressions = file.lines().filter_map(|line| {
        let quoted = line.trim().strip_prefix("expr: '")?.strip_suffix('\'')?;
        Some(quoted.replace("''", "'"))
    });
    let expressions: Vec<_> = expressions.collect();
    ensure!(expressions.len() > 10, "only {expressions:?}");
    metrics(&expressions).context("docs/alerts.yaml")?;

    let tried = fs::read_to_string(program::root().join("e2e/promtool/alerts.yaml"))?;
    for name in file
        .lines()
        .filter_map(|line| line.trim().strip_prefix("- alert: "))
    {
        let fires = format!("alertname: {name}\n        exp_alerts:");
        ensure!(
            tried.contains(&fires),
            "{name} fires nowhere in e2e/promtool/alerts.yaml"
        );
    }

    let named = { rules.iter() }
        .map(|rule| field(rule, "/alert"))
        .collect::<Result<BTreeSet<_>>>()?;
    let page = fs::read_to_string(docs.join("alerts.md"))?;
    let explained: BTreeSet<_> = { page.lines() }
        .filter_map(|line| line.strip_prefix("## "))
        .collect();
    ensure!(
        named == explained,
        "docs/alerts.md explains {explained:?}, the chart has {named:?}"
    );
    Ok(Verdict::Passed)
}

/// Whether the expression reads Prometheus' own `up`.
fn is_of_scraping(expr: &str) -> bool {
    let mut places = expr.match_indices("up{").map(|(at, _)| expr.get(..at));
    places.any(|before| !before.is_some_and(|it| it.ends_with('_')))
}

fn rules(release: &Release<'_>) -> Result<Vec<Value>> {
    let objects = release.objects()?;
    let rule = objects
        .iter()
        .find(|it| text(it, "/kind") == Some("PrometheusRule"));
    let rule = rule.context("a PrometheusRule")?;
    let groups = items(rule, "/spec/groups");
    Ok(groups
        .flat_map(|group| items(group, "/rules"))
        .cloned()
        .collect())
}

fn field<'a>(rule: &'a Value, path: &str) -> Result<&'a str> {
    text(rule, path).with_context(|| format!("no {path} in {rule}"))
}

/// The rule for all drivers, as YAML.
fn plain(rule: &Value) -> Result<String> {
    let selector = format!("csi_driver=\"{DRIVER}\"");
    let expr = field(rule, "/expr")?
        .replace(&format!("{{{selector}}}"), "")
        .replace(&format!("{selector}, "), "")
        .replace(&format!("namespace=\"{NAMESPACE}\", "), "");
    let summary = field(rule, "/annotations/summary")?.replace(DRIVER, "a CSI driver");
    let description = field(rule, "/annotations/description")?;
    for text in [&expr, &summary, description] {
        ensure!(
            !["csi_driver", DRIVER, NAMESPACE]
                .iter()
                .any(|it| text.contains(it)),
            "{text}"
        );
    }
    let quoted = |text: &str| format!("'{}'", text.replace('\'', "''"));
    let mut out = String::new();
    writeln!(out, "      - alert: {}", field(rule, "/alert")?)?;
    writeln!(out, "        expr: {}", quoted(&expr))?;
    writeln!(out, "        for: {}", field(rule, "/for")?)?;
    writeln!(
        out,
        "        labels: {{severity: {}}}",
        field(rule, "/labels/severity")?
    )?;
    writeln!(out, "        annotations:")?;
    writeln!(out, "          summary: {}", quoted(&summary))?;
    writeln!(out, "          description: {}", quoted(description))?;
    Ok(out)
}
