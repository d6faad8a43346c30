//! Snapshots on a real control plane: csi-snapshotter beside a driver whose snapshots are real copies,
//! the cluster's snapshot-controller, and the provisioner that restores.
//!
//! `SNAPSHOTTER` and `SNAPSHOT_CONTROLLER` set other programs for the same scenarios.

mod group;
mod life;
mod many;
mod restart;
mod scene;
mod swap;
mod traced;

use e2e::cluster::Cluster;
use e2e::suite::Scenario;

pub(crate) const SCENARIOS: &[Scenario<Cluster>] = &[
    Scenario {
        name: "snapshots_data_is_restored_and_cloned",
        run: life::data,
    },
    Scenario {
        name: "snapshots_stay_or_go_as_their_policy_says",
        run: life::policies,
    },
    Scenario {
        name: "snapshots_that_exist_are_bound_restored_and_deleted",
        run: life::pre_provisioned,
    },
    Scenario {
        name: "snapshots_wait_until_they_are_ready",
        run: life::not_ready,
    },
    Scenario {
        name: "snapshots_of_a_group_are_taken_restored_and_deleted",
        run: group::life,
    },
    Scenario {
        name: "o_15_o_18_o_20_a_trace_goes_over_programs",
        run: traced::over_programs,
    },
    Scenario {
        name: "snapshots_a_hundred_at_once",
        run: many::hundred,
    },
    Scenario {
        name: "snapshots_survive_a_killed_controller_at_each_step",
        run: restart::controller,
    },
    Scenario {
        name: "snapshots_survive_a_killed_snapshotter_at_each_step",
        run: restart::snapshotter,
    },
    Scenario {
        name: "snapshots_deleted_while_a_program_is_away_leave_nothing",
        run: restart::deleted,
    },
    Scenario {
        name: "snapshots_change_from_upstreams_programs_to_ours_and_back",
        run: swap::and_back,
    },
];
