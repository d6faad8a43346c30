//! The PodSecurity level that a namespace must allow for the pods of the charts, checked by a real API
//! server.

use anyhow::{Context, Result, bail, ensure};
use e2e::api::{Api, text};
use e2e::chart::{Release, title};
use e2e::cluster::Cluster;
use e2e::suite::Verdict;
use serde_json::json;

struct Row {
    chart: &'static str,
    file: &'static str,
    workload: &'static str,
    /// The strictest level that admits the pods.
    level: &'static str,
}

const LEVELS: [&str; 3] = ["privileged", "baseline", "restricted"];

const SIDECARS: &str = "csi-sidecars";
const CONTROLLER: &str = "Deployment/test-csi-sidecars-controller";
const NODE: &str = "DaemonSet/test-csi-sidecars-node";

#[rustfmt::skip]
const ROWS: &[Row] = &[
    // A driver's container without a securityContext asks for no more rights, and gives none up.
    Row { chart: SIDECARS, file: "ci/minimal-values.yaml", workload: CONTROLLER, level: "baseline" },
    Row { chart: SIDECARS, file: "ci/openshift-values.yaml", workload: CONTROLLER, level: "restricted" },
    Row { chart: SIDECARS, file: "ci/beside-values.yaml", workload: CONTROLLER, level: "privileged" },
    Row { chart: SIDECARS, file: "ci/host-network-values.yaml", workload: CONTROLLER, level: "privileged" },
    Row { chart: SIDECARS, file: "ci/minimal-values.yaml", workload: NODE, level: "privileged" },
    Row { chart: "snapshot-controller", file: "ci/minimal-values.yaml", workload: "Deployment/test-snapshot-controller", level: "restricted" },
    Row { chart: "snapshot-controller", file: "ci/one-replica-values.yaml", workload: "Deployment/test-snapshot-controller", level: "restricted" },
    // Directories of the node alone require this level.
    Row { chart: SIDECARS, file: "ci/registrar-values.yaml", workload: NODE, level: "privileged" },
];

pub(super) fn levels(cluster: &Cluster) -> Result<Verdict> {
    let api = cluster.api()?;
    for level in LEVELS {
        let namespace = json!({
            "apiVersion": "v1", "kind": "Namespace",
            "metadata": {
                "name": level,
                "labels": {"pod-security.kubernetes.io/enforce": level},
            },
        });
        api.create("/api/v1/namespaces", &namespace)?;
    }
    for row in ROWS {
        let strictest = LEVELS.iter().position(|level| *level == row.level);
        for (place, level) in LEVELS.into_iter().enumerate() {
            let fits = Some(place) <= strictest;
            tried(&api, row, level, fits)
                .with_context(|| format!("{} {} in {level}", row.file, row.workload))?;
        }
    }
    Ok(Verdict::Passed)
}

fn tried(api: &Api, row: &Row, level: &str, fits: bool) -> Result<()> {
    let release = Release {
        chart: row.chart,
        namespace: level,
        file: row.file,
        set: &[],
    };
    let objects = release.objects()?;
    let workload = objects.iter().find(|object| title(object) == row.workload);
    let spec = workload.and_then(|workload| workload.pointer("/spec/template/spec"));
    let spec = spec.context("no such pods")?;
    let account = text(spec, "/serviceAccountName").context("a service account")?;
    let accounts = format!("/api/v1/namespaces/{level}/serviceaccounts");
    if api.find(&format!("{accounts}/{account}"))?.is_none() {
        let object = json!({
            "apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": account},
        });
        api.create(&accounts, &object)?;
    }
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "tried"}, "spec": spec,
    });
    let pods = format!("/api/v1/namespaces/{level}/pods?dryRun=All");
    let answer = api.create(&pods, &pod);
    if fits {
        return answer.map(drop);
    }
    let Err(refused) = answer else {
        bail!("is let in");
    };
    let refused = format!("{refused:#}");
    ensure!(refused.contains("violates PodSecurity"), "{refused}");
    Ok(())
}
