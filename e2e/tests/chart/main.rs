//! Tests of the charts: rendered by helm, compared with their promises, and applied to a real API
//! server. `cargo test -p e2e --test chart -- NAME` runs one.

mod alerts;
mod command_line;
mod definitions;
mod driver_charts;
mod drivers;
mod fields;
mod grant;
mod included;
mod manifests;
mod metrics;
mod mutation;
mod package;
mod pages;
mod pod_security;
mod refused;
mod rendered;
mod rows;
mod scheduled;
mod server;
mod setup;
mod stage;
mod together;

use std::process::ExitCode;

use anyhow::{Context, Result};
use e2e::cluster::{Cluster, Options};
use e2e::suite::{self, Scenario};

const SCENARIOS: &[Scenario<Cluster>] = &[
    Scenario {
        name: "chart_lint",
        run: rendered::lint,
    },
    Scenario {
        name: "chart_wrong_values_are_refused_with_a_reason",
        run: refused::all,
    },
    Scenario {
        name: "chart_package_names_the_packagers_registry",
        run: package::all,
    },
    Scenario {
        name: "chart_package_says_where_it_is_from",
        run: package::described,
    },
    Scenario {
        name: "chart_commands_and_values_of_pages_can_be_rendered",
        run: pages::commands,
    },
    Scenario {
        name: "chart_bundle_has_every_image_of_the_chart",
        run: package::bundled,
    },
    Scenario {
        name: "chart_pods_are_complete_and_hardened",
        run: rendered::pods,
    },
    Scenario {
        name: "chart_rows",
        run: rows::all,
    },
    Scenario {
        name: "chart_gives_what_known_drivers_own_charts_give",
        run: drivers::side_by_side,
    },
    Scenario {
        name: "chart_a_75_each_value_lands_at_its_controller",
        run: together::flags,
    },
    Scenario {
        name: "chart_a_73_one_container_and_the_same_permissions",
        run: together::objects,
    },
    Scenario {
        name: "chart_programs_understand_their_command_lines",
        run: command_line::understood,
    },
    Scenario {
        name: "chart_a_7_no_default_command_line_names_a_gate",
        run: command_line::gateless,
    },
    Scenario {
        name: "chart_definitions_of_snapshots_are_as_upstreams",
        run: definitions::as_upstreams,
    },
    Scenario {
        name: "chart_definitions_of_snapshots_are_installed_or_kept",
        run: definitions::kept,
    },
    Scenario {
        name: "chart_groups_that_exist_are_not_left_unattended",
        run: definitions::groups_remembered,
    },
    Scenario {
        name: "chart_is_accepted_by_the_api_server",
        run: server::dry_run,
    },
    Scenario {
        name: "chart_plain_manifests_are_the_charts",
        run: manifests::current,
    },
    Scenario {
        name: "chart_plain_manifests_are_accepted_for_a_driver",
        run: manifests::accepted,
    },
    Scenario {
        name: "chart_a_2_every_example_is_scheduled",
        run: scheduled::examples,
    },
    Scenario {
        name: "chart_a_3_included_pods_keep_the_selectors_of_their_chart",
        run: included::selectors,
    },
    Scenario {
        name: "chart_a_3_a_port_that_the_driver_declares_is_declared_once",
        run: included::declared_once,
    },
    Scenario {
        name: "chart_a_4_sidecars_of_two_drivers_are_in_one_pod",
        run: included::two_drivers,
    },
    Scenario {
        name: "chart_has_every_field_that_the_api_server_knows",
        run: fields::all_there,
    },
    Scenario {
        name: "chart_pods_fit_the_pod_security_level_that_is_documented",
        run: pod_security::levels,
    },
    Scenario {
        name: "chart_metrics_in_alerts_and_dashboard_exist",
        run: metrics::exist,
    },
    Scenario {
        name: "chart_a_12_dashboard_selects_by_driver_and_is_a_file_of_its_own",
        run: metrics::dashboard_file,
    },
    Scenario {
        name: "chart_alerts_are_explained_and_in_a_file_of_their_own",
        run: alerts::told,
    },
    Scenario {
        name: "chart_permissions_suffice_and_none_is_too_many",
        run: mutation::table,
    },
];

/// The tests that run instead if the environment names a folder with drivers' charts.
const DRIVERS: &[Scenario<Cluster>] = &[Scenario {
    name: "chart_a_3_drivers_own_charts_take_ours",
    run: driver_charts::all,
}];

fn main() -> ExitCode {
    suite::main(scenarios)
}

fn scenarios() -> Result<ExitCode> {
    let cluster = Cluster::up(&Options::default())?;
    let scenarios = if driver_charts::asked() {
        DRIVERS
    } else {
        SCENARIOS
    };
    let code = suite::run(&[scenarios], &cluster);
    cluster.down().context("teardown")?;
    suite::say("  cluster down, nothing left");
    code
}
