//! Whether there is a provisioning journal, and its namespace.

use sidecar::flags::Exit;
use sidecar::kube::access;
use sidecar::names;

use super::Parts;
use crate::args::Config;
use crate::permission;
use crate::plan::journal::{Journal, Lost};
use crate::plan::settings::Protection;
use crate::work::journal::{Keeper, journal, until_silent};

/// Namespace of the election's lease, with or without election; `None` if no setting names it and there is no election.
fn namespace(config: &Config) -> Option<String> {
    let pod = std::env::var("POD_NAMESPACE").ok();
    let file = std::fs::read_to_string(names::NAMESPACE_FILE).ok();
    let flag = &config.lease_namespace;
    let configured = [Some(flag), pod.as_ref(), file.as_ref()];
    let configured = configured
        .into_iter()
        .flatten()
        .any(|text| !text.trim().is_empty());
    let namespace = names::namespace(flag, pod.as_deref(), file.as_deref());
    (configured || config.election.is_some()).then_some(namespace)
}

/// The provisioning journal, if it is enabled and the process may write it.
///
/// # Errors
/// The reason why there is no journal, for [`Seat::begin`](sidecar::controller::Seat::begin).
pub(super) async fn open(parts: &Parts<'_>) -> Result<(Journal, Keeper), &'static str> {
    let settings = &parts.config.settings;
    if settings.protection == Protection::Off {
        return Err("off by --provisioning-protection");
    }
    let Some(namespace) = namespace(parts.config) else {
        tracing::warn!(
            "No provisioning journal: its namespace is not known. Set --leader-election-namespace or \
             POD_NAMESPACE; until then a restart may leave volumes of deleted claims in the storage"
        );
        return Err("off: its namespace is not known");
    };
    let rules = [permission::journal(&namespace)];
    let seat = parts.seat;
    let report = tokio::select! {
        report = access::check(&seat.client, &rules) => report,
        () = seat.ending.requested() => return Err("off: the process ends"),
    };
    if let Some(rule) = report.missing.first() {
        tracing::error!(
            %rule,
            without = "a restart may leave volumes of deleted claims in the storage",
            "No provisioning journal: the service account lacks a permission, add the rule"
        );
        return Err("off: a permission is missing");
    }
    let election = parts.config.election.as_ref();
    let fence = election.map(|_| seat.fence.clone());
    let keeper = Keeper::new(seat.api(), &namespace, &parts.metrics, fence);
    let labels = election.map_or(&[][..], |election| &election.labels);
    let driver = &parts.driver.current().name;
    Ok((journal(driver, settings, labels), keeper))
}

/// Waits until the process that has taken the journal has stopped writing heartbeats. Another process for the same
/// driver without election is no reason to end: this one would be restarted, and take the journal back.
///
/// # Errors
/// The driver is lost, or this process has to end.
pub(super) async fn wait_for_rival(parts: &Parts<'_>, lost: &Lost) -> Result<(), Ended> {
    let Parts { seat, config, .. } = parts;
    let Some(namespace) = namespace(config) else {
        return Ok(());
    };
    let driver = &parts.driver.current().name;
    let name = journal(driver, &config.settings, &[]).name(0);
    let reason = format!(
        "{lost}; without --leader-election only one process can work at a time, so this one waits: set \
         --leader-election for all replicas, or run only one replica"
    );
    tracing::error!(reason, "Another process provisions volumes for this driver");
    seat.hindered(Some(reason));
    let api = seat.api();
    let silent = tokio::select! {
        biased;
        () = seat.ending.requested() => Err(Ended(Ok(()))),
        exit = parts.driver.follow() => Err(Ended(Err(exit))),
        () = until_silent(&api, &namespace, &name) => Ok(()),
    };
    seat.hindered(None);
    if silent.is_ok() {
        tracing::info!(
            "The other process has stopped renewing, taking over the provisioning journal"
        );
    }
    silent
}

/// The exit of the process, if it ends while it waits.
pub(super) struct Ended(pub(super) Result<(), Exit>);
