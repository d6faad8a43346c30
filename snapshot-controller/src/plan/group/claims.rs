//! The claims that a VolumeGroupSnapshot selects, and their volumes.
//!
//! The API server evaluates the selector: the cache would hold the labels of 50,000 claims for a few
//! groups, and may be late.

use sidecar::log::quote;

use super::{Decision, selector};
use crate::model::{Group, Text, key};
use crate::plan::complaint::RequeueTrigger;
use crate::plan::request::{Object, read};
use crate::plan::snapshot::Origin;
use crate::plan::view::{Learnt, View};

/// Why a group has nothing to take a snapshot of.
#[derive(Debug)]
pub(super) struct Problem {
    pub(super) text: String,
    pub(super) triggers: Vec<RequeueTrigger>,
}

/// The volumes of the claims that `selector` selects, in the order in which the API server lists them.
pub(super) fn volumes(
    view: &View<'_>,
    group: &Group,
    selector: &str,
) -> Decision<Result<Vec<Origin>, Problem>> {
    let text = match selector::text(selector) {
        Ok(text) => Text::from(text),
        Err(selector::Problem::Whole(text)) => return Ok(Err(problem(text, None))),
        Err(selector::Problem::Field(field, why)) => {
            let group = group.key();
            let text = format!("VolumeGroupSnapshot {group}: spec.source.selector.{field}: {why}");
            return Ok(Err(problem(text, None)));
        }
    };
    let object = Object::Claims(group.namespace.clone(), text.clone());
    let names = match view.learnt(&object) {
        None => return Err(read(object)),
        Some(Learnt::Read(names)) => names.clone().unwrap_or_default(),
        Some(Learnt::Unread(error)) => {
            let error = quote(&error.to_string());
            let text = format!("failed to list PVCs with label selector {text}: {error}");
            return Ok(Err(problem(text, None)));
        }
    };
    let mut volumes = Vec::new();
    for name in names.lines() {
        let key = key(&group.namespace, name);
        let of_claim = RequeueTrigger::Object(Object::Claim(key.clone()));
        let Some(claim) = view.claim(&key)? else {
            let text = format!("failed to retrieve PVC {name} from the lister");
            return Ok(Err(problem(text, Some(of_claim))));
        };
        match Origin::of(view, &key, &claim)? {
            Ok(origin) => volumes.push(origin),
            Err(why) => {
                let text = why.text("a group snapshot");
                return Ok(Err(problem(text, Some(why.trigger(&key)))));
            }
        }
    }
    if volumes.is_empty() {
        let text = format!("label selector {text} for group snapshot not applied to any PVC");
        return Ok(Err(problem(text, None)));
    }
    Ok(Ok(volumes))
}

fn problem(text: String, trigger: Option<RequeueTrigger>) -> Problem {
    Problem {
        text,
        triggers: trigger.into_iter().collect(),
    }
}
