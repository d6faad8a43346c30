//! Translates a class of a plugin for the driver.

use std::collections::BTreeMap;

use super::lower;
use crate::model::class::{Class, Requirement};
use crate::model::driver::{ClassRules, Driver, Parameter};
use crate::model::error::Cause;
use crate::model::keys::{BETA_ZONE, ZONE};

pub(super) fn class(driver: &Driver, class: &Class) -> Result<Class, Cause> {
    let Some(rules) = &driver.class else {
        return Ok(class.clone());
    };
    let mut topologies = class.allowed_topologies.clone();
    if let Some(key) = rules.zone {
        match zones(rules, &class.parameters) {
            Some(_) if !topologies.is_empty() => return Err(Cause::ZonesTwice),
            Some(values) => {
                let key = key.to_owned();
                topologies = vec![vec![Requirement { key, values }]];
            }
            None => rename(&mut topologies, key),
        }
        if rules.numbers_are_no_zones {
            without_numbers(&mut topologies, key);
        }
    }
    Ok(Class {
        provisioner: { rules.provisioner }.map_or_else(|| class.provisioner.clone(), str::to_owned),
        parameters: parameters(rules, &class.parameters),
        allowed_topologies: topologies,
    })
}

fn rule(rules: &ClassRules, key: &str) -> Option<Parameter> {
    let key = lower(key);
    let found = rules.parameters.iter().find(|(known, _)| *known == key);
    found.map(|(_, rule)| *rule)
}

/// The translated parameters. Of several that result in the same key the last one counts, in byte order of their
/// original keys.
pub(super) fn parameters(
    rules: &ClassRules,
    parameters: &BTreeMap<String, String>,
) -> BTreeMap<String, String> {
    let mut out = BTreeMap::new();
    let mut added: Vec<(&str, &str)> = rules.added.to_vec();
    for (key, value) in parameters {
        let mut insert = |key: &str| out.insert(key.to_owned(), value.clone());
        match rule(rules, key) {
            Some(Parameter::Zone | Parameter::Zones) => {}
            Some(Parameter::Renamed(to)) => {
                insert(to);
            }
            Some(Parameter::Spread(keys)) => keys.iter().for_each(|to| {
                insert(to);
            }),
            Some(Parameter::With(other, of)) => {
                added.push((other, of));
                insert(key);
            }
            None if rules.keep_others => {
                insert(key);
            }
            None => {}
        }
    }
    let added = added.into_iter();
    out.extend(added.map(|(key, value)| (key.to_owned(), value.to_owned())));
    out
}

/// The zones in the parameters; there may be one without a name.
fn zones(rules: &ClassRules, parameters: &BTreeMap<String, String>) -> Option<Vec<String>> {
    let mut zones = parameters
        .iter()
        .filter_map(|(key, value)| match rule(rules, key)? {
            Parameter::Zone => Some(vec![value.clone()]),
            Parameter::Zones => Some(listed(value)),
            Parameter::Renamed(_) | Parameter::Spread(_) | Parameter::With(..) => None,
        });
    zones.next_back()
}

fn listed(value: &str) -> Vec<String> {
    let mut zones: Vec<String> = Vec::new();
    for zone in value.split(',').map(str::trim) {
        if !zone.is_empty() && !zones.iter().any(|known| known == zone) {
            zones.push(zone.to_owned());
        }
    }
    if zones.is_empty() {
        zones.push(String::new());
    }
    zones
}

fn rename(topologies: &mut [Vec<Requirement>], key: &str) {
    for requirement in topologies.iter_mut().flatten() {
        if requirement.key == ZONE || requirement.key == BETA_ZONE {
            key.clone_into(&mut requirement.key);
        }
    }
}

fn without_numbers(topologies: &mut [Vec<Requirement>], key: &str) {
    let zones = topologies.iter_mut().flatten().filter(|one| one.key == key);
    for value in zones.flat_map(|one| &mut one.values) {
        if value.bytes().all(|byte| byte.is_ascii_digit()) {
            value.clear();
        }
    }
}
