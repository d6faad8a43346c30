//! "The CO SHALL ensure that there is no more than one call in-flight per volume at a given time"
//! (CSI, "Concurrency"), for the controller services. Kubernetes' attach/detach controller attaches
//! one volume to several nodes at once, so attaching counts per node.

use std::collections::BTreeMap;

use super::history::{Span, spans};
use super::{Invariant, Violation, violation};
use crate::instrument::record::Call;

pub(super) fn check(calls: &[Call]) -> Vec<Violation> {
    let mut violations = Vec::new();
    let mut under_way: BTreeMap<String, Vec<Span<'_>>> = BTreeMap::new();
    for span in spans(calls) {
        let mut reported: Vec<u64> = Vec::new();
        for key in keys(span.call) {
            let others = under_way.entry(key).or_default();
            others.retain(|other| other.end > span.call.start_ns);
            for other in others
                .iter()
                .filter(|other| conflict(other.call, span.call))
            {
                if reported.contains(&other.call.start_ns) {
                    continue;
                }
                reported.push(other.call.start_ns);
                let message = format!(
                    "{} of {} while {} was under way",
                    span.call.method,
                    object(span.call),
                    other.call.method
                );
                violations.push(violation(
                    Invariant::Overlap,
                    &[other.call, span.call],
                    message,
                ));
            }
            others.push(span);
        }
    }
    violations
}

fn object(call: &Call) -> &str {
    if call.name.is_empty() {
        &call.volume
    } else {
        &call.name
    }
}

/// The objects of a call: the name and the handle.
fn keys(call: &Call) -> Vec<String> {
    let (name, volume) = (
        format!("name {}", call.name),
        format!("volume {}", call.volume),
    );
    match call.method.as_str() {
        // A failed call has no handle.
        "CreateVolume" if call.volume.is_empty() => vec![name],
        "CreateVolume" => vec![name, volume],
        "CreateSnapshot" | "CreateVolumeGroupSnapshot" => vec![format!("snapshot {}", call.name)],
        "DeleteVolume"
        | "ControllerPublishVolume"
        | "ControllerUnpublishVolume"
        | "ControllerExpandVolume"
        | "ControllerModifyVolume" => vec![volume],
        _ => Vec::new(),
    }
}

fn conflict(a: &Call, b: &Call) -> bool {
    let attaches = |call: &Call| {
        matches!(
            call.method.as_str(),
            "ControllerPublishVolume" | "ControllerUnpublishVolume"
        )
    };
    // Without a node, detaching concerns all of them.
    let other_nodes = a.node != b.node && !a.node.is_empty() && !b.node.is_empty();
    !(attaches(a) && attaches(b) && other_nodes)
}
