//! Volumes of in-tree plugins on a real control plane: kube-controller-manager annotates the driver that
//! they moved to, kubelet mounts them, and the sidecars serve them. Rows M-149 to M-155.

mod life;
mod scene;
mod swap;

use e2e::cluster::Cluster;
use e2e::suite::Scenario;

pub(crate) const SCENARIOS: &[Scenario<Cluster>] = &[
    Scenario {
        name: "migration_life_of_a_volume_of_ebs",
        run: life::ebs,
    },
    Scenario {
        name: "migration_life_of_a_volume_of_gce",
        run: life::gce,
    },
    Scenario {
        name: "migration_volumes_in_use_change_from_upstreams_sidecars_to_ours",
        run: swap::from_upstream,
    },
];
