//! Traces that several programs make, each as its own process: a claim whose pod comes at once, a snapshot of it, what is
//! made from both, and a group. Rows of `docs/spec/observability.md`.

use anyhow::{Context, Result, ensure};
use e2e::api::text;
use e2e::cluster::Cluster;
use e2e::controller::{ATTACHER, Controller, Route};
use e2e::process::Programs;
use e2e::snapshots::{GROUPS, group_rules};
use e2e::suite::Verdict;
use e2e::traces::{Traces, find, trace_of};
use e2e::{object, program};
use serde_json::{Value, json};
use sidecar_testkit::collector::Received;

use super::scene::{CLAIMS, SNAPSHOTS, SOON, Scene, is_ready, skipped};

const ROOT: &str = "PersistentVolumeClaim";
const NAMES: [&str; 3] = ["traced-a", "traced-b", "traced-c"];

/// A driver, all programs that work for it, and a collector.
struct Stage<'a> {
    scene: Scene<'a>,
    traces: Traces,
    programs: Programs,
}

pub(super) fn over_programs(cluster: &Cluster) -> Result<Verdict> {
    if let Some(skipped) = skipped() {
        return Ok(skipped);
    }
    for one in [
        program::provisioner()?,
        program::attacher()?,
        program::snapshotter()?,
        program::snapshot_controller()?,
    ] {
        if program::is_foreign(&one)? {
            return Ok(Verdict::Skipped("needs programs with traces".to_owned()));
        }
    }
    let scene = Scene::with(cluster, "traced", "--enable-attach=true")?;
    let _driver = scene.deployment.start_controller(&[])?;
    let node = scene.deployment.start_node(0, &[])?;
    let traces = Traces::start()?;
    let programs = start(cluster, &scene, &traces)?;
    let mut stage = Stage {
        scene,
        traces,
        programs,
    };
    let labelled = json!({ "metadata": { "labels": { "app": "traced" } } });
    let mut volumes = Vec::new();
    for name in NAMES {
        let claim = object::claim(name, stage.scene.deployment.driver(), "1Mi");
        let claim = object::with(claim, &labelled);
        volumes.push(stage.scene.claim(&mut stage.programs, &claim)?);
    }
    let [first, ..] = NAMES;
    let volume = volumes.first().context("the first claim's volume")?;
    stage
        .scene
        .with_pod(&mut stage.programs, &node, (first, volume), |_| Ok(()))?;
    let claim = stage.attached(first).context("O-15")?;
    let snapshot = stage.snapshot(first, &claim).context("O-18")?;
    stage.made_from(first, &claim, &snapshot).context("O-20")?;
    stage.group().context("O-18, a group")?;

    let Stage {
        scene, programs, ..
    } = &mut stage;
    scene.delete(programs, "traced")?;
    for name in NAMES.iter().chain(&["traced-restored", "traced-cloned"]) {
        scene.api.delete(&format!("{CLAIMS}/{name}"))?;
    }
    scene.until_nothing_is_left(programs)?;
    stage.programs.stop()?;
    stage.scene.finish()
}

fn start(cluster: &Cluster, scene: &Scene<'_>, traces: &Traces) -> Result<Programs> {
    let api = &scene.api;
    let attacher = Controller::install(cluster, ATTACHER, &scene.deployment.controller)?;
    attacher.until_permitted(api, "storage.k8s.io", "volumeattachments/status", "patch")?;
    scene.controller.allow(api, &group_rules())?;
    let group = "groupsnapshot.storage.k8s.io";
    let of_groups = "volumegroupsnapshotcontents";
    scene
        .controller
        .until_permitted(api, group, of_groups, "create")?;
    let endpoint = traces.endpoint();
    let environment = [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint.as_str()),
        ("OTEL_BSP_SCHEDULE_DELAY", "200"),
    ];
    let flags = ["-v=2", "--enable-otel-tracing"];
    let all = [
        &scene.provisioner,
        &attacher,
        &scene.snapshotter,
        &scene.controller,
    ];
    let started = all.map(|one| one.start_in("0", Route::Direct, &flags, &environment));
    Ok(Programs::of(started.into_iter().collect::<Result<_>>()?))
}

/// The span and its trace, as a link to it has them.
fn link_to(span: &Received) -> (String, String) {
    (span.trace(), span.id())
}

impl Stage<'_> {
    /// The span of this name in the object's trace, made by this program.
    fn span(&self, object: &Value, name: &str, by: &str) -> Result<Received> {
        let trace = trace_of(object)?;
        let what = format!("{name} in trace {trace}");
        let found = self
            .traces
            .until(SOON, &what, |spans| find(spans, &trace, name).cloned());
        let found = found.with_context(|| self.programs.tails())?;
        let program = found.program();
        ensure!(program == by, "{name} is by {program}");
        Ok(found)
    }

    /// Fails unless the span links to these and to no others.
    fn must_link(span: &Received, to: &[&Received]) -> Result<()> {
        let mut expected: Vec<_> = to.iter().map(|one| link_to(one)).collect();
        expected.sort();
        let mut links = span.links();
        links.sort();
        ensure!(
            links == expected,
            "{} links to {links:?}, not {expected:?}",
            span.span.name
        );
        Ok(())
    }

    fn claim(&self, name: &str) -> Result<Value> {
        self.scene.api.get(&format!("{CLAIMS}/{name}"))
    }

    /// Returns the root of the claim's trace.
    fn attached(&self, name: &str) -> Result<Received> {
        let claim = self.claim(name)?;
        let root = self.span(&claim, ROOT, "csi-provisioner")?;
        ensure!(root.parent().is_empty(), "the root has a parent");
        let attach = self.span(&claim, "VolumeAttachment attach", "csi-attacher")?;
        ensure!(attach.parent() == root.id(), "below {}", attach.parent());
        let call = "csi.v1.Controller/ControllerPublishVolume";
        self.span(&claim, call, "csi-attacher")?;
        let call = "csi.v1.Controller/CreateVolume";
        self.span(&claim, call, "csi-provisioner")?;
        Ok(root)
    }

    /// Returns the root of the snapshot's trace.
    fn snapshot(&mut self, claim: &str, of_claim: &Received) -> Result<Received> {
        let class = self.scene.deleting();
        self.scene.snapshot("traced", &class, claim)?;
        let (snapshot, _) = self.scene.until_ready(&mut self.programs, "traced")?;
        let root = self.span(&snapshot, "VolumeSnapshot", "snapshot-controller")?;
        ensure!(root.parent().is_empty(), "the root has a parent");
        let cut = self.span(&snapshot, "cut", "csi-snapshotter")?;
        ensure!(cut.parent() == root.id(), "below {}", cut.parent());
        let call = "csi.v1.Controller/CreateSnapshot";
        self.span(&snapshot, call, "csi-snapshotter")?;
        Self::must_link(&root, &[of_claim])?;
        Ok(root)
    }

    fn made_from(&mut self, name: &str, claim: &Received, snapshot: &Received) -> Result<()> {
        for (copy, from, source) in [
            ("traced-restored", ("VolumeSnapshot", "traced"), snapshot),
            ("traced-cloned", (ROOT, name), claim),
        ] {
            self.scene.claim_from(&mut self.programs, copy, from)?;
            // The root links as well, unless the claim is bound before the attempt that created the volume ends.
            let work = self.span(&self.claim(copy)?, "provision", "csi-provisioner")?;
            Self::must_link(&work, &[source]).context(copy)?;
        }
        Ok(())
    }

    fn group(&mut self) -> Result<()> {
        let (api, driver) = (&self.scene.api, self.scene.deployment.driver());
        let classes = format!("{GROUPS}/volumegroupsnapshotclasses");
        let class = json!({
            "apiVersion": "groupsnapshot.storage.k8s.io/v1", "kind": "VolumeGroupSnapshotClass",
            "metadata": { "name": driver }, "driver": driver, "deletionPolicy": "Delete",
        });
        api.create(&classes, &class)?;
        let groups = format!("{GROUPS}/namespaces/default/volumegroupsnapshots");
        let wish = json!({
            "apiVersion": "groupsnapshot.storage.k8s.io/v1", "kind": "VolumeGroupSnapshot",
            "metadata": { "name": "traced" },
            "spec": {
                "volumeGroupSnapshotClassName": driver,
                "source": { "selector": { "matchLabels": { "app": "traced" } } },
            },
        });
        api.create(&groups, &wish)?;
        let path = format!("{groups}/traced");
        let group = self
            .scene
            .until(&mut self.programs, "the group is ready", || {
                let group = api.get(&path)?;
                Ok(is_ready(&group).then_some(group))
            });
        let group = group.with_context(|| api.events("default", "traced"))?;
        let root = self.span(&group, "VolumeGroupSnapshot", "snapshot-controller")?;
        let cut = self.span(&group, "cut", "csi-snapshotter")?;
        ensure!(cut.parent() == root.id(), "below {}", cut.parent());
        let list = api.get(SNAPSHOTS)?;
        let items = list.pointer("/items").and_then(Value::as_array);
        let members = items.into_iter().flatten().filter(|it| {
            text(it, "/metadata/ownerReferences/0/uid") == text(&group, "/metadata/uid")
        });
        let members: Vec<_> = members.collect();
        ensure!(members.len() == NAMES.len(), "{} members", members.len());
        let mut roots = Vec::new();
        for member in members {
            let of_member = self.span(member, "VolumeSnapshot", "snapshot-controller")?;
            let claim = text(member, "/spec/source/persistentVolumeClaimName");
            let claim = self.claim(claim.context("the claim of a member")?)?;
            let of_claim = self.span(&claim, ROOT, "csi-provisioner")?;
            Self::must_link(&of_member, &[&of_claim, &root])?;
            roots.push(of_member);
        }
        Self::must_link(&root, &roots.iter().collect::<Vec<_>>())?;
        api.delete(&path)?;
        self.scene
            .until(&mut self.programs, "the group is gone", || {
                Ok(api.find(&path)?.is_none().then_some(()))
            })
    }
}
