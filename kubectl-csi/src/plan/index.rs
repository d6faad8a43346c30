//! The keys under which objects of each kind are indexed.

use sidecar::quantity::Quantity;

use super::controller::PROGRAMS;
use super::store::{By, Index, within};
use super::workload::runs;
use crate::model::{
    Attachment, Capacity, Claim, CsiNode, Event, Lease, Pod, PodSpec, Snapshot, Volume, Workload,
};

/// No index: the kind has few objects, or the walk reads them by name.
pub(super) fn nothing<T>(_: &T, _: &mut Index) {}

fn bytes(text: &str, unknown: i64) -> i64 {
    text.parse::<Quantity>().map_or(unknown, Quantity::value)
}

/// Key of the object that an event refers to: `Pod shop/db-0`.
pub(super) fn about(kind: &str, namespace: &str, name: &str) -> String {
    format!("{kind} {}", within(namespace, name))
}

pub(super) fn event(event: &Event, index: &mut Index) {
    let of = &event.involved_object;
    // Events are in the namespace of their object; those of cluster-scoped objects are in `default`.
    index.add(
        By::Of,
        &about(&of.kind, &event.metadata.namespace, &of.name),
    );
}

fn programs(spec: &PodSpec, index: &mut Index) {
    for program in PROGRAMS {
        if spec.containers.iter().any(|one| runs(one, program)) {
            index.add(By::Program, program);
        }
    }
}

pub(super) fn pod(pod: &Pod, index: &mut Index) {
    for claim in pod.claims() {
        index.add(By::Claim, &within(&pod.metadata.namespace, &claim));
    }
    if super::node::registers(&pod.spec) {
        index.add(By::Plugin, &pod.spec.node_name);
    }
    programs(&pod.spec, index);
}

pub(super) fn workload(workload: &Workload, index: &mut Index) {
    programs(&workload.spec.template.spec, index);
}

/// Key of a label.
pub(super) fn label(namespace: &str, name: &str, value: &str) -> String {
    format!("{}={value}", within(namespace, name))
}

pub(super) fn claim(claim: &Claim, index: &mut Index) {
    if let Some((kind, namespace, name)) = claim.filled_from() {
        index.add(By::Of, &about(kind, namespace, name));
    }
    let meta = &claim.metadata;
    for (name, value) in meta.labels.iter() {
        index.add(By::Label, &label(&meta.namespace, name, value));
    }
}

pub(super) fn volume(volume: &Volume, index: &mut Index) {
    let class = &*volume.spec.storage_class_name;
    index.add(By::Class, class);
    if volume.is_by_hand() {
        index.add(By::HandMade, class);
    }
    if volume.is_free() {
        index.add(By::Free, class);
        let mut modes: Vec<&str> = volume
            .spec
            .access_modes
            .iter()
            .map(|mode| &**mode)
            .collect();
        modes.sort_unstable();
        let alike = format!("{} {}", volume.spec.volume_mode, modes.join(" "));
        index.rank(
            class,
            &alike,
            bytes(&volume.spec.capacity.storage, i64::MAX),
        );
    }
}

/// Key of a driver on a node.
pub(super) fn driver_on_node(driver: &str, node: &str) -> String {
    within(driver, node)
}

pub(super) fn attachment(attachment: &Attachment, index: &mut Index) {
    let spec = &attachment.spec;
    index.add(By::Volume, &spec.source.persistent_volume_name);
    index.add(
        By::DriverOnNode,
        &driver_on_node(&spec.attacher, &spec.node_name),
    );
    if attachment.metadata.is_leaving() || !attachment.status.attached {
        index.add(By::Busy, &spec.attacher);
    }
}

pub(super) fn csi_node(node: &CsiNode, index: &mut Index) {
    for driver in &node.spec.drivers {
        index.add(By::Driver, &driver.name);
    }
}

pub(super) fn capacity(capacity: &Capacity, index: &mut Index) {
    let class = &*capacity.storage_class_name;
    index.rank(class, "", bytes(capacity.largest(), 0));
}

pub(super) fn lease(lease: &Lease, index: &mut Index) {
    index.add(By::Name, &lease.metadata.name);
}

pub(super) fn snapshot(snapshot: &Snapshot, index: &mut Index) {
    let namespace = &snapshot.metadata.namespace;
    let claim = &*snapshot.spec.source.persistent_volume_claim_name;
    index.add(By::Of, &within(namespace, claim));
    if let Some(status) = &snapshot.status {
        index.add(
            By::Group,
            &within(namespace, &status.volume_group_snapshot_name),
        );
    }
}
