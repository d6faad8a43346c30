//! Upstream's programs and ours: how each reads its command line, and the permissions that it needs.
//!
//! Describes nothing itself: flags, gates and rules come from the programs' own tables.

use sidecar::controller::{self, Controller as _};
use sidecar::flags::{Exit, Spec, Values};
use sidecar::kube::access::Rule;
use sidecar::names::LeaseOwner;

/// The environment of a container.
pub(crate) type Environment<'a> = &'a dyn Fn(&str) -> Option<String>;

/// The result of reading a command line.
#[derive(Debug, Default)]
pub(crate) struct Read {
    /// The configuration, for comparison.
    #[cfg(test)]
    pub(crate) decided: String,
    pub(crate) warnings: Vec<String>,
    pub(crate) rules: Rules,
}

/// The permissions that a program needs.
#[derive(Debug, Default)]
pub(crate) struct Rules {
    /// Needed with every driver.
    pub(crate) always: Vec<Rule>,
    /// Needed only with drivers that have a certain capability.
    pub(crate) sometimes: Vec<Rule>,
    /// For the journal, if the program keeps one.
    pub(crate) journal: Option<Rule>,
}

impl Rules {
    /// `all`: the rules for a driver with every capability. Whether Secrets are needed depends on classes and volumes.
    fn new(mut always: Vec<Rule>, mut all: Vec<Rule>) -> Self {
        always.retain(|rule| rule.resource != "secrets");
        all.retain(|rule| !always.contains(rule));
        Self {
            always,
            sometimes: all,
            journal: None,
        }
    }
}

type Decide = fn(&Values, Environment<'_>) -> Result<Read, Exit>;

/// A program that replaces one of upstream's.
#[derive(Debug)]
pub(crate) struct Program {
    pub(crate) name: &'static str,
    /// Owner of its leader election's Lease.
    pub(crate) lease: LeaseOwner,
    /// Its image's name without prefixes such as `csi-` and `external-`.
    pub(crate) stem: &'static str,
    /// Its name in csi-sidecars' `--controllers`; empty if it is no controller there.
    pub(crate) controller: &'static str,
    pub(crate) spec: &'static Spec,
    pub(crate) decide: Decide,
    /// Resident memory in MB, rounded up, in the largest test of docs/figures: 50,000 volumes, or 20,000 snapshots.
    pub(crate) memory: u64,
}

fn read<C: std::fmt::Debug>(
    (command, warnings): (controller::Command<C>, Vec<String>),
    rules: impl FnOnce(&C) -> Rules,
) -> Read {
    #[cfg(test)]
    let decided = format!("{command:?}");
    let rules = match &command {
        controller::Command::Run(config) => rules(config),
        controller::Command::Version => Rules::default(),
    };
    Read {
        #[cfg(test)]
        decided,
        warnings,
        rules,
    }
}

/// For a program without permissions, whose command line has no warnings of its own.
#[cfg_attr(
    not(test),
    expect(unused_variables, reason = "only tests compare configurations")
)]
fn plain(command: impl std::fmt::Debug) -> Read {
    Read {
        #[cfg(test)]
        decided: format!("{command:?}"),
        ..Read::default()
    }
}

fn provisioner_rules(config: &provisioner::args::Config, namespace: Option<String>) -> Rules {
    use provisioner::permission::{self, Uses};
    use provisioner::plan::driver::Abilities;
    let place = match &*config.lease_namespace {
        "" => namespace.unwrap_or_default(),
        given => given.to_owned(),
    };
    let journal = (config.settings.protection == provisioner::plan::settings::Protection::Journal)
        .then_some(&*place);
    let uses = Uses {
        settings: &config.settings,
        capacity: config
            .capacity
            .as_ref()
            .map(|capacity| &*capacity.namespace),
        sweep: config.sweep.is_some(),
        journal,
    };
    let none = permission::rules(Abilities::default(), &uses);
    let all = permission::rules(Abilities::new(|_| true, |_| true), &uses);
    Rules {
        journal: journal.map(permission::journal),
        ..Rules::new(none, all)
    }
}

fn resizer_rules(config: &resizer::args::Config) -> Rules {
    use resizer::permission::rules;
    use resizer::plan::driver::{Abilities, Expansion};
    let all = Abilities {
        expansion: Expansion::Controller,
        modify: true,
        ..Abilities::default()
    };
    let settings = &config.settings;
    Rules::new(rules(Abilities::default(), settings), rules(all, settings))
}

/// For drivers of CSI 1.13 the program patches claims, for older ones it writes events.
fn health_monitor_rules() -> Rules {
    use health_monitor::permission::rules;
    use health_monitor::plan::mode::Mode;
    let mut all = rules(Mode::GetHealth);
    all.extend(rules(Mode::GetConditions));
    Rules::new(rules(Mode::Nothing), all)
}

/// All programs with a predecessor.
pub(crate) static PROGRAMS: &[Program] = &[
    Program {
        name: "csi-attacher",
        lease: attacher::run::Attacher::PROGRAM.owner,
        stem: "attacher",
        controller: "attacher",
        spec: &attacher::args::SPEC,
        decide: |values, _| {
            use attacher::permission::rules;
            Ok(read(attacher::args::decide(values)?, |_| {
                Rules::new(rules(false), rules(true))
            }))
        },
        memory: 32,
    },
    Program {
        name: "csi-external-health-monitor-controller",
        lease: health_monitor::run::HealthMonitor::PROGRAM.owner,
        stem: "health-monitor-controller",
        controller: "health-monitor",
        spec: &health_monitor::args::SPEC,
        decide: |values, _| {
            let command = health_monitor::args::decide(values)?;
            Ok(read(command, |_| health_monitor_rules()))
        },
        // The limit of its measurement with 50,000 volumes: health-monitor/tests/process/memory.rs.
        memory: 25,
    },
    Program {
        name: "csi-node-driver-registrar",
        lease: LeaseOwner::Nobody,
        stem: "node-driver-registrar",
        controller: "node-driver-registrar",
        spec: &registrar::args::SPEC,
        decide: |values, _| Ok(plain(registrar::args::decide(values)?)),
        memory: 3,
    },
    Program {
        name: "csi-provisioner",
        lease: provisioner::run::Provisioner::PROGRAM.owner,
        stem: "provisioner",
        controller: "provisioner",
        spec: &provisioner::args::SPEC,
        decide: |values, environment| {
            let own = provisioner::args::Environment::new(environment);
            let command = provisioner::args::decide(values, &own)?;
            let namespace = environment("preflight/namespace");
            Ok(read(command, |config| provisioner_rules(config, namespace)))
        },
        memory: 24,
    },
    Program {
        name: "csi-resizer",
        lease: resizer::run::Resizer::PROGRAM.owner,
        stem: "resizer",
        controller: "resizer",
        spec: &resizer::args::SPEC,
        decide: |values, _| Ok(read(resizer::args::decide(values)?, resizer_rules)),
        memory: 32,
    },
    Program {
        name: "csi-snapshotter",
        lease: snapshotter::run::Snapshotter::PROGRAM.owner,
        stem: "snapshotter",
        controller: "snapshotter",
        spec: &snapshotter::args::SPEC,
        decide: |values, environment| {
            use snapshotter::permission::rules;
            let node = environment("NODE_NAME");
            let command = snapshotter::args::decide(values, node.as_deref())?;
            Ok(read(command, |config| {
                Rules::new(rules(false), rules(config.groups.is_some()))
            }))
        },
        memory: 23,
    },
    Program {
        name: "livenessprobe",
        lease: LeaseOwner::Nobody,
        stem: "livenessprobe",
        controller: "livenessprobe",
        spec: &livenessprobe::args::SPEC,
        decide: |values, _| Ok(plain(livenessprobe::args::decide(values)?)),
        memory: 3,
    },
    Program {
        name: "snapshot-controller",
        lease: snapshot_controller::run::PROGRAM.owner,
        stem: "snapshot-controller",
        controller: "",
        spec: &snapshot_controller::args::SPEC,
        decide: |values, _| {
            use snapshot_controller::permission::rules;
            Ok(read(snapshot_controller::args::decide(values)?, |config| {
                let with = rules(config.settings, config.groups);
                Rules::new(rules(config.settings, false), with)
            }))
        },
        memory: 21,
    },
];

/// The program of this name.
pub(crate) fn named(name: &str) -> Option<&'static Program> {
    PROGRAMS.iter().find(|program| program.name == name)
}
