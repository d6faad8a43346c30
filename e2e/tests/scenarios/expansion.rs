//! The resizer against a real API server, real controllers, real kubelet code and a driver whose
//! volumes are real file systems. `RESIZER=path` runs them with another one.

mod fault;
mod grow;
mod many;
mod quota;
mod restart;
mod scene;

use e2e::cluster::Cluster;
use e2e::suite::Scenario;

pub(crate) const SCENARIOS: &[Scenario<Cluster>] = &[
    Scenario {
        name: "resizer_file_system_grows_under_a_pod",
        run: grow::online,
    },
    Scenario {
        name: "resizer_file_system_grows_before_the_next_pod",
        run: grow::offline,
    },
    Scenario {
        name: "resizer_block_device_grows_under_a_pod",
        run: grow::block,
    },
    Scenario {
        name: "resizer_without_the_node",
        run: grow::controller_alone,
    },
    Scenario {
        name: "resizer_class_is_changed_during_expansion",
        run: grow::with_class,
    },
    Scenario {
        name: "resizer_driver_fails_and_recovers",
        run: fault::recovers,
    },
    Scenario {
        name: "resizer_impossible_size_then_a_smaller_one",
        run: fault::impossible,
    },
    Scenario {
        name: "resizer_killed_in_each_step_of_an_expansion",
        run: restart::of_an_expansion,
    },
    Scenario {
        name: "resizer_killed_in_each_step_of_a_modification",
        run: restart::of_a_modification,
    },
    Scenario {
        name: "resizer_quota_of_the_namespace",
        run: quota::of_the_namespace,
    },
    Scenario {
        name: "resizer_quota_of_the_driver",
        run: quota::of_the_driver,
    },
    Scenario {
        name: "resizer_driver_is_away_for_a_while",
        run: fault::driver_away,
    },
    Scenario {
        name: "resizer_api_server_killed_among_many_claims",
        run: many::api_server,
    },
    Scenario {
        name: "resizer_hundreds_of_claims_grow",
        run: many::hundreds,
    },
];
