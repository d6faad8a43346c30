//! The built program between a model API server and a model driver, with work for every controller.

use std::ops::Deref;
use std::process::Command;

use serde_json::Value;
use sidecar_testkit::build::{self, Object};
use sidecar_testkit::controller::{self, Dialect, ELECTION, Effect, Program, Work};
use sidecar_testkit::driver::ControllerRpc;
use sidecar_testkit::process::Process;

pub(crate) use sidecar_testkit::controller::{
    Running, free_address, get, settle, until_answer, until_metrics,
};

pub(crate) const DRIVER: &str = "test.csi.driver";
pub(crate) const THREE: &str = "--controllers=provisioner,attacher,resizer";
pub(crate) const ALL: [&str; 3] = ["provisioner", "attacher", "resizer"];

/// A lease that is not lost while the machine stands still. Whoever ends well or starts again gets it at once.
pub(crate) const CALM: [&str; 2] = [
    "--leader-election-lease-duration=120s",
    "--leader-election-renew-deadline=100s",
];
/// Health requests fail after three seconds by default, which a busy machine exceeds.
pub(crate) const PATIENT: &str = "--probe-timeout=1m";

pub(crate) static PROGRAM: Program = Program {
    built: env!("CARGO_BIN_EXE_csi-sidecars"),
    variable: "CSI_SIDECARS_BINARY",
    ready: "Starting CSI provisioner",
    dialect: Dialect::Go,
    fatal: 1,
    driver: DRIVER,
    lease: "test-csi-driver",
    workers: "--worker-threads",
    arguments: &[],
    environment: &[("POD_NAMESPACE", "ns")],
    work: Work {
        prepare: |_, _| {},
        ask: |stage, number| provision(stage, number),
        is_done: |stage, number| is_provisioned(stage, number),
        effect: Effect::Call("CreateVolume"),
        subject: "claims/ns1/new",
    },
    permissions: &[],
    withheld: ("", "", ""),
};

/// Name of a controller's lease.
pub(crate) fn lease(controller: &str) -> &'static str {
    match controller {
        "provisioner" => "ns/test-csi-driver",
        "attacher" => "ns/external-attacher-leader-test-csi-driver",
        "resizer" => "ns/external-resizer-test-csi-driver",
        "snapshotter" => "ns/external-snapshotter-leader-test-csi-driver",
        "health-monitor" => "ns/external-health-monitor-leader-test-csi-driver",
        other => panic!("{other}"),
    }
}

pub(crate) fn provision(stage: &controller::Stage, number: usize) {
    let claim = build::claim(&format!("ns1/new{number}"))
        .class("sc1")
        .mode("RWO")
        .uid(&format!("uid-{number}"))
        .annotation("volume.kubernetes.io/storage-provisioner", DRIVER);
    stage.api.insert(claim);
}

pub(crate) fn is_provisioned(stage: &controller::Stage, number: usize) -> bool {
    let name = format!("pvc-uid-{number}");
    stage.api.object("persistentvolumes", &name).is_some()
}

/// The shared stage, with a driver that has three controllers' capabilities, volumes `aN` to attach to
/// `node1`, and claims `ns1/eN` to expand.
pub(crate) struct Stage(controller::Stage);

impl Deref for Stage {
    type Target = controller::Stage;

    fn deref(&self) -> &controller::Stage {
        &self.0
    }
}

impl Stage {
    pub(crate) async fn new() -> Self {
        Self::with(controller::Stage::new(&PROGRAM).await)
    }

    /// The same with TLS, where requests share connections.
    pub(crate) async fn over_tls() -> Self {
        Self::with(controller::Stage::over_tls(&PROGRAM).await)
    }

    fn with(shared: controller::Stage) -> Self {
        let stage = Self(shared);
        stage.driver.configure(|model| {
            model.controller = vec![
                ControllerRpc::CreateDeleteVolume,
                ControllerRpc::PublishUnpublishVolume,
                ControllerRpc::ExpandVolume,
            ];
        });
        stage.api.insert(build::class("sc1").of(DRIVER));
        stage
            .api
            .insert(build::csinode("node1").driver(DRIVER, "NID1"));
        for number in 0..4 {
            stage.volume(&format!("a{number}"));
            let (key, name) = (format!("ns1/e{number}"), format!("e{number}"));
            let handle = stage.volume(&name);
            let volume = build::volume(&name)
                .csi(DRIVER, &handle)
                .mode("RWO")
                .bound_to(&key)
                .with("/spec/claimRef/uid", format!("uid-{name}"));
            stage.api.remove("persistentvolumes", &name);
            stage.api.insert(volume);
            let claim = build::claim(&key)
                .mode("RWO")
                .bound_to(&name)
                .uid(&format!("uid-{name}"))
                .with("/status/capacity/storage", "1Gi");
            stage.api.insert(claim);
        }
        stage
    }

    fn volume(&self, name: &str) -> String {
        let handle = format!("h-{name}");
        self.driver.volume(&handle);
        let volume = build::volume(name).csi(DRIVER, &handle).mode("RWO");
        self.api.insert(volume);
        handle
    }

    /// Starts three controllers, with further arguments.
    pub(crate) fn three(&self, arguments: &[&str]) -> Running {
        self.start(&[&[THREE], arguments].concat())
    }

    /// The same with leader election.
    pub(crate) fn three_in_election(&self, arguments: &[&str]) -> Running {
        self.three(&[&ELECTION[..], &CALM, arguments].concat())
    }

    /// The same on a host with another name.
    pub(crate) fn three_elsewhere(&self, arguments: &[&str]) -> Process {
        let here = self.command(&[&[THREE], &ELECTION[..], &CALM, arguments].concat());
        let script = "echo elsewhere > /proc/sys/kernel/hostname; exec \"$0\" \"$@\"";
        let mut command = Command::new("unshare");
        command.args(["--uts", "/bin/sh", "-c", script]);
        command.arg(here.get_program()).args(here.get_args());
        command.env("POD_NAMESPACE", "ns");
        Process::start(command)
    }

    /// Starts the single program of this name with leader election.
    pub(crate) fn single(&self, name: &str, arguments: &[&str]) -> Process {
        let here = self.command(&[&ELECTION[..], &CALM, arguments].concat());
        let mut command = Command::new(here.get_program());
        command.arg(name).args(here.get_args());
        command.env_clear().env("POD_NAMESPACE", "ns");
        Process::start(command)
    }

    /// Gives each of the three controllers work.
    pub(crate) fn ask_all(&self, number: usize) {
        provision(self, number);
        self.attach(number);
        self.expand(number);
    }

    pub(crate) fn attach(&self, number: usize) {
        let attachment = build::attachment(&format!("va{number}")).by(DRIVER);
        let attachment = attachment.on("node1").of(&format!("a{number}"));
        self.api.insert(attachment);
    }

    pub(crate) fn expand(&self, number: usize) {
        let key = format!("ns1/e{number}");
        self.api.edit("persistentvolumeclaims", &key, |claim| {
            claim["spec"]["resources"]["requests"]["storage"] = "2Gi".into();
        });
    }

    /// The controllers that have done their work.
    pub(crate) fn done(&self, number: usize) -> Vec<&'static str> {
        let attachment = self.api.object("volumeattachments", &format!("va{number}"));
        let key = format!("ns1/e{number}");
        let claim = self.api.object("persistentvolumeclaims", &key);
        let is_expanded = claim.unwrap_or_default()["status"]["capacity"]["storage"] == "2Gi";
        let is = [
            is_provisioned(self, number),
            attachment.unwrap_or_default()["status"]["attached"] == true,
            is_expanded,
        ];
        let of = ALL.iter().zip(is);
        of.filter(|(_, is)| *is).map(|(name, _)| *name).collect()
    }

    /// Waits until exactly these controllers have done their work.
    pub(crate) async fn until_done_by(&self, number: usize, who: &[&str]) {
        let what = format!("{who:?} for {number}, not {:?}", self.done(number));
        self.until(&what, || self.done(number) == who).await;
    }

    /// Gives each controller work, and waits until it is done.
    pub(crate) async fn all_work(&self, number: usize) {
        self.ask_all(number);
        self.until_done_by(number, &ALL).await;
    }

    /// The holder of a controller's lease.
    pub(crate) fn holder_of(&self, controller: &str) -> String {
        let lease = self
            .api
            .object("leases", lease(controller))
            .unwrap_or_default();
        let holder = lease["spec"]["holderIdentity"].as_str();
        holder.unwrap_or_default().to_owned()
    }

    /// Waits until the holders of these controllers' leases all satisfy `fits`.
    pub(crate) async fn until_held(&self, controllers: &[&str], fits: impl Fn(&str) -> bool) {
        let all = || controllers.iter().all(|one| fits(&self.holder_of(one)));
        self.until(&format!("leases of {controllers:?}"), all).await;
    }

    /// Writes another holder into a lease, as with `kubectl edit`.
    pub(crate) fn take_away(&self, controller: &str, holder: &str) {
        self.api.edit("leases", lease(controller), |lease| {
            lease["spec"]["holderIdentity"] = holder.into();
        });
    }

    /// Creates a lease held by another replica.
    pub(crate) fn foreign(&self, controller: &str, holder: &str, seconds: u32) {
        let name = lease(controller).trim_start_matches("ns/");
        self.api.insert(serde_json::json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {"namespace": "ns", "name": name},
            "spec": {
                "holderIdentity": holder, "leaseDurationSeconds": seconds,
                "leaseTransitions": 7, "acquireTime": "2020-01-01T00:00:00.000000Z",
                "renewTime": "2020-01-01T00:00:00.000000Z",
            },
        }));
    }
}

/// Whether this is the holder name of a shared process.
pub(crate) fn is_together(holder: &str) -> bool {
    holder.ends_with("_provisioner_together")
}

/// The writes to leases, with the lease and the new holder.
pub(crate) fn lease_writes(stage: &Stage) -> Vec<(String, String)> {
    let puts = stage.api.requests_to("PUT", "*/leases/*");
    let of = |body: &Value| {
        let name = body["metadata"]["name"].as_str().unwrap_or_default();
        let holder = body["spec"]["holderIdentity"].as_str().unwrap_or_default();
        (name.to_owned(), holder.to_owned())
    };
    puts.iter().map(|put| of(&put.body)).collect()
}
