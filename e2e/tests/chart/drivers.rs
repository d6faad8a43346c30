//! Compares three known drivers' own charts with ours: the configuration of their sidecars as facts, and of ours
//! rendered for the same driver. Each fact is a line of text; a line that only one side has must be in a table with its
//! reason.

mod differences;
mod facts;

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use e2e::chart::Release;
use e2e::cluster::Cluster;
use e2e::suite::{self, Verdict};
use serde_json::Value;

use differences::{DIFFERENCES, Difference};

/// A driver whose own chart is reproduced.
struct Driver {
    /// Name in the table of differences.
    name: &'static str,
    /// Facts about the driver's own chart.
    theirs: &'static str,
    /// Values of our chart that reproduce it.
    file: &'static str,
    namespace: &'static str,
}

const SIDECARS: [&str; 4] = [
    "csi-attacher",
    "csi-provisioner",
    "csi-resizer",
    "csi-snapshotter",
];

const DRIVERS: [Driver; 3] = [
    Driver {
        name: "aws-ebs",
        theirs: include_str!("drivers/aws-ebs.json"),
        file: "ci/driver-aws-ebs-values.yaml",
        namespace: "kube-system",
    },
    Driver {
        name: "ceph-rbd",
        theirs: include_str!("drivers/ceph-rbd.json"),
        file: "ci/driver-ceph-rbd-values.yaml",
        namespace: "ceph-csi",
    },
    Driver {
        name: "democratic",
        theirs: include_str!("drivers/democratic.json"),
        file: "ci/driver-democratic-values.yaml",
        namespace: "democratic-csi",
    },
];

pub(super) fn side_by_side(_: &Cluster) -> Result<Verdict> {
    let mut used = BTreeSet::new();
    let mut unexplained = Vec::new();
    for driver in &DRIVERS {
        let (compared, lines) = compare(driver).with_context(|| driver.name)?;
        suite::say(&format!(
            "    {}: {compared} facts, {} differ",
            driver.name,
            lines.len()
        ));
        for line in lines {
            let why = DIFFERENCES
                .iter()
                .position(|it| explains(it, driver, &line));
            match why {
                Some(place) => drop(used.insert(place)),
                None => unexplained.push(format!("{} {line}", driver.name)),
            }
        }
    }
    ensure!(
        unexplained.is_empty(),
        "only one side has, and no difference explains (+ is ours):\n    {}",
        unexplained.join("\n    ")
    );
    let idle = DIFFERENCES.iter().enumerate();
    let idle: Vec<_> = { idle.filter(|(place, _)| !used.contains(place)) }
        .map(|(_, it)| format!("{:?} {}", it.drivers, it.line))
        .collect();
    ensure!(idle.is_empty(), "explain nothing: {}", idle.join("; "));
    Ok(Verdict::Passed)
}

/// The number of facts of the driver's chart, and the lines that only one side has, `-` theirs and `+` ours.
fn compare(driver: &Driver) -> Result<(usize, Vec<String>)> {
    let theirs: Value = serde_json::from_str(driver.theirs)?;
    let theirs = facts::theirs(&theirs, driver.namespace)?;
    let release = Release {
        chart: "csi-sidecars",
        namespace: driver.namespace,
        file: driver.file,
        set: &[],
    };
    let ours = facts::ours(&release.objects()?)?;
    // Comparing nothing would find no difference.
    for program in SIDECARS {
        for side in [&theirs, &ours] {
            let begins = format!("Deployment {program}: argument ");
            ensure!(
                side.iter().any(|it| it.starts_with(&begins)),
                "no {program}"
            );
        }
    }
    let missing = theirs.difference(&ours).map(|it| format!("- {it}"));
    let more = ours.difference(&theirs).map(|it| format!("+ {it}"));
    Ok((theirs.len(), missing.chain(more).collect()))
}

fn explains(difference: &Difference, driver: &Driver, line: &str) -> bool {
    let concerns = difference.drivers.is_empty() || difference.drivers.contains(&driver.name);
    concerns && !difference.why.is_empty() && fits(difference.line, line)
}

/// Whether the line matches the pattern, in which `*` is any text.
fn fits(pattern: &str, line: &str) -> bool {
    let Some((begin, rest)) = pattern.split_once('*') else {
        return pattern == line;
    };
    let Some(mut left) = line.strip_prefix(begin) else {
        return false;
    };
    let mut parts: Vec<_> = rest.split('*').collect();
    let end = parts.pop().unwrap_or_default();
    for part in parts {
        let Some(place) = left.find(part) else {
            return false;
        };
        left = left.split_at(place + part.len()).1;
    }
    left.ends_with(end)
}
