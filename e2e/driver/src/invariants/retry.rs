//! Repeated Create calls: while an earlier one may still be running, the request has to be
//! identical; after a final error only topology may have changed.

use std::collections::BTreeMap;

use super::history::{Known, known, spans};
use super::{Invariant, Violation, violation};
use crate::instrument::record::Call;

pub(super) fn check(calls: &[Call]) -> Vec<Violation> {
    let mut found = Vec::new();
    // The latest call by method and name, and which of these created each handle.
    let mut latest: BTreeMap<(&str, &str), &Call> = BTreeMap::new();
    let mut makers: BTreeMap<&str, (&str, &str)> = BTreeMap::new();
    for span in spans(calls) {
        let call = span.call;
        let key = (call.method.as_str(), call.name.as_str());
        match call.method.as_str() {
            "CreateVolume" | "CreateSnapshot" => {
                if let Some(earlier) = latest.insert(key, call)
                    && let Some(message) = difference(earlier, call)
                {
                    found.push(violation(
                        Invariant::RetryChanged,
                        &[earlier, call],
                        message,
                    ));
                }
                if known(call) == Known::Done {
                    makers.insert(&call.volume, key);
                }
            }
            // The name is free again.
            "DeleteVolume" | "DeleteSnapshot" if known(call) == Known::Done => {
                if let Some(key) = makers.remove(call.volume.as_str()) {
                    latest.remove(&key);
                }
            }
            _ => {}
        }
    }
    found
}

fn difference(earlier: &Call, call: &Call) -> Option<String> {
    let (method, name) = (&call.method, &call.name);
    if earlier.parameters_hash != call.parameters_hash {
        return Some(format!("{method} {name} repeated with other parameters"));
    }
    if known(earlier) == Known::InDoubt && earlier.request_hash != call.request_hash {
        return Some(format!(
            "{method} {name} repeated with another topology while in doubt"
        ));
    }
    None
}
