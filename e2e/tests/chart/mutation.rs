//! Removes each permission of a program once: the program must name it.
//!
//! With all of them the program must have nothing to complain about. Together this shows that its role grants exactly
//! what it needs. The table in `docs/rbac-mutations.md` has the complaints; `UPDATE=1` writes it.

use std::collections::BTreeMap;
use std::fs;
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use e2e::cluster::Cluster;
use e2e::suite::{self, Verdict};
use e2e::{program, wait};

use super::grant::Grant;
use super::setup::SETUPS;
use super::stage::Stage;

/// A wait beyond this means that the program hangs.
const SOON: Duration = Duration::from_secs(30);

/// Time within which a complaint would come, with everything cached already.
const CALM: Duration = Duration::from_secs(2);

/// Number of concurrent setups.
const AT_ONCE: usize = 4;

const HEADER: &str = "\
# What happens when a permission is missing

The charts `csi-sidecars` and `snapshot-controller` grant each program the permissions below; csi-node-agent has them from the ClusterRole in
`node-agent/deploy`. Each one was taken away alone, and the program started against a real API server and a driver that has
the features: what it says is in the last column. With all of them it says nothing. So none is missing, and none is too many.

Written by `UPDATE=1 make chart ONLY=permissions`; a run of `make chart` fails when it finds something else. *Required* and
*optional* are the program's own check at its start, which names the rule to add; *refused* is a request that the API server
did not permit, in the program's log; *ends* is a program that names the permission and exits.

| program | permission | without it |
|---|---|---|
";

pub(super) fn table(cluster: &Cluster) -> Result<Verdict> {
    let rows = all_rows(cluster)?;
    let (page, number) = (HEADER.to_owned() + &rows.concat(), rows.len());
    let file = program::root().join("docs").join("rbac-mutations.md");
    if std::env::var_os("UPDATE").is_some() {
        fs::write(&file, &page)?;
    }
    let recorded = fs::read_to_string(&file).unwrap_or_default();
    let shown = program::root().join("build").join("rbac-mutations.md");
    if recorded != page {
        fs::create_dir_all(program::root().join("build"))?;
        fs::write(&shown, &page)?;
    }
    ensure!(
        recorded == page,
        "docs/rbac-mutations.md is not what was found, which is in {}; repeat with UPDATE=1",
        shown.display()
    );
    suite::say(&format!(
        "          {number} permissions taken away, all noticed"
    ));
    Ok(Verdict::Passed)
}

/// The rows of all setups. A setup mostly waits, and has a driver, a namespace and roles of its own, so several run at
/// the same time.
fn all_rows(cluster: &Cluster) -> Result<Vec<String>> {
    let stages = SETUPS.iter().map(|setup| Stage::new(cluster, setup));
    // Last first: those have the most permissions.
    let left = Mutex::new(stages.enumerate().collect::<Vec<_>>());
    let found = Mutex::new(BTreeMap::new());
    let next = || left.lock().ok()?.pop();
    let try_some = || {
        while let Some((place, stage)) = next() {
            let rows = stage.and_then(|stage| rows(&stage));
            if let Ok(mut found) = found.lock() {
                found.insert(place, rows);
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(try_some);
        }
    });
    let found = found.into_inner()?;
    ensure!(
        found.len() == SETUPS.len(),
        "a thread ended before its rows"
    );
    let rows =
        { SETUPS.iter().zip(found.into_values()) }.map(|(setup, rows)| rows.context(setup.title));
    Ok(rows.collect::<Result<Vec<_>>>()?.concat())
}

fn rows(stage: &Stage<'_>) -> Result<Vec<String>> {
    {
        let mut complete = stage.start()?;
        complete.logs(SOON, "Starting")?;
        wait::stays(CALM, "no complaint", || {
            complete.must_run()?;
            let log = complete.log();
            ensure!(!complains(&log), "{}", complete.tail());
            Ok(true)
        })?;
    }
    let mut rows = Vec::new();
    for grant in stage.grants() {
        let answer = noticed(stage, &grant).with_context(|| format!("without {grant}"))?;
        let shown = grant.to_string().replace(&stage.namespace(), "NAMESPACE");
        rows.push(format!("| {} | {shown} | {answer} |\n", stage.title()));
    }
    Ok(rows)
}

fn complains(log: &str) -> bool {
    ["lacks a", "is forbidden", "Could not check"]
        .iter()
        .any(|it| log.contains(it))
}

/// The program's complaint without this permission.
fn noticed(stage: &Stage<'_>, grant: &Grant) -> Result<String> {
    stage.permit_all_but(Some(grant))?;
    stage.until_allowed(grant, false)?;
    if (grant.resource.as_str(), grant.verb.as_str()) == ("leases", "create") {
        stage.forget_leases()?;
    }
    let answer = {
        let mut program = stage.start()?;
        let said = wait::until(SOON, "the program says what is missing", || {
            Ok(complaint(&program.own_log(), grant))
        });
        let answer = said.with_context(|| program.tail());
        // The program may exit, but must not panic.
        ensure!(!program.log().contains("panicked"), "{}", program.tail());
        let _ = program.ended()?;
        answer?
    };
    stage.permit_all_but(None)?;
    stage.until_allowed(grant, true)?;
    Ok(answer)
}

/// Finds the complaint about this permission and no other one.
fn complaint(log: &str, grant: &Grant) -> Option<String> {
    let Grant {
        group,
        resource,
        verb,
        ..
    } = grant;
    let rule =
        format!("- {{apiGroups: [\"{group}\"], resources: [\"{resource}\"], verbs: [\"{verb}\"]}}");
    let refusal = format!("cannot {verb} resource \"{resource}\"");
    // A leader needs its Lease before anything else in Leases, and whether the election or the check complains first is
    // chance.
    let elects = log.contains("Attempting to acquire leader lease");
    let of_election = elects && resource == "leases" && !is_asked_for(grant);
    log.lines().find_map(|line| {
        let line = line.replace("\\\"", "\"");
        if line.contains(&rule) && !of_election {
            let without = line.split("without=\"").nth(1);
            let without = without.and_then(|rest| rest.split('"').next());
            return Some(match without {
                Some(without) => format!("optional: {without}"),
                None => "required".to_owned(),
            });
        }
        let ended =
            format!("may not {verb} {resource}.{group}, which the role of this program must allow");
        if line.contains(&ended) {
            return Some("ends".to_owned());
        }
        // The check at the start does not ask for permissions that are needed before it.
        (!is_asked_for(grant) && line.contains(&refusal)).then(|| "refused".to_owned())
    })
}

/// Whether the check at the start asks for it: not for the election's lease, which comes before, nor for events about
/// it, nor for the owners of capacity objects, without which the program exits at once, nor for lists that show whether
/// group snapshots are served.
fn is_asked_for(grant: &Grant) -> bool {
    let here = grant.namespace.as_deref().is_some_and(|it| it != "default");
    let is_found_by_list = grant.group == "groupsnapshot.storage.k8s.io" && grant.verb == "list";
    !(is_found_by_list
        || here && ["leases", "events", "pods", "replicasets"].contains(&grant.resource.as_str()))
}
