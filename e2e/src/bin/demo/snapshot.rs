//! A snapshot of the database's volume, and a volume that is restored from it.

use anyhow::{Context, Result, ensure};
use e2e::api::{Api, text};
use e2e::cluster::Cluster;
use e2e::deployment::Pod;
use e2e::node::Seat;
use e2e::object;
use e2e::snapshots;
use e2e::story::Story;
use serde_json::json;

use crate::container::{Node, items};
use crate::pods::Programs;
use crate::workload::{self, CLAIMS, CLASS, LARGE, Member};
use crate::{DRIVER, SOON};

/// Name of the VolumeSnapshot.
const BACKUP: &str = "backup";

/// Name of the pod that reads the restored volume, and of its claim.
const READER: &str = "restored";

fn path() -> String {
    let group = snapshots::GROUP;
    format!("{group}/namespaces/default/volumesnapshots/{BACKUP}")
}

/// Takes the snapshot while the pod runs.
pub(crate) fn take(
    story: &mut Story,
    api: &Api,
    programs: &mut Programs,
    member: &Member,
) -> Result<()> {
    let what = format!(
        "csi-snapshotter: a snapshot of {} is taken while its pod runs, and is ready",
        member.claim
    );
    let snapshot = story.step(&what, || {
        let group = snapshots::GROUP;
        let class = object::snapshot_class(CLASS, DRIVER, "Delete");
        api.create(&format!("{group}/volumesnapshotclasses"), &class)?;
        let snapshot = object::snapshot_of(BACKUP, CLASS, &member.claim);
        api.create(
            &format!("{group}/namespaces/default/volumesnapshots"),
            &snapshot,
        )?;
        programs.until_about(api, BACKUP, "the snapshot is ready", || {
            let snapshot = api.get(&path())?;
            let ready = snapshot.pointer("/status/readyToUse") == Some(&json!(true));
            Ok(ready.then_some(snapshot))
        })
    })?;
    let content = text(&snapshot, "/status/boundVolumeSnapshotContentName");
    let size = text(&snapshot, "/status/restoreSize");
    ensure!(size == Some(LARGE), "its size is {size:?}");
    story.note(&format!("{} of {LARGE}", content.context("its content")?));
    Ok(())
}

/// Changes the data on the volume, then restores the snapshot: the new volume has the old data.
pub(crate) fn restore(
    story: &mut Story,
    cluster: &Cluster,
    api: &Api,
    programs: &mut Programs,
    nodes: &[Node],
    (member, seat, pod): (&Member, &Seat<'_>, &Pod),
) -> Result<()> {
    story.step("the database overwrites its data", || {
        pod.write(seat, &member.volume, "overwritten")
    })?;
    let restored = story.step(
        "csi-provisioner: a new claim gets a volume made from the snapshot",
        || {
            let claim = object::claim_from(READER, CLASS, LARGE, "VolumeSnapshot", BACKUP);
            api.create(CLAIMS, &claim)?;
            Pod::create(api, READER, None, READER)?;
            workload::until_bound(api, programs, READER.to_owned(), READER.to_owned())
        },
    )?;
    story.note(&format!("{} in zone {}", restored.volume, restored.zone));
    story.step(
        "a pod reads from it what the database had written before the snapshot",
        || {
            let (node, reader) = workload::until_running(api, programs, nodes, &restored, None)?;
            let seat = workload::seat(cluster, node)?;
            let data = reader.read(&seat, &restored.volume)?;
            ensure!(data == member.name, "the restored volume has {data:?}");
            api.delete(&reader.path)?;
            api.until_gone(SOON, &reader.path)?;
            api.delete(&format!("{CLAIMS}/{READER}"))
        },
    )?;
    let data = pod.read(seat, &member.volume)?;
    ensure!(data == "overwritten", "the database has {data:?}");
    Ok(())
}

/// Deletes the snapshot, and waits until its objects are gone.
pub(crate) fn delete(api: &Api, programs: &mut Programs) -> Result<()> {
    api.delete(&path())?;
    let group = snapshots::GROUP;
    for kind in ["volumesnapshots", "volumesnapshotcontents"] {
        let list = format!("{group}/{kind}");
        programs.until(&format!("{list} is empty"), || {
            Ok(items(&api.get(&list)?, "/items")
                .next()
                .is_none()
                .then_some(()))
        })?;
    }
    api.delete(&format!("{group}/volumesnapshotclasses/{CLASS}"))
}
