//! Differences between the translator and upstream, and which of them are intended.
//!
//! Each is a row of docs/parity.md. A difference is intended only if undoing it makes both results equal.

use serde_json::{Map, Value};

use super::canonical::canonical;
use crate::model::error::{RegionFault, UrlFault};
use crate::{Cause, Error};

/// Comparison of the results of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Verdict {
    /// The same object.
    Same,
    /// The same error.
    SameError,
    /// Another result, on purpose: the quirk's number.
    Meant(&'static str),
    /// Another result, which is a fault.
    Fault,
}

pub(super) fn verdict(request: &Value, ours: &Result<Value, Error>, theirs: &Value) -> Verdict {
    if request["times"].is_u64() {
        return among(request, ours, &theirs["ok"]);
    }
    let meant = |yes: bool, quirk| {
        if yes {
            Verdict::Meant(quirk)
        } else {
            Verdict::Fault
        }
    };
    if !theirs["panic"].is_null() {
        let policy = &request["volume"]["vsphereVolume"]["storagePolicyName"];
        let inline =
            request["op"] == "inline" && policy.as_str().is_some_and(|one| !one.is_empty());
        return meant(inline && ours.is_ok(), "QT1");
    }
    match (ours, theirs["error"].as_str()) {
        (Ok(ours), None) => objects(request, ours, &theirs["ok"]),
        (Err(ours), Some(theirs)) => {
            let same = essence(&ours.cause.to_string()) == essence(theirs);
            // Upstream goes on, and fails at the topology.
            let later = theirs.starts_with("failed to translate topology.");
            match quirk(&ours.cause) {
                _ if same => Verdict::SameError,
                Some(quirk) if later => Verdict::Meant(quirk),
                Some(_) | None => Verdict::Fault,
            }
        }
        (Ok(ours), Some(theirs)) => {
            let uri = &request["pv"]["spec"]["csi"]["volumeHandle"];
            let uri = uri.as_str().unwrap_or_default();
            let words = [
                "/subscriptions/",
                "/resourcegroups/",
                "/providers/microsoft",
                "/disks/",
            ];
            let lower = uri.to_ascii_lowercase();
            let spelt = words.iter().all(|word| lower.contains(word));
            let name = ours["spec"]["azureDisk"]["diskName"].as_str();
            let ends = name.is_some_and(|name| uri.split('\n').any(|line| line.ends_with(name)));
            let refused = theirs.starts_with("could not get disk name from ");
            meant(
                refused && spelt && ends && theirs.ends_with("disks/(.+)"),
                "QT3",
            )
        }
        (Err(ours), None) => match quirk(&ours.cause) {
            Some(quirk) => Verdict::Meant(quirk),
            None => Verdict::Fault,
        },
    }
}

/// The quirk for which our result is an error on purpose.
fn quirk(cause: &Cause) -> Option<&'static str> {
    if let Cause::Partition { value, too_large } = cause {
        return (*too_large && value.parse::<i64>().is_ok()).then_some("QT5");
    }
    if let Cause::NotAUrl { why, .. } = cause {
        return (*why == UrlFault::Text).then_some("QT14");
    }
    cut_zone(cause).then_some("QT4")
}

fn objects(request: &Value, ours: &Value, theirs: &Value) -> Verdict {
    let (mut ours, mut theirs) = (ours.clone(), theirs.clone());
    canonical(&mut ours);
    canonical(&mut theirs);
    if ours == theirs {
        return Verdict::Same;
    }
    if request["op"] == "class" {
        clean_zones(request, &mut theirs);
        canonical(&mut theirs);
        return if ours == theirs {
            Verdict::Meant("QT7")
        } else {
            Verdict::Fault
        };
    }
    let annotations = &request["pv"]["metadata"]["annotations"];
    let texts = ["name", "namespace"]
        .map(|what| &annotations[format!("openstorage.io/auth-secret-{what}")]);
    if texts.iter().any(|text| *text == "") && texts.iter().all(|text| text.is_string()) {
        let csi = theirs["spec"]["csi"].as_object_mut();
        csi.unwrap_or(&mut Map::new())
            .retain(|field, _| !field.ends_with("SecretRef"));
        if ours == theirs {
            return Verdict::Meant("QR2");
        }
    }
    Verdict::Fault
}

/// Applies our rules for the parameter `zones` to the zones of upstream's class, if they come from it.
fn clean_zones(request: &Value, class: &mut Value) {
    let parameters = request["class"]["parameters"].as_object();
    let mut given = parameters
        .into_iter()
        .flatten()
        .filter(|(key, _)| key.eq_ignore_ascii_case("zones"));
    let values = class.pointer_mut("/allowedTopologies/0/matchLabelExpressions/0/values");
    let (Some((_, given)), Some(values)) = (given.next_back(), values) else {
        return;
    };
    // For Azure numbers are not zones.
    let azure = request["plugin"] == "kubernetes.io/azure-disk";
    let number = |zone: &str| azure && zone.bytes().all(|byte| byte.is_ascii_digit());
    let named = |zone: &str| Value::from(if number(zone) { "" } else { zone });
    let given = given.as_str().unwrap_or_default();
    let raw: Vec<Value> = given.split(',').map(named).collect();
    if *values != Value::from(raw) {
        return;
    }
    let mut zones: Vec<&str> = Vec::new();
    for zone in given
        .split(',')
        .map(str::trim)
        .filter(|zone| !zone.is_empty())
    {
        if !zones.contains(&zone) {
            zones.push(zone);
        }
    }
    if zones.is_empty() {
        zones.push("");
    }
    *values = zones.into_iter().map(named).collect();
}

/// Whether every part of our class appears in one of upstream's results, which vary.
fn among(request: &Value, ours: &Result<Value, Error>, theirs: &Value) -> Verdict {
    let outcomes = theirs.as_array().unwrap();
    let Ok(ours) = ours else {
        let failed = outcomes.iter().all(|one| one["error"].is_string());
        return if failed {
            Verdict::SameError
        } else {
            Verdict::Fault
        };
    };
    let part = |class: &Value, field: &str| class[field].clone();
    let cleaned = outcomes.iter().map(|one| {
        let mut class = one["ok"].clone();
        clean_zones(request, &mut class);
        class
    });
    let all: Vec<Value> = { outcomes.iter() }
        .map(|one| one["ok"].clone())
        .chain(cleaned)
        .collect();
    let topologies = all.iter().any(|one| {
        let mut pair = [
            part(ours, "allowedTopologies"),
            part(one, "allowedTopologies"),
        ];
        pair.iter_mut().for_each(|one| {
            let mut wrapped = serde_json::json!({"allowedTopologies": one.clone()});
            canonical(&mut wrapped);
            *one = wrapped;
        });
        pair[0] == pair[1]
    });
    let keys = |class: &Value| -> Vec<String> {
        let parameters = class["parameters"].as_object();
        parameters
            .into_iter()
            .flat_map(|all| all.keys().cloned())
            .collect()
    };
    let parameters = keys(ours).iter().all(|key| {
        let value = &ours["parameters"][key];
        all.iter().any(|one| one["parameters"][key] == *value)
    });
    let complete = all.iter().all(|one| keys(one) == keys(ours));
    match topologies && parameters && complete {
        true if outcomes.len() > 1 => Verdict::Meant("QT2"),
        true => Verdict::Same,
        false => Verdict::Fault,
    }
}

/// Whether the last part of the zone is one character of two bytes, in the middle of which upstream cuts.
fn cut_zone(cause: &Cause) -> bool {
    let (Cause::TopologyRegion(RegionFault::NotAws(zone))
    | Cause::LabelRegion(RegionFault::NotAws(zone))) = cause
    else {
        return false;
    };
    let last = zone.rsplit('-').next().unwrap_or_default();
    last.len() == 2 && last.chars().count() == 1
}

/// The text of an error without the parts from Go's library and the dump of the object.
fn essence(text: &str) -> String {
    let mut text = text.to_owned();
    if let Some((before, after)) = text.split_once("PV:")
        && let Some((_, after)) = after.rsplit_once("Error:Failed")
    {
        text = format!("{before}Error:Failed{after}");
    }
    for cut in [": parse ", "error parsing volume id: "] {
        if let Some((before, _)) = text.split_once(cut) {
            return format!("{before}{cut}");
        }
    }
    // strconv.Atoi: parsing "x": invalid syntax
    if let Some((before, after)) = text.split_once(" to integer: ") {
        let (_, why) = after.rsplit_once(": ").unwrap_or_default();
        text = format!("{before} to integer: {why}");
    }
    text.replacen("Failed to convert", "failed to convert", 1)
}
