//! `csi-sidecars preflight`: reports what changes when a driver's sidecar images are replaced. It only reads.
//!
//! | file | holds |
//! |---|---|
//! | `args` | the command line |
//! | `input` | manifests |
//! | `cluster` | workloads and roles, and access reviews, from an API server |
//! | `program` | the programs: their tables of flags, gates and permissions |
//! | `container` | the program of a container and its arguments |
//! | `roles` | the permissions of an account |
//! | `verdict` | verdicts and remarks |
//! | `flags`, `pod`, `election`, `around` | the checks |
//! | `report` | the output, for people and in JSON |

mod args;
mod around;
mod cluster;
mod container;
mod election;
mod flags;
mod input;
mod pod;
pub(crate) mod program;
mod report;
mod roles;
#[cfg(test)]
mod tests;
mod verdict;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;

use sidecar::rt::Exit;

use crate::NAME;

use args::{Format, From};
use container::{Container, containers};
use input::Input;
use report::Report;
use roles::Account;
use verdict::{Answer, Case, Plan, Remark};

/// A check of one container. Remarks are printed in this order.
type Check = fn(&Case<'_>, &mut Vec<Remark>);
static CHECKS: &[Check] = &[
    pod::image,
    flags::warnings,
    flags::variables,
    pod::hooks,
    pod::permissions,
    election::check,
    pod::environment,
    pod::resources,
    pod::platform,
    pod::deviations,
    flags::rate,
    pod::profiles,
];

/// The API server's access reviews of accounts, by namespace and name.
pub(crate) type Reviews = BTreeMap<(String, String), BTreeMap<String, bool>>;

/// Runs preflight.
///
/// # Errors
/// Always: its output and the exit code.
pub(crate) async fn run(argv: Vec<OsString>) -> Result<(), Exit> {
    let ask = args::parse(argv.into_iter().skip(1).collect())?;
    let mut plan = ask.plan;
    let (input, reviews) = match &ask.from {
        From::File(path) => (Input::read(path, &ask.namespace)?, Reviews::default()),
        From::Cluster(what) => {
            let (input, reviews, kubernetes) =
                cluster::look(&ask.kubeconfig, &ask.namespace, what).await?;
            plan.kubernetes = plan.kubernetes.or(kubernetes);
            (input, reviews)
        }
    };
    let report = examine(&input, &reviews, &plan, ask.driver.as_deref());
    if report.answers.is_empty() {
        return Err(Exit::failure(
            1,
            format!(
                "no sidecar was found in {} objects: give preflight the workload that runs csi-provisioner, csi-attacher and the like, or their rendered manifests{}",
                input.objects.len(),
                input::not_read(&input.unreadable)
            ),
        ));
    }
    let stdout = match ask.format {
        Format::Human => report::human(&report),
        Format::Json => report::json(&report),
    };
    Err(Exit {
        stdout,
        ..Exit::with_code(report.code())
    })
}

/// Checks every sidecar of the input, or those of one driver.
pub(crate) fn examine(
    input: &Input,
    reviews: &Reviews,
    plan: &Plan,
    driver: Option<&str>,
) -> Report {
    let mut report = Report {
        around: [around::ports(input), around::metrics(input)].concat(),
        passed_over: input.passed_over,
        unreadable: input.unreadable.clone(),
        ..Report::default()
    };
    let is_ours = |one: &Container<'_>| matches!(one.identity, container::Identity::Ours);
    let workloads: Vec<_> = { input.workloads() }
        .map(|workload| (workload, containers(input, workload)))
        .filter(|(_, all)| {
            all.iter()
                .any(|one| one.program().is_some() || is_ours(one))
        })
        .collect();
    // A controller's socket may be in an emptyDir and the driver's name nowhere: its namespace is the node plugin's.
    let places: Option<BTreeSet<&str>> = driver.map(|driver| {
        let own = { workloads.iter() }.filter(|(one, _)| around::is_of(one, driver));
        own.map(|(one, _)| &*one.namespace).collect()
    });
    for (workload, all) in workloads {
        if { places.as_ref() }.is_some_and(|places| !places.contains(&*workload.namespace)) {
            continue;
        }
        let account = Account::of(input, workload);
        let account = match reviews.get(&Account::name_of(workload)) {
            Some(answers) => account.reviewed(answers.clone()),
            None => account,
        };
        let mut answers: Vec<_> = { all.iter() }
            .filter_map(|container| answer(input, plan, container, &account))
            .collect();
        if let Some(first) = answers.first_mut() {
            first.remarks.extend(around::together(plan, &all));
            first.remarks.extend(around::back(&all));
        }
        report.answers.append(&mut answers);
        let left = around::others(&all);
        if !left.is_empty() {
            report.left.push((around::called(workload), left));
        }
    }
    if let Some(driver) = driver.filter(|_| !report.answers.is_empty()) {
        report
            .around
            .extend(around::incomplete(driver, &report.answers));
    }
    report
}

fn answer(
    input: &Input,
    plan: &Plan,
    container: &Container<'_>,
    account: &Account<'_>,
) -> Option<Answer> {
    let workload = around::called(container.workload);
    if let container::Identity::Ours = container.identity {
        return Some(Answer {
            workload,
            container: container.name.to_owned(),
            program: NAME,
            remarks: vec![pod::ours(container)],
        });
    }
    let program = container.program()?;
    let (read, refusal) = match flags::read(program, container) {
        Ok(read) => (Some(read), None),
        Err(exit) => (None, Some(exit)),
    };
    let case = Case {
        plan,
        input,
        container,
        program,
        read,
        account,
    };
    let mut remarks = Vec::new();
    // A shell's arguments are no command line of the program.
    if let Some(exit) =
        refusal.filter(|_| !matches!(container.identity, container::Identity::Shell(_)))
    {
        remarks.push(flags::refused(&case, &exit));
    }
    CHECKS.iter().for_each(|check| check(&case, &mut remarks));
    Some(Answer {
        workload,
        container: container.name.to_owned(),
        program: program.name,
        remarks,
    })
}
