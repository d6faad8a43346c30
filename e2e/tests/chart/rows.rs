//! The effects of single values, row by row.

mod health_monitor;
mod publishes;
mod secure;
mod snapshot_controller;
mod table;
mod tracing;
mod why;

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, ensure};
use e2e::chart::{self, Release, title};
use e2e::cluster::Cluster;
use e2e::suite::Verdict;
use serde_json::Value;

use super::grant::grants;
use super::rendered::items;
use table::{ALWAYS, PERMISSIONS, TABLE};

/// The expected value at a path of an object.
enum Expect {
    /// Exactly this JSON.
    Is(&'static str),
    /// A list that contains this text.
    Has(&'static str),
    /// A list without any text that begins like this.
    Lacks(&'static str),
    /// No value; with an empty path: no such object.
    Absent,
}

struct Row {
    file: &'static str,
    set: &'static [&'static str],
    object: &'static str,
    /// A JSON pointer in which `[name]` picks the item of that name from a list.
    path: &'static str,
    expect: Expect,
}

const fn row(
    file: &'static str,
    set: &'static [&'static str],
    object: &'static str,
    path: &'static str,
    expect: Expect,
) -> Row {
    Row {
        file,
        set,
        object,
        path,
        expect,
    }
}

pub(super) fn all(_: &Cluster) -> Result<Verdict> {
    let mut failures = Vec::new();
    let mut releases: BTreeMap<_, Vec<Value>> = BTreeMap::new();
    let tables = [
        TABLE,
        secure::TABLE,
        health_monitor::TABLE,
        tracing::TABLE,
        why::TABLE,
    ];
    let sidecars = tables.into_iter().flatten();
    let controller = snapshot_controller::TABLE;
    let rows = { sidecars.map(|row| ("csi-sidecars", row)) }
        .chain(controller.iter().map(|row| ("snapshot-controller", row)));
    for (chart, row) in rows {
        let (file, set) = (row.file, row.set);
        let objects = match releases.entry((chart, file, set)) {
            Entry::Occupied(rendered) => rendered.into_mut(),
            Entry::Vacant(place) => {
                let release = Release {
                    chart,
                    namespace: "storage",
                    file,
                    set,
                };
                place.insert(release.objects()?)
            }
        };
        if let Err(error) = holds(row, objects) {
            let (object, path) = (row.object, row.path);
            failures.push(format!("{chart} {file} {set:?} {object} {path}: {error:#}"));
        }
    }
    let nothing: &[&str] = &[];
    for (program, always) in ALWAYS.iter().chain(health_monitor::ALWAYS) {
        let more = health_monitor::PERMISSIONS.iter();
        let more = more.chain(publishes::PERMISSIONS);
        let cases = { PERMISSIONS.iter().chain(more) }
            .filter(|(_, of, _)| of == program)
            .map(|(set, _, adds)| (*set, *adds));
        for (set, adds) in cases.chain([(nothing, nothing)]) {
            let has = permitted(program, set)?;
            let expected = always.iter().chain(adds).map(|it| (*it).to_owned());
            let expected: BTreeSet<_> = expected.collect();
            let differ: Vec<_> = has.symmetric_difference(&expected).collect();
            if !differ.is_empty() {
                failures.push(format!(
                    "{program} {set:?}: too many or too few: {differ:?}"
                ));
            }
        }
    }
    ensure!(failures.is_empty(), "{}", failures.join("\n    "));
    Ok(Verdict::Passed)
}

/// The permissions of a program with everything optional switched off, except `set`.
fn permitted(program: &str, set: &[&str]) -> Result<BTreeSet<String>> {
    let mut values = vec![
        "driver.publishes=false",
        "features.topology=false",
        "provisioner.protection=off",
        "resizer.handleVolumeInUseError=false",
        "snapshotter.events=false",
        "snapshotMetadata.tls.secretName=tls",
        "controller.leaderElection.enabled=false",
    ];
    values.extend(set);
    let objects = chart::permissions(program, "storage", "account", "my.example.com", &values)?;
    Ok(grants(&objects).iter().map(ToString::to_string).collect())
}

fn holds(row: &Row, objects: &[Value]) -> Result<()> {
    let object = objects.iter().find(|it| title(it) == row.object);
    if matches!((&row.expect, row.path), (Expect::Absent, "")) {
        ensure!(object.is_none(), "is there");
        return Ok(());
    }
    let object = object.context("is not there")?;
    let found = find(object, row.path);
    match row.expect {
        Expect::Absent => ensure!(found.is_none(), "is {found:?}"),
        Expect::Is(expected) => {
            let expected: Value = serde_json::from_str(expected)?;
            ensure!(found == Some(&expected), "is {found:?}");
        }
        Expect::Has(text) => {
            let list = found.context("no list")?;
            ensure!(items(list, "").any(|it| it == text), "is {list}");
        }
        Expect::Lacks(begin) => {
            let list = found.context("no list")?;
            let mut texts = items(list, "").filter_map(Value::as_str);
            ensure!(!texts.any(|it| it.starts_with(begin)), "is {list}");
        }
    }
    Ok(())
}

fn find<'a>(object: &'a Value, path: &str) -> Option<&'a Value> {
    let mut here = object;
    for segment in path.split('/').filter(|segment| !segment.is_empty()) {
        let named = segment
            .strip_prefix('[')
            .and_then(|it| it.strip_suffix(']'));
        here = match named {
            Some(name) => items(here, "").find(|it| it.pointer("/name") == Some(&name.into()))?,
            None => here.pointer(&format!("/{segment}"))?,
        };
    }
    Some(here)
}
