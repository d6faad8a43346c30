//! The attacher against a real API server, real controllers, a real kubelet and a driver that really
//! mounts, under our chart's RBAC objects.
//!
//! `ATTACHER=path` runs them with another attacher. Each scenario counts the requests to the API
//! server and to the driver; where ours is better than the program it replaces, the other's counts
//! are printed but not asserted.

mod api_server;
mod burst;
mod csinode;
mod driver;
mod permission;
mod pod;
mod replicas;
mod scene;

use e2e::cluster::Cluster;
use e2e::suite::Scenario;

pub(crate) const SCENARIOS: &[Scenario<Cluster>] = &[
    Scenario {
        name: "attacher_pod_with_a_claim_attached_mounted_detached",
        run: pod::with_a_claim,
    },
    Scenario {
        name: "attacher_node_deleted_with_a_volume_attached",
        run: pod::node_deleted,
    },
    Scenario {
        name: "attacher_csinode_lost_and_late",
        run: csinode::lost_and_late,
    },
    Scenario {
        name: "attacher_driver_killed_during_publish_and_unpublish",
        run: driver::killed,
    },
    Scenario {
        name: "attacher_driver_lost_an_attachment",
        run: driver::lost_an_attachment,
    },
    Scenario {
        name: "attacher_api_server_killed_during_attach_and_detach",
        run: api_server::killed,
    },
    Scenario {
        name: "attacher_watches_cut_and_gone",
        run: api_server::watches_cut_and_gone,
    },
    Scenario {
        name: "attacher_leader_killed_with_two_replicas",
        run: replicas::leader_killed,
    },
    Scenario {
        name: "attacher_five_hundred_at_once",
        run: burst::five_hundred,
    },
    Scenario {
        name: "attacher_without_permissions_names_the_rules",
        run: permission::named,
    },
];
