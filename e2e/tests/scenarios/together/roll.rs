//! Rolling updates between both kinds of pods, while users create and delete claims.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use csi_test_driver::invariants::Options;
use e2e::api::{Api, text};
use e2e::calls::Calls;
use e2e::cluster::Cluster;
use e2e::controller::{Controller, LONG_LEASE, Route, TOGETHER};
use e2e::deployment::Deployment;
use e2e::object::{self, Binding};
use e2e::process::Programs;
use e2e::suite::{Verdict, say};
use e2e::{program, wait};
use serde_json::json;
use sidecar_testkit::measure::stood_still;

const DRIVER: &str = "roll.together.test";
const STORAGE: &str = "/apis/storage.k8s.io/v1";
const CLAIMS: &str = "/api/v1/namespaces/default/persistentvolumeclaims";
const VOLUMES: &str = "/api/v1/persistentvolumes";

/// A wait beyond this means that something hangs: longer than the validity of a lease that nobody released.
const LONG: Duration = Duration::from_secs(60);

/// Number of users; each makes one volume after the other.
const USERS: usize = 8;
const CLAIMS_EACH: usize = 25;

/// How long each pod works alone.
const ALONE: Duration = Duration::from_secs(4);

/// How much later a candidate finds a released lease: `--leader-election-retry-period`, and a margin.
const FOUND_FREE: Duration = Duration::from_secs(7);

/// Name, prefix of the lease's name, and calls of each controller.
const CONTROLLERS: [(&str, &str, &[&str]); 3] = [
    ("csi-provisioner", "", &["CreateVolume", "DeleteVolume"]),
    (
        "csi-attacher",
        "external-attacher-leader-",
        &["ControllerPublishVolume", "ControllerUnpublishVolume"],
    ),
    (
        "csi-resizer",
        "external-resizer-",
        &["ControllerExpandVolume"],
    ),
];

/// The form of a pod's sidecars.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// A program each; another project's where `UPSTREAM` names its folder.
    Separate,
    Together,
}

const ROUNDS: [Kind; 5] = [
    Kind::Separate,
    Kind::Separate,
    Kind::Together,
    Kind::Together,
    Kind::Separate,
];

pub(super) fn there_and_back(cluster: &Cluster) -> Result<Verdict> {
    if program::driver_is_foreign() {
        let why = "csi-driver-host-path keeps no record of its callers";
        return Ok(Verdict::Skipped(why.to_owned()));
    }
    if program::all_in_one().is_err() {
        let why = "`make images` or `make unit` builds csi-sidecars";
        return Ok(Verdict::Skipped(why.to_owned()));
    }
    let scene = Scene::new(cluster)?;
    let _driver = scene
        .deployment
        .start_controller(&["--accept-any-node=true"])?;
    scene.slow_down()?;
    let users = start_users(cluster)?;
    let _none_yet = stood_still(Instant::now(), Instant::now());
    let mut pauses = BTreeMap::<_, Duration>::new();
    let mut foreign = BTreeSet::new();
    let mut running: Option<(Kind, Programs)> = None;
    let mut replica = 0;
    // Until all users are done, and each change at least once.
    while replica < ROUNDS.len() || users.iter().any(|user| !user.is_finished()) {
        let kind = ROUNDS.iter().copied().cycle().nth(replica);
        let kind = kind.unwrap_or(Kind::Separate);
        let name = format!("{replica}");
        let since = (latest(&scene.calls()?), Instant::now());
        let mut next = scene.start(kind, &name)?;
        if kind == Kind::Separate && program::has_upstreams() {
            foreign.extend(next.ids());
        }
        if let Some((before, old)) = running.take() {
            // Both pods run side by side for this long.
            thread::sleep(ALONE);
            old.stop()?;
            scene.until_leads(&mut next, &name)?;
            let longest = pauses.entry((before == kind, kind == Kind::Together));
            let pause = longest_pause(&scene.calls()?, since);
            let longest = longest.or_default();
            *longest = pause.max(*longest);
        } else {
            scene.until_leads(&mut next, &name)?;
        }
        // The new pod works alone for this long.
        thread::sleep(ALONE);
        next.must_run()?;
        running = Some((kind, next));
        replica += 1;
    }
    for user in users {
        user.join().map_err(|_| anyhow!("a user panicked"))??;
    }
    if let Some((_, last)) = running {
        last.stop()?;
    }
    let calls = scene.calls()?;
    never_two_at_work(&calls)?;
    calls.check_but_overlaps_of(&foreign, &Options::default())?;
    let made = calls.of("CreateVolume").answered().count();
    ensure!(made >= USERS * CLAIMS_EACH, "only {made} volumes");
    scene.nothing_left()?;
    say(&format!(
        "    {replica} pods, {} claims; longest pause of a controller: {pauses:?} (same kind before, one process after)",
        USERS * CLAIMS_EACH
    ));
    let usual = pauses.get(&(true, false)).copied().unwrap_or_default();
    for (change, pause) in &pauses {
        ensure!(
            *pause <= usual.max(FOUND_FREE) + FOUND_FREE,
            "{change:?}: a controller paused for {pause:?}, single ones for {usual:?}"
        );
    }
    scene.remove()?;
    Ok(Verdict::Passed)
}

struct Scene<'a> {
    api: Api,
    deployment: Deployment<'a>,
    controller: Controller<'a>,
}

impl<'a> Scene<'a> {
    fn new(cluster: &'a Cluster) -> Result<Self> {
        let api = cluster.api()?;
        let flags = [
            "--enable-attach=true",
            "--enable-topology=false",
            "--enable-volume-expansion=true",
            "--sync=false",
        ];
        let deployment = Deployment::new(cluster, &api, DRIVER, &flags)?;
        let class = object::storage_class(DRIVER, DRIVER, Binding::Immediate);
        api.create(&format!("{STORAGE}/storageclasses"), &class)?;
        // Kubernetes looks for the node that would mount, but no pod runs.
        api.create("/api/v1/nodes", &object::node(DRIVER))?;
        let csinode = object::csi_node(DRIVER, DRIVER, DRIVER);
        api.create(&format!("{STORAGE}/csinodes"), &csinode)?;
        // One account for all, as for the containers of a pod.
        let controller = Controller::install(cluster, TOGETHER, &deployment.controller)?;
        for (group, resource, verb) in [
            ("storage.k8s.io", "volumeattachments/status", "patch"),
            ("coordination.k8s.io", "leases", "create"),
            ("", "persistentvolumeclaims/status", "patch"),
        ] {
            controller.until_permitted(&api, group, resource, verb)?;
        }
        Ok(Self {
            api,
            deployment,
            controller,
        })
    }

    /// Delays calls, so that some run whenever a pod ends.
    fn slow_down(&self) -> Result<()> {
        let control = self.deployment.controller.control();
        for method in CONTROLLERS.iter().flat_map(|(.., methods)| *methods) {
            let latency = json!({
                "match": { "method": method },
                "action": { "delay": { "min_ms": 50, "max_ms": 250 } },
            });
            control.add_rule(&serde_json::from_value(latency)?)?;
        }
        Ok(())
    }

    /// Starts the sidecars of the pod with that host name.
    fn start(&self, kind: Kind, replica: &str) -> Result<Programs> {
        // A candidate waits for the end of a lease that upstream's programs leave behind.
        let leases: &[&str] = if program::has_upstreams() {
            &[]
        } else {
            &LONG_LEASE
        };
        let common = [&["--leader-election", "-v=2"][..], leases].concat();
        if kind == Kind::Together {
            let mut flags = vec!["--controllers=provisioner,attacher,resizer"];
            flags.extend(&common);
            let process = self.controller.start(replica, Route::Direct, &flags)?;
            return Ok(Programs::of(vec![process]));
        }
        let programs: [fn() -> Result<PathBuf>; 3] = if program::has_upstreams() {
            [
                program::upstreams_provisioner,
                program::upstreams_attacher,
                program::upstreams_resizer,
            ]
        } else {
            [program::provisioner, program::attacher, program::resizer]
        };
        let start = |program| {
            self.controller
                .of(program)
                .start(replica, Route::Direct, &common)
        };
        let processes = programs.into_iter().map(start);
        Ok(Programs::of(processes.collect::<Result<_>>()?))
    }

    /// Waits until the pod with that host name has all leases.
    fn until_leads(&self, programs: &mut Programs, replica: &str) -> Result<()> {
        let host = format!("{}-{replica}", TOGETHER.name);
        let driver = DRIVER.replace('.', "-");
        for (controller, prefix, _) in CONTROLLERS {
            let lease = format!("{prefix}{driver}");
            let what = format!("{controller} of {host} leads");
            let leads = wait::until_true(LONG, &what, || {
                programs.must_run()?;
                let holder = self.controller.holder(&self.api, &lease)?;
                let holder = holder.unwrap_or_default();
                // The suffix distinguishes one process from single programs.
                Ok(holder == host || holder.starts_with(&format!("{host}_")))
            });
            leads.with_context(|| programs.tails())?;
        }
        Ok(())
    }

    fn calls(&self) -> Result<Calls> {
        Calls::read(&self.deployment.controller.record())
    }

    fn nothing_left(&self) -> Result<()> {
        let state = self.deployment.controller.control().state()?;
        let left = state.pointer("/left_over").and_then(|it| it.as_object());
        for (kind, number) in left.context("the driver does not say what is left")? {
            ensure!(number == 0, "{number} {kind} are left in the storage");
        }
        Ok(())
    }

    fn remove(&self) -> Result<()> {
        for path in [
            format!("{STORAGE}/csinodes/{DRIVER}"),
            format!("/api/v1/nodes/{DRIVER}"),
            format!("{STORAGE}/storageclasses/{DRIVER}"),
        ] {
            self.api.delete(&path)?;
        }
        Ok(())
    }
}

/// Starts users who each make one volume after the other.
fn start_users(cluster: &Cluster) -> Result<Vec<JoinHandle<Result<()>>>> {
    let mut users = Vec::new();
    for user in 0..USERS {
        let api = cluster.api()?;
        users.push(thread::spawn(move || {
            (0..CLAIMS_EACH).try_for_each(|index| live(&api, &format!("roll-{user}-{index}")))
        }));
    }
    Ok(users)
}

/// Creates, attaches, expands, detaches and deletes a claim.
fn live(api: &Api, name: &str) -> Result<()> {
    let claim = format!("{CLAIMS}/{name}");
    api.create(CLAIMS, &object::claim(name, DRIVER, "1Mi"))?;
    let volume = wait::until(LONG, &format!("{name} is bound"), || {
        let claim = api.get(&claim)?;
        let is_bound = text(&claim, "/status/phase") == Some("Bound");
        Ok(text(&claim, "/spec/volumeName")
            .filter(|_| is_bound)
            .map(str::to_owned))
    });
    let volume = volume.with_context(|| api.events("default", name))?;
    let attachments = format!("{STORAGE}/volumeattachments");
    let attachment = object::volume_attachment(&volume, DRIVER, &volume, DRIVER);
    api.create(&attachments, &attachment)?;
    let attachment = format!("{attachments}/{volume}");
    wait::until_true(LONG, &format!("{name} is attached"), || {
        let attachment = api.get(&attachment)?;
        Ok(attachment.pointer("/status/attached") == Some(&json!(true)))
    })?;
    let more = json!({ "spec": { "resources": { "requests": { "storage": "2Mi" } } } });
    api.merge(&claim, &more)?;
    let volume = format!("{VOLUMES}/{volume}");
    wait::until_true(LONG, &format!("{name} has grown"), || {
        Ok(text(&api.get(&volume)?, "/spec/capacity/storage") == Some("2Mi"))
    })
    .with_context(|| api.events("default", name))?;
    api.delete(&attachment)?;
    api.until_gone(LONG, &attachment)?;
    api.delete(&claim)?;
    api.until_gone(LONG, &volume)
}

/// Start of the last call so far.
fn latest(calls: &Calls) -> u64 {
    calls.iter().map(|call| call.start_ns).max().unwrap_or(0)
}

/// Start and end of one controller's calls, by process, sorted by start.
fn of_controller(calls: &Calls, methods: &[&str]) -> Vec<(u32, u64, u64)> {
    let chosen = calls.iter().filter(|call| methods.contains(&&*call.method));
    let mut found: Vec<_> = chosen
        .map(|call| {
            let end = call.work_end_ns.or(call.end_ns).unwrap_or(call.start_ns);
            (call.caller.unwrap_or_default(), call.start_ns, end)
        })
        .collect();
    found.sort_by_key(|(_, start, _)| *start);
    found
}

/// Asserts that between a process's first call and the end of its last one no other process calls for that
/// controller.
fn never_two_at_work(calls: &Calls) -> Result<()> {
    for (controller, _, methods) in CONTROLLERS {
        let calls = of_controller(calls, methods);
        let mut processes = Vec::<(u32, u64, u64)>::new();
        for (caller, start, end) in calls {
            match processes.iter_mut().find(|(known, ..)| *known == caller) {
                Some((.., last)) => *last = end.max(*last),
                None => processes.push((caller, start, end)),
            }
        }
        ensure!(processes.len() >= 3, "{controller}: only {processes:?}");
        for pair in processes.windows(2) {
            if let [(one, _, end), (other, start, _)] = pair {
                ensure!(
                    end <= start,
                    "{controller}: process {other} calls before {one} has ended: {processes:?}"
                );
            }
        }
    }
    Ok(())
}

/// The longest pause between two calls of a controller since that moment, without what the machine stood still.
fn longest_pause(calls: &Calls, (since, begun): (u64, Instant)) -> Duration {
    let mut longest = 0;
    for (_, _, methods) in CONTROLLERS {
        let calls = of_controller(calls, methods);
        for pair in calls.windows(2) {
            if let [(_, before, _), (_, after, _)] = pair
                && *after > since
            {
                longest = longest.max(after.saturating_sub((*before).max(since)));
            }
        }
    }
    Duration::from_nanos(longest).saturating_sub(stood_still(begun, Instant::now()))
}
