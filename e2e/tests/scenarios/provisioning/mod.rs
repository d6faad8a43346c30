//! The provisioner against a real API server, real controllers, scheduler, kubelet and a driver that
//! really mounts, under upstream's own RBAC objects. `PROVISIONER=path` runs them with another one.

mod claim;
mod scene;

use e2e::cluster::Cluster;
use e2e::suite::Scenario;

pub(crate) const SCENARIOS: &[Scenario<Cluster>] = &[
    Scenario {
        name: "provisioner_immediate_claims_come_and_go",
        run: claim::immediate,
    },
    Scenario {
        name: "provisioner_first_consumer_decides_the_zone",
        run: claim::first_consumer,
    },
];
