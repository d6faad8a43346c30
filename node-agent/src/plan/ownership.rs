//! Applies the pod's fsGroup to a volume if the driver does not.

use super::mount::{Facts, Mount};
use super::script::{Flow, Leave, Log, Mount as State, Step};
use crate::model::driver::GroupPolicy;
use crate::model::volume::{Use, Volume};

/// Changes the group of the files, unless the driver did.
pub(super) fn own(
    it: &Mount,
    log: &mut Log<'_>,
    facts: &Facts,
    begin: &str,
    by_driver: Option<i64>,
) -> Flow<()> {
    let Some(group) = it.usage.fs_group.filter(|_| by_driver.is_none()) else {
        return Ok(());
    };
    let policy = facts.driver.as_ref().map(|driver| driver.group_policy);
    if !is_owned(policy.unwrap_or_default(), &it.volume, &it.usage) {
        return Ok(());
    }
    let own = u32::try_from(group).map(|group| Step::Own {
        path: it.paths.target.clone(),
        group,
        on_root_mismatch: it.usage.on_root_mismatch,
    });
    let failure = match own.map(|own| log.ask(own)) {
        Ok(asked) => asked?.err().map(ToString::to_string),
        Err(_) => Some(format!("fsGroup {group} is not the number of a group")),
    };
    match failure {
        None => Ok(()),
        Some(message) => {
            log.changes.pod = Some(State::Uncertain);
            Err(Leave::Failed(format!("{begin}{message}")))
        }
    }
}

/// Whether the agent has to apply the pod's fsGroup.
#[must_use]
pub fn is_owned(policy: GroupPolicy, volume: &Volume, usage: &Use) -> bool {
    let by_mode = || {
        let single = |mode: &String| mode == "ReadWriteOnce" || mode == "ReadWriteOncePod";
        !volume.is_persistent() || volume.access_modes.iter().any(single)
    };
    !usage.read_only
        && match policy {
            GroupPolicy::Never => false,
            GroupPolicy::Always => true,
            GroupPolicy::ByModeAndType => !volume.fs_type.is_empty() && by_mode(),
        }
}
