//! Checks of leader election.

use serde_json::Value;
use sidecar::flags::Values;
use sidecar::kube::access::Rule;
use sidecar::names::{self, LeaseOwner};

use super::input::Object;
use super::pod::pasted;
use super::roles::Named;
use super::verdict::{Case, Remark, Verdict};

/// P-14: several replicas need leader election.
pub(crate) fn check(case: &Case<'_>, remarks: &mut Vec<Remark>) {
    let Some((values, _)) = &case.read else {
        return;
    };
    if !values.has("leader-election") {
        return;
    }
    let workload = case.container.workload;
    let replicas = workload
        .value
        .pointer("/spec/replicas")
        .and_then(Value::as_u64)
        .unwrap_or(1);
    if !values.bool("leader-election") {
        if replicas > 1 && workload.kind != "DaemonSet" {
            remarks.push(
                Remark::new("P-14", Verdict::Change, format!("{replicas} replicas without --leader-election are all at work; the same with upstream's"))
                    .way("add --leader-election, or leave one replica")
                    .at(case.place("replicas")),
            );
        }
        return;
    }
    let Some(rule) = rule(values, workload) else {
        return;
    };
    let namespace = rule.namespace.clone().unwrap_or_default();
    let (verbs, elsewhere) = case.account.lacks(&rule, Some(&lease(case.program.lease)));
    if verbs.is_empty() && elsewhere {
        remarks.push(
            Remark::new("P-14", Verdict::Unknown, format!("whether a replica can lead is unknown: no role of the account for leases in {namespace} could be seen"))
                .way(pasted(&rule, rule.verbs.to_vec())),
        );
    }
    if !verbs.is_empty() {
        remarks.push(
            Remark::new("P-14", Verdict::Change, format!("no replica can lead: the account lacks {} of leases in {namespace}; the same with upstream's", verbs.join(", ")))
                .way(pasted(&rule, verbs)),
        );
    }
}

/// The Lease that elects the leader of a program. Its name contains a driver's name that manifests do not state.
pub(crate) fn lease(owner: LeaseOwner) -> Named {
    let whole = owner == LeaseOwner::SnapshotController;
    // Builds the name with a one-letter driver and strips the letter again, so that the dash before it stays.
    let name = names::lease(owner, "d");
    let begins = if whole {
        &*name
    } else {
        name.strip_suffix('d').unwrap_or(&name)
    };
    Named {
        begins: begins.to_owned(),
        whole,
    }
}

/// The permissions of leader election, if it is on.
pub(crate) fn rule(values: &Values, workload: &Object) -> Option<Rule> {
    const VERBS: &[&str] = &["get", "create", "update"];
    if !values.has("leader-election") || !values.bool("leader-election") {
        return None;
    }
    let given = values.string("leader-election-namespace");
    let namespace = if given.is_empty() {
        &*workload.namespace
    } else {
        given
    };
    Some(Rule::required("coordination.k8s.io", "leases", VERBS).within(namespace))
}
