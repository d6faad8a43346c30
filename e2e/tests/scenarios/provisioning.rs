//! The provisioner against a real API server, real controllers, scheduler, kubelet and a driver that
//! really mounts, under our chart's RBAC objects. `PROVISIONER=path` runs them with another one.

mod claim;
mod doubt;
mod fault;
mod local;
mod outage;
mod place;
mod reference;
mod room;
mod scene;
mod source;
mod volume;
mod zones;

use e2e::cluster::Cluster;
use e2e::suite::Scenario;

pub(crate) const SCENARIOS: &[Scenario<Cluster>] = &[
    Scenario {
        name: "provisioner_immediate_claims_come_and_go",
        run: claim::immediate,
    },
    Scenario {
        name: "provisioner_first_consumer_decides_the_zone",
        run: place::first_consumer,
    },
    Scenario {
        name: "provisioner_stateful_set_is_spread_over_three_zones",
        run: place::stateful_set,
    },
    Scenario {
        name: "provisioner_allowed_topologies_are_kept_to",
        run: place::allowed,
    },
    Scenario {
        name: "provisioner_room_decides_the_node",
        run: room::capacity,
    },
    Scenario {
        name: "provisioner_full_node_and_the_pod_goes_elsewhere",
        run: room::elsewhere,
    },
    Scenario {
        name: "provisioner_quota_of_the_driver_is_reached",
        run: room::quota,
    },
    Scenario {
        name: "provisioner_on_each_of_three_nodes",
        run: local::three_nodes,
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
        name: "provisioner_volume_attributes_reach_the_driver",
        run: reference::attributes,
    },
    Scenario {
        name: "provisioner_secrets_are_missing_and_wrong",
        run: reference::secrets,
    },
    Scenario {
        name: "provisioner_retained_volume_is_left_alone",
        run: volume::retained,
    },
    Scenario {
        name: "provisioner_volume_is_deleted_before_its_claim",
        run: volume::deleted_first,
    },
    Scenario {
        name: "provisioner_released_volume_waits_for_its_detach",
        run: volume::attached,
    },
    Scenario {
        name: "provisioner_volume_made_by_hand_is_taken_over",
        run: volume::made_by_hand,
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
        run: doubt::killed_then_deleted,
    },
    Scenario {
        name: "provisioner_claim_deleted_in_a_call_and_killed",
        run: doubt::deleted_then_killed,
    },
    Scenario {
        name: "provisioner_killed_after_a_timeout_and_the_claim_deleted",
        run: doubt::killed_after_timeout,
    },
    Scenario {
        name: "provisioner_terminated_in_a_call_and_the_claim_deleted",
        run: doubt::terminated,
    },
    Scenario {
        name: "provisioner_claim_deleted_in_a_call_and_terminated",
        run: doubt::terminated_and_answered,
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
    Scenario {
        name: "provisioner_clones_among_many_claims",
        run: outage::clones,
    },
];
