//! All sidecars of a driver in one process, beside and after single ones.

mod roll;

use e2e::cluster::Cluster;
use e2e::suite::Scenario;

/// Scenarios of this file.
pub(crate) const SCENARIOS: &[Scenario<Cluster>] = &[Scenario {
    name: "a_37_rolling_from_separate_sidecars_to_one_process_and_back",
    run: roll::there_and_back,
}];
