//! A stuck claim, the answer of `kubectl csi why`, and the effect of its advice.

use std::process::Command;

use anyhow::{Result, ensure};
use e2e::api::Api;
use e2e::cluster::Cluster;
use e2e::object::{self, Binding};
use e2e::program;
use e2e::story::Story;

use crate::DRIVER;
use crate::pods::Programs;
use crate::workload::{self, CLAIMS, CLASSES, SMALL};

/// Name of the claim.
const STUCK: &str = "scratch";

/// The class that the claim names, and that does not exist.
const MISSING: &str = "demo-fast";

/// Exit code of `kubectl csi why` for a stuck object with a known cause.
const EXPLAINED: i32 = 3;

/// Creates the stuck claim, asks, and follows the advice.
pub(crate) fn explain(
    story: &mut Story,
    cluster: &Cluster,
    api: &Api,
    programs: &mut Programs,
) -> Result<()> {
    let what = format!(
        "claim {STUCK} names StorageClass {MISSING}, which does not exist: kubectl csi why pvc/{STUCK}"
    );
    let said = story.step(&what, || {
        api.create(CLAIMS, &object::claim(STUCK, MISSING, SMALL))?;
        let why = Command::new(program::kubectl_csi()?)
            .args(["why", &format!("pvc/{STUCK}"), "--namespace=default"])
            .arg("--kubeconfig")
            .arg(cluster.kubeconfig()?)
            .output()?;
        let said = String::from_utf8_lossy(&why.stdout).into_owned();
        let is_explained = why.status.code() == Some(EXPLAINED) && said.contains(MISSING);
        ensure!(
            is_explained,
            "{}: {said}{}",
            why.status,
            String::from_utf8_lossy(&why.stderr)
        );
        Ok(said)
    })?;
    for line in said.lines().filter(|line| !line.is_empty()) {
        story.note(line);
    }
    let what = format!("StorageClass {MISSING} is created, as it says, and {STUCK} has a volume");
    story.step(&what, || {
        let class = object::storage_class(MISSING, DRIVER, Binding::Immediate);
        api.create(CLASSES, &class)?;
        workload::until_bound(api, programs, STUCK.to_owned(), STUCK.to_owned())?;
        api.delete(&format!("{CLAIMS}/{STUCK}"))?;
        api.delete(&format!("{CLASSES}/{MISSING}"))
    })
}
