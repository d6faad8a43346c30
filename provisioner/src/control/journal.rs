//! Whether there is a provisioning journal, and where.

use sidecar::kube::access;
use sidecar::names;

use super::Parts;
use crate::args::Config;
use crate::permission;
use crate::plan::journal::Journal;
use crate::plan::settings::Protection;
use crate::work::journal::{Keeper, journal};

/// Where the election's lease is or would be; `None` if nothing says so and there is no election.
fn namespace(config: &Config) -> Option<String> {
    let pod = std::env::var("POD_NAMESPACE").ok();
    let file = std::fs::read_to_string(names::NAMESPACE_FILE).ok();
    let flag = &config.lease_namespace;
    let told = [Some(flag), pod.as_ref(), file.as_ref()];
    let told = told
        .into_iter()
        .flatten()
        .any(|text| !text.trim().is_empty());
    let namespace = names::namespace(flag, pod.as_deref(), file.as_deref());
    (told || config.election.is_some()).then_some(namespace)
}

/// The provisioning journal, if there is to be one and it may be written.
pub(super) async fn open(parts: &Parts<'_>) -> Option<(Journal, Keeper)> {
    let settings = &parts.config.settings;
    if settings.protection == Protection::Off {
        return None;
    }
    let Some(namespace) = namespace(parts.config) else {
        tracing::warn!(
            "No provisioning journal: its namespace is not known, set --leader-election-namespace \
             or POD_NAMESPACE; until then a restart may lose volumes whose claims are deleted"
        );
        return None;
    };
    let rules = [permission::journal(&namespace)];
    let seat = parts.seat;
    let report = tokio::select! {
        report = access::check(&seat.client, &rules) => report,
        () = seat.ending.requested() => return None,
    };
    if let Some(rule) = report.missing.first() {
        tracing::error!(
            %rule,
            without = "a restart may lose volumes whose claims are deleted",
            "No provisioning journal: the service account lacks a permission, add the rule"
        );
        return None;
    }
    let election = parts.config.election.as_ref();
    let fence = election.map(|_| seat.fence.clone());
    let keeper = Keeper::new(seat.api(), &namespace, &parts.metrics, fence);
    let labels = election.map_or(&[][..], |election| &election.labels);
    let driver = &parts.driver.current().name;
    Some((journal(driver, settings, labels), keeper))
}
