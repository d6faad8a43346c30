//! The claims that a VolumeGroupSnapshot selects, and their volumes.
//!
//! The API server evaluates the selector: the cache would hold the labels of 50,000 claims for a few
//! groups, and may be late.

use sidecar::log::quote;

use super::selector;
use crate::model::{Group, GroupSource, Kind, Text, key};
use crate::plan::ask::Ask;
use crate::plan::attempt::Flow;
use crate::plan::origin::{Origin, Problem};
use crate::plan::request::Object;

/// The volumes of the claims that the group selects, in the order in which the API server lists them; there is at least
/// one.
pub(super) fn volumes(ask: Ask<'_>, group: &Group) -> Flow<Result<Vec<Origin>, Problem>> {
    let selector = match &group.source {
        GroupSource::Claims(selector) => &**selector,
        GroupSource::Content(_) | GroupSource::Unclear => "",
    };
    let text = match selector::text(selector) {
        Ok(text) => Text::from(text),
        Err(selector::Problem::Whole(text)) => return Ok(Err(Problem::new(text, []))),
        Err(selector::Problem::Field(field, why)) => {
            let group = group.key();
            let text = format!("VolumeGroupSnapshot {group}: spec.source.selector.{field}: {why}");
            return Ok(Err(Problem::new(text, [])));
        }
    };
    let names = match ask.read(&Object::Claims(group.namespace.clone(), text.clone()))? {
        Ok(names) => names.as_deref().unwrap_or_default(),
        Err(error) => {
            let error = quote(&error.to_string());
            let text = format!("failed to list PVCs with label selector {text}: {error}");
            return Ok(Err(Problem::new(text, [])));
        }
    };
    let mut volumes = Vec::new();
    for name in names.lines() {
        let key = key(&group.namespace, name);
        let Some(claim) = ask.claim(&key)? else {
            let text = format!("failed to retrieve PVC {name} from the lister");
            return Ok(Err(Problem::new(text, [Object::Claim(key)])));
        };
        match Origin::of(ask, Kind::Group, (&key, &claim))? {
            Ok(origin) => volumes.push(origin),
            Err(problem) => return Ok(Err(problem)),
        }
    }
    if volumes.is_empty() {
        let text = format!("label selector {text} for group snapshot not applied to any PVC");
        return Ok(Err(Problem::new(text, [])));
    }
    Ok(Ok(volumes))
}
