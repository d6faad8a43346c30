//! Zones and regions of a volume: labels, and terms of its node affinity.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::object::{Object, lookup, made, object, object_mut};
use super::zone;
use crate::model::driver::{Region, Topology, ZoneForm, ZoneLabel};
use crate::model::error::{Cause, Error};
use crate::model::keys::{BETA_REGION, BETA_ZONE, LABEL_SEPARATOR, REGION, ZONE};

/// Keys of zone and region that belong together.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Pair {
    zone: &'static str,
    region: &'static str,
}

const STABLE: Pair = Pair {
    zone: ZONE,
    region: REGION,
};

const BETA: Pair = Pair {
    zone: BETA_ZONE,
    region: BETA_REGION,
};

/// Replaces Kubernetes' keys by the driver's.
pub(super) fn to_csi(keys: &Topology, volume: &mut Value) {
    let pair = pair(volume);
    adopt(volume, pair.zone, keys.zone, keys.label);
    match keys.region {
        Region::Key(key) => adopt(volume, pair.region, key, ZoneLabel::One),
        Region::None | Region::OfZones(_) => {
            if pair == BETA && !values(volume, BETA_REGION).is_empty() {
                rename(volume, BETA_REGION, REGION);
            }
        }
    }
}

/// Replaces the driver's keys by Kubernetes', and sets the labels.
pub(super) fn to_in_tree(keys: &Topology, volume: &mut Value) -> Result<(), Error> {
    let pair = pair(volume);
    rename(volume, keys.zone, pair.zone);
    match keys.region {
        Region::None => {}
        Region::Key(key) => {
            rename(volume, key, pair.region);
            let region = values(volume, pair.region).into_iter().next();
            label(volume, pair.region, region);
        }
        Region::OfZones(form) => {
            add_regions(volume, pair, form)?;
            let mut regions = values(volume, pair.region);
            let only = (regions.len() == 1).then(|| regions.pop_first()).flatten();
            // A volume without terms has no topology.
            label(volume, pair.region, only);
        }
    }
    let zones: Vec<String> = values(volume, pair.zone).into_iter().collect();
    let zones = match keys.label {
        ZoneLabel::One => zones.into_iter().next(),
        ZoneLabel::Joined => (!zones.is_empty()).then(|| zones.join(LABEL_SEPARATOR)),
    };
    label(volume, pair.zone, zones);
    Ok(())
}

/// The pair that the volume uses; the presence of a key is enough.
fn pair(volume: &Value) -> Pair {
    let pairs = [STABLE, BETA];
    let required = |pair: &Pair| expressions(volume).any(|one| has_key(one, pair.zone));
    let labelled = |pair: &Pair| {
        object(volume, &["metadata", "labels"]).is_some_and(|labels| labels.contains_key(pair.zone))
    };
    let found = pairs
        .into_iter()
        .find(required)
        .or_else(|| pairs.into_iter().find(labelled));
    found.unwrap_or(STABLE)
}

/// Replaces `from` by `to`; zones that only the label has are added to every term.
fn adopt(volume: &mut Value, from: &str, to: &str, form: ZoneLabel) {
    if !values(volume, from).is_empty() {
        return rename(volume, from, to);
    }
    let label = lookup(volume, "labels", from).unwrap_or_default();
    let parts: Vec<&str> = match form {
        ZoneLabel::Joined => label.split(LABEL_SEPARATOR).collect(),
        ZoneLabel::One => vec![label],
    };
    let parts = parts.into_iter().map(str::trim);
    let zones: BTreeSet<&str> = parts.filter(|part| !part.is_empty()).collect();
    if zones.is_empty() {
        return;
    }
    let added = json!({"key": to, "operator": "In", "values": zones});
    let Some(required) = object_mut(volume, &["spec", "nodeAffinity", "required"]) else {
        return;
    };
    let Some(terms) = made(required, "nodeSelectorTerms", json!([])).as_array_mut() else {
        return;
    };
    if terms.is_empty() {
        terms.push(json!({}));
    }
    for term in terms {
        append(term, &added);
    }
}

/// Adds to each term without a region that of its zones.
fn add_regions(volume: &mut Value, pair: Pair, form: ZoneForm) -> Result<(), Error> {
    for term in terms_mut(volume) {
        let inside = || expressions_of(term);
        if inside().any(|one| has_key(one, pair.region)) {
            continue;
        }
        let zones = inside().filter(|one| has_key(one, pair.zone));
        let region = zone::region(form, zones.flat_map(values_of));
        let region = region.map_err(|why| {
            let field = "spec.nodeAffinity.required.nodeSelectorTerms";
            Error::at(field, Cause::TopologyRegion(why))
        })?;
        append(
            term,
            &json!({"key": pair.region, "operator": "In", "values": [region]}),
        );
    }
    Ok(())
}

/// Sets a label unless it exists.
fn label(volume: &mut Value, key: &str, value: Option<String>) {
    let Some(value) = value else { return };
    if let Some(labels) = object_mut(volume, &["metadata", "labels"]) {
        labels.entry(key).or_insert(value.into());
    }
}

/// All values of a key, whatever the operators.
fn values(volume: &Value, key: &str) -> BTreeSet<String> {
    let found = expressions(volume).filter(|one| has_key(one, key));
    found.flat_map(values_of).map(str::to_owned).collect()
}

fn rename(volume: &mut Value, from: &str, to: &str) {
    for term in terms_mut(volume) {
        let expressions = term
            .get_mut("matchExpressions")
            .and_then(Value::as_array_mut);
        let objects = expressions
            .into_iter()
            .flatten()
            .filter_map(Value::as_object_mut);
        for one in objects.filter(|one| has_key(one, from)) {
            one.insert("key".to_owned(), to.into());
        }
    }
}

fn append(term: &mut Value, expression: &Value) {
    if let Some(term) = term.as_object_mut()
        && let Some(all) = made(term, "matchExpressions", json!([])).as_array_mut()
    {
        all.push(expression.clone());
    }
}

fn expressions(volume: &Value) -> impl Iterator<Item = &Object> {
    let required = object(volume, &["spec", "nodeAffinity", "required"]);
    let terms = required.and_then(|required| required.get("nodeSelectorTerms")?.as_array());
    terms.into_iter().flatten().flat_map(expressions_of)
}

fn terms_mut(volume: &mut Value) -> impl Iterator<Item = &mut Value> {
    let path = "/spec/nodeAffinity/required/nodeSelectorTerms";
    let terms = volume.pointer_mut(path).and_then(Value::as_array_mut);
    terms.into_iter().flatten()
}

fn expressions_of(term: &Value) -> impl Iterator<Item = &Object> {
    let all = term.get("matchExpressions").and_then(Value::as_array);
    all.into_iter().flatten().filter_map(Value::as_object)
}

fn has_key(expression: &Object, key: &str) -> bool {
    expression.get("key").is_some_and(|is| is == key)
}

fn values_of(expression: &Object) -> impl Iterator<Item = &str> {
    let values = expression.get("values").and_then(Value::as_array);
    values.into_iter().flatten().filter_map(Value::as_str)
}
