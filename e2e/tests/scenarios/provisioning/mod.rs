//! The provisioner against a real API server, real controllers, scheduler, kubelet and a driver that
//! really mounts, under upstream's own RBAC objects. `PROVISIONER=path` runs them with another one.

mod claim;
mod fault;
mod outage;
mod scene;
mod source;

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
    Scenario {
        name: "provisioner_copies_a_claim",
        run: source::claim,
    },
    Scenario {
        name: "provisioner_restores_a_snapshot",
        run: source::snapshot,
    },
    Scenario {
        name: "provisioner_class_comes_late",
        run: fault::late_class,
    },
    Scenario {
        name: "provisioner_storage_is_full_at_first",
        run: fault::exhausted,
    },
    Scenario {
        name: "provisioner_killed_in_a_call_and_the_claim_deleted",
        run: fault::killed_and_unclaimed,
    },
    Scenario {
        name: "provisioner_leader_killed_among_many_claims",
        run: outage::leader_killed,
    },
    Scenario {
        name: "provisioner_api_server_killed_among_many_claims",
        run: outage::api_server,
    },
    Scenario {
        name: "provisioner_hundreds_of_claims_come_and_go",
        run: outage::many,
    },
];
