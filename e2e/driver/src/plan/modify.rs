//! Mutable parameters (VolumeAttributesClass).

use std::collections::BTreeMap;

use tonic::Code;

use super::{Policy, Refusal, required};
use crate::model::state::State;
use crate::model::volume::Volume;

/// Checks that these parameters are accepted.
pub fn check_names(policy: &Policy, wanted: &BTreeMap<String, String>) -> Result<(), Refusal> {
    if wanted.is_empty() {
        return Ok(());
    }
    let invalid = |message: String| Err(Refusal::new(Code::InvalidArgument, message));
    if !policy.modify {
        return invalid("mutable parameters are not enabled".to_owned());
    }
    let accepted =
        |name: &String| policy.mutable_names.is_empty() || policy.mutable_names.contains(name);
    match wanted.keys().find(|name| !accepted(name)) {
        Some(name) => invalid(format!("parameter {name:?} is not mutable")),
        None => Ok(()),
    }
}

/// The volume with its new mutable parameters.
pub fn modify(
    state: &State,
    policy: &Policy,
    id: &str,
    wanted: &BTreeMap<String, String>,
) -> Result<Volume, Refusal> {
    required(id, "volume ID")?;
    check_names(policy, wanted)?;
    let Some(volume) = state.volumes.get(id) else {
        return Err(Refusal::new(
            Code::NotFound,
            format!("volume {id} does not exist"),
        ));
    };
    let mut volume = volume.clone();
    volume.mutable_parameters.extend(wanted.clone());
    Ok(volume)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::testing::{policy, put, state, volume};

    #[test]
    fn only_accepted_names_and_existing_volumes_are_modified() {
        let state = state([put(volume("v1", 1))]);
        let mut policy = policy();
        let wanted = |name: &str| BTreeMap::from([(name.to_owned(), "x".to_owned())]);
        let code = |policy: &Policy, id: &str, name: &str| {
            modify(&state, policy, id, &wanted(name)).map_err(|error| error.code)
        };
        assert_eq!(code(&policy, "v1", "iops"), Err(Code::InvalidArgument));
        policy.modify = true;
        assert!(code(&policy, "v1", "iops").is_ok(), "no list: every name");
        policy.mutable_names = vec!["iops".to_owned()];
        assert_eq!(
            code(&policy, "v1", "iops").unwrap().mutable_parameters,
            wanted("iops")
        );
        assert_eq!(code(&policy, "v1", "color"), Err(Code::InvalidArgument));
        assert_eq!(code(&policy, "gone", "iops"), Err(Code::NotFound));
        assert_eq!(code(&policy, "", "iops"), Err(Code::InvalidArgument));
    }
}
