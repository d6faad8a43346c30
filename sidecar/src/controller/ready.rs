//! Logs one line before a controller's first work: its driver, lease, limits and flags. Logs it again only if
//! something in it changed.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::driver_info::Known;
use super::flags::Election;
use super::lead;
use crate::flags::Values;
use crate::gates::{Gate, Gates};
use crate::kube::rate::Rate;
use crate::names::{self, LeaseOwner};
use crate::redact;
use crate::visible::shortened;

/// Most bytes of each quoted text. With the names of the fields they stay below 2 KiB.
mod longest {
    pub(super) const NAME: usize = 80;
    pub(super) const CAPABILITIES: usize = 352;
    pub(super) const LEASE: usize = 144;
    pub(super) const TIMEOUTS: usize = 96;
    pub(super) const RATE: usize = 40;
    pub(super) const GATES: usize = 160;
    pub(super) const FLAGS: usize = 448;
    pub(super) const KINDS: usize = 192;
    pub(super) const ENDPOINTS: usize = 160;
}

/// The command line's settings that the line shows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FlagSummary {
    workers: String,
    timeouts: String,
    rate: String,
    gates: String,
    given: String,
    endpoints: String,
    election: Option<Election>,
}

/// What a controller watches and journals when it begins to work.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Beginning {
    /// Kinds of objects that it watches.
    pub(super) kinds: Vec<&'static str>,
    /// Where it journals its requests to the driver, or why it does not.
    pub(super) journal: Option<String>,
}

/// The line's fields.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Line {
    driver: Option<String>,
    version: Option<String>,
    capabilities: Option<String>,
    lease: String,
    flags: Arc<FlagSummary>,
    watches: String,
    journal: Option<String>,
    missing: Option<u64>,
}

impl FlagSummary {
    /// From the flags' values; `gates` are those that the program knows.
    #[must_use]
    pub fn new(values: &Values, gates: &'static [Gate]) -> Self {
        let is_timeout = |name: &str| name == "timeout" || name.ends_with("-timeout");
        let is_worker = |name: &str| ["worker-threads", "workers"].contains(&name);
        let is_endpoint = |name: &str| {
            let others = ["csi-address", "metrics-address"];
            name.ends_with("http-endpoint") || others.contains(&name)
        };
        let endpoints = values.shown(is_endpoint);
        let endpoints = endpoints.filter(|(_, address)| !address.is_empty());
        let gates = match values.has("feature-gates") {
            true => Gates::changed(gates, &values.gates("feature-gates")),
            false => Vec::new(),
        };
        let gates = gates
            .into_iter()
            .map(|(name, value)| (name, value.to_string()));
        let given = { values.given() }.map(|(name, value)| (name, redact::of_flag(name, &value)));
        let workers = values.shown(is_worker).map(|(_, number)| number);
        let election = { values.has("leader-election") }.then(|| Election::from_flags(values));
        Self {
            workers: workers.collect(),
            timeouts: shortened(&list(values.shown(is_timeout)), longest::TIMEOUTS),
            rate: rate(values),
            gates: shortened(&list(gates), longest::GATES),
            given: shortened(&list(given), longest::FLAGS),
            endpoints: shortened(&list(endpoints), longest::ENDPOINTS),
            // A contradictory election has ended the process already.
            election: election.and_then(Result::ok).flatten(),
        }
    }
}

fn list<'a>(pairs: impl Iterator<Item = (&'a str, String)>) -> String {
    let pairs = pairs.map(|(name, value)| format!("{name}={value}"));
    pairs.collect::<Vec<_>>().join(" ")
}

fn rate(values: &Values) -> String {
    if !values.has("kube-api-qps") {
        return String::new();
    }
    match Rate::from_flags(values) {
        Ok(Rate::Fixed { qps, burst, .. }) => {
            shortened(&format!("{qps} burst {burst}"), longest::RATE)
        }
        Ok(Rate::Adaptive | Rate::Unlimited) | Err(_) => "no limit".to_owned(),
    }
}

/// The line for a controller. `optional` is the number of optional permissions that it lacks, if known.
pub(super) fn line(
    flags: &Arc<FlagSummary>,
    owner: LeaseOwner,
    driver: Option<&Known>,
    begun: &Beginning,
    optional: Option<usize>,
) -> Line {
    let lease = match &flags.election {
        Some(election) => {
            let name = driver.map(|driver| driver.name.as_str());
            let name = names::lease(owner, name.unwrap_or_default());
            format!("{}/{name}", lead::namespace(election))
        }
        None => "no leader election".to_owned(),
    };
    let of_driver = |text: fn(&Known) -> String, longest| {
        driver.map(|driver| shortened(&text(driver), longest))
    };
    Line {
        driver: of_driver(|driver| driver.name.clone(), longest::NAME),
        version: of_driver(|driver| driver.version.clone(), longest::NAME),
        capabilities: of_driver(
            |driver| driver.capabilities.join(" "),
            longest::CAPABILITIES,
        ),
        lease: shortened(&lease, longest::LEASE),
        flags: Arc::clone(flags),
        watches: shortened(&begun.kinds.join(" "), longest::KINDS),
        journal: { begun.journal.as_ref() }.map(|text| shortened(text, longest::NAME)),
        missing: optional.map(|missing| missing.try_into().unwrap_or(u64::MAX)),
    }
}

/// The last line of each controller of a process.
#[derive(Debug, Default)]
pub(super) struct ReadyLines(Mutex<BTreeMap<Option<&'static str>, Line>>);

impl ReadyLines {
    /// Logs the line unless `controller` has logged the same before; `None` for a process's only controller. Returns
    /// whether it was logged.
    pub(super) fn say(&self, controller: Option<&'static str>, line: Line) -> bool {
        let mut said = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if said.get(&controller) == Some(&line) {
            return false;
        }
        let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        tracing::info!(
            controller,
            driver = line.driver,
            driver_version = line.version,
            capabilities = line.capabilities,
            lease = line.lease,
            workers = some(&line.flags.workers),
            timeouts = some(&line.flags.timeouts),
            qps = some(&line.flags.rate),
            gates = some(&line.flags.gates),
            flags = some(&line.flags.given),
            watches = line.watches,
            journal = line.journal,
            missing_optional_permissions = line.missing,
            endpoints = some(&line.flags.endpoints),
            "Ready to work"
        );
        said.insert(controller, line);
        true
    }
}

#[cfg(test)]
mod tests;
