//! The built program between a model API server and a model driver, with the fixture of the acceptance table: volumes
//! `pv10` to `pv12` of handles `h10` to `h12`, bound to claims `ns/c10` to `ns/c12`; `pv13`, which is available; and
//! two volumes of another driver.

use std::ops::Deref;

use csi_proto::csi::volume_health::VolumeHealthEntry;
use serde_json::{Value, json};
use sidecar_testkit::api::record::Request;
use sidecar_testkit::build::{self, Object as _};
use sidecar_testkit::controller::{self, Dialect, Effect, Program, Work};
use sidecar_testkit::driver::ControllerRpc;

pub(crate) use sidecar_testkit::controller::{ELECTION, free_address, settle, until_metrics};

pub(crate) const DRIVER: &str = "test.csi.driver";
pub(crate) const READY: &str = "Starting external health monitor";
pub(crate) const LIST: &str = "ControllerListVolumeHealth";
pub(crate) const GET: &str = "ControllerGetVolumeHealth";
pub(crate) const CLAIMS: &str = "persistentvolumeclaims";
/// The path of the status of any claim.
pub(crate) const STATUS: &str = "*/persistentvolumeclaims/*/status";
/// `VOLUME_CONDITION`.
pub(crate) const CONDITION: i32 = 11;

pub(crate) static PROGRAM: Program = Program {
    built: env!("CARGO_BIN_EXE_csi-external-health-monitor-controller"),
    variable: "CSI_HEALTH_MONITOR_BINARY",
    ready: READY,
    dialect: Dialect::Go,
    fatal: 1,
    driver: DRIVER,
    lease: "external-health-monitor-leader-test-csi-driver",
    workers: "--worker-threads",
    arguments: &["--monitor-interval=300ms", "--list-volumes-interval=300ms"],
    environment: &[],
    work: Work {
        prepare,
        // The claim has conditions, but the driver's list no longer contains its volume.
        ask: |stage, number| {
            let name = format!("ns/many{number}");
            stage.api.edit(CLAIMS, &name, |claim| {
                claim["status"]["healthStatus"] = stored(&["Degraded Old"]);
            });
        },
        is_done: |stage, number| {
            let claim = stage.api.object(CLAIMS, &format!("ns/many{number}"));
            let health = &claim.unwrap_or_default()["status"]["healthStatus"];
            health["healthConditions"].is_null() && !health["lastTransitionTime"].is_null()
        },
        effect: Effect::Call(GET),
        subject: "claims/ns/many",
    },
    permissions: &[
        ("", "persistentvolumes", "list,watch"),
        ("", "persistentvolumeclaims", "list,watch"),
        ("", "persistentvolumeclaims/status", "patch"),
    ],
    withheld: ("", "persistentvolumeclaims/status", "patch"),
};

/// Claims `ns/manyN` with a driver that can list and get.
fn prepare(stage: &controller::Stage, pieces: usize) {
    stage.driver.configure(|model| {
        model.controller = vec![
            ControllerRpc::ListVolumeHealth,
            ControllerRpc::GetVolumeHealth,
        ];
    });
    for number in 0..pieces {
        let (key, handle) = (format!("ns/many{number}"), format!("hm{number}"));
        stage.driver.volume(&handle);
        stage
            .api
            .insert(volume(&format!("many{number}"), &handle, &key));
        stage.api.insert(claim(&key, &format!("many{number}")));
    }
}

/// `status.healthStatus` with conditions, each `Status Reason`.
pub(crate) fn stored(conditions: &[&str]) -> Value {
    let conditions = conditions.iter().map(|one| {
        let (status, reason) = one.split_once(' ').unwrap();
        json!({"status": status, "reason": reason, "message": "old"})
    });
    json!({"healthConditions": conditions.collect::<Vec<_>>(), "lastTransitionTime": build::LONG_AGO})
}

/// A bound claim, with a UID derived from its name.
pub(crate) fn claim(name: &str, volume: &str) -> build::Claim {
    build::claim(name)
        .mode("RWO")
        .bound_to(volume)
        .uid(&uid(name))
}

/// The volume of the claim.
pub(crate) fn volume(name: &str, handle: &str, claim: &str) -> build::Volume {
    let volume = build::volume(name)
        .csi(DRIVER, handle)
        .mode("RWO")
        .bound_to(claim);
    volume.with("/spec/claimRef/uid", uid(claim))
}

fn uid(claim: &str) -> String {
    format!("uid-{}", claim.replace('/', "-"))
}

/// A condition as the driver reports it.
pub(crate) fn entry(status: i32, reason: &str, message: &str) -> VolumeHealthEntry {
    VolumeHealthEntry {
        status,
        reason: reason.into(),
        message: message.into(),
    }
}

/// The shared stage, with the fixture.
pub(crate) struct Stage(controller::Stage);

impl Deref for Stage {
    type Target = controller::Stage;

    fn deref(&self) -> &controller::Stage {
        &self.0
    }
}

impl Stage {
    /// A stage with the fixture, and a driver with these calls.
    pub(crate) async fn new(rpcs: &[ControllerRpc]) -> Self {
        let stage = Self(controller::Stage::new(&PROGRAM).await);
        stage
            .driver
            .configure(|model| model.controller = rpcs.to_vec());
        for number in 10..=12 {
            let key = format!("ns/c{number}");
            stage.driver.volume(&format!("h{number}"));
            stage
                .api
                .insert(volume(&format!("pv{number}"), &format!("h{number}"), &key));
            stage.api.insert(claim(&key, &format!("pv{number}")));
        }
        stage.driver.volume("h13");
        stage.api.insert(build::volume("pv13").csi(DRIVER, "h13"));
        for number in [20, 21] {
            let key = format!("ns/c{number}");
            let other = volume(&format!("pv{number}"), &format!("h{number}"), &key);
            stage
                .api
                .insert(other.with("/spec/csi/driver", "another.driver"));
            stage.api.insert(claim(&key, &format!("pv{number}")));
        }
        stage
    }

    /// A stage with a driver that can list and get.
    pub(crate) async fn listing() -> Self {
        Self::new(&[
            ControllerRpc::ListVolumeHealth,
            ControllerRpc::GetVolumeHealth,
        ])
        .await
    }

    /// A stage with a driver that can only get.
    pub(crate) async fn getting() -> Self {
        Self::new(&[ControllerRpc::GetVolumeHealth]).await
    }

    /// A stage with a driver of CSI 1.12 or older that also implements this call.
    pub(crate) async fn older(rpc: ControllerRpc) -> Self {
        let stage = Self::new(&[rpc]).await;
        stage.driver.configure(|model| {
            model.older.push(CONDITION);
            model.conditions = Some([].into());
        });
        stage
    }

    /// Adds an entry for this volume with these conditions to the driver's list.
    pub(crate) fn suffers(&self, handle: &str, conditions: &[(i32, &str)]) {
        let conditions = conditions
            .iter()
            .map(|(status, reason)| entry(*status, reason, "m"));
        let conditions: Vec<_> = conditions.collect();
        self.driver.configure(|model| {
            model.health.insert(handle.to_owned(), conditions);
        });
    }

    /// Removes this volume from the driver's list.
    pub(crate) fn leaves_out(&self, handle: &str) {
        self.driver.configure(|model| {
            model.health.remove(handle);
        });
    }

    /// Sets the condition of a volume of an older driver.
    pub(crate) fn condition(&self, handle: &str, abnormal: bool, message: &str) {
        self.driver.configure(|model| {
            let conditions = model.conditions.get_or_insert_default();
            conditions.insert(handle.to_owned(), (abnormal, message.to_owned()));
        });
    }

    /// Sets the stored conditions of the claim `ns/cN`.
    pub(crate) fn has(&self, number: u32, conditions: &[&str]) {
        self.api.edit(CLAIMS, &format!("ns/c{number}"), |claim| {
            claim["status"]["healthStatus"] = stored(conditions);
        });
    }

    /// `status.healthStatus` of the claim `ns/cN`.
    pub(crate) fn health(&self, number: u32) -> Value {
        let claim = self.api.object(CLAIMS, &format!("ns/c{number}"));
        claim.unwrap_or_default()["status"]["healthStatus"].clone()
    }

    /// The conditions of the claim `ns/cN`, each `Status Reason`.
    pub(crate) fn conditions(&self, number: u32) -> Vec<String> {
        let health = self.health(number);
        let list = health["healthConditions"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        let text = |one: &Value, field: &str| one[field].as_str().unwrap_or_default().to_owned();
        list.iter()
            .map(|one| format!("{} {}", text(one, "status"), text(one, "reason")))
            .collect()
    }

    /// Waits until the claim `ns/cN` has these conditions.
    pub(crate) async fn until_conditions(&self, number: u32, conditions: &[&str]) {
        let what = format!("conditions {conditions:?} of c{number}");
        self.until(&what, || self.conditions(number) == conditions)
            .await;
    }

    /// The writes to claims.
    pub(crate) fn patches(&self) -> Vec<Request> {
        self.api.requests_to("PATCH", STATUS)
    }

    /// Waits for `count` more lists and until the last of them was handled.
    pub(crate) async fn cycles(&self, count: usize) {
        let before = self.calls(LIST);
        self.until_calls(LIST, before + count + 1).await;
        settle().await;
    }
}
