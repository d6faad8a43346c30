//! Volumes that attachments, nodes and pods name, or use without naming them.

use sha2::{Digest as _, Sha256};

use super::named::{AuditedDriver, Cluster, WithoutHandle, at, key};
use super::walk::{Step, Walk};
use crate::model::{Attachment, Claim, Node, Pod, Volume};

/// The handle that kubelet makes for an inline ephemeral volume.
fn ephemeral(pod: &str, volume: &str) -> String {
    let digest = Sha256::digest(format!("{pod}{volume}").as_bytes());
    let digits: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("csi-{digits}")
}

/// Whether a handle contains one of kubelet's ephemeral handles.
pub(super) fn is_ephemeral(handle: &str) -> bool {
    // Drivers put a pool, a server or a share in front, and append parts of their own.
    let digits = |rest: &str| rest.bytes().take_while(u8::is_ascii_hexdigit).count();
    { handle.split("csi-").skip(1) }.any(|rest| digits(rest) == 64)
}

pub(super) fn add_volumes_in_use(
    walk: &mut Walk<'_>,
    audited: &AuditedDriver<'_>,
    cluster: &mut Cluster,
) -> Step {
    let driver = audited.driver;
    for attachment in walk.all::<Attachment>()?.items {
        let (object, source) = (at(attachment), &attachment.spec.source);
        let inline = source.inline_volume_spec.as_ref();
        if let Some(csi) = inline.and_then(|inline| inline.csi.as_ref()) {
            let of = (&*csi.driver, &*csi.volume_handle);
            cluster.volumes.add(of, driver, &object);
        }
        let volume = &*source.persistent_volume_name;
        let got = walk.get::<Volume>("", volume)?;
        let is_missing = got.is_missing();
        let csi = got.found().and_then(|volume| volume.spec.csi.as_ref());
        let inline = inline.and_then(|inline| inline.csi.as_ref());
        if let Some(csi) = csi.or(inline).filter(|_| attachment.status.attached) {
            let handle = csi.volume_handle.to_string();
            cluster.in_use.insert(handle, object.clone());
        }
        if audited.is(&attachment.spec.attacher) && !volume.is_empty() && is_missing {
            let why = format!(
                "{object} is of the PersistentVolume {volume}, which does not exist: this may be its volume"
            );
            let without_handle = &mut cluster.volumes.without_handle;
            without_handle.insert(key(attachment), WithoutHandle::old(why));
        }
    }
    for node in walk.all::<Node>()?.items {
        for of in node.volumes() {
            cluster.volumes.add(of, driver, &at(node));
            if audited.is(of.0) {
                cluster.in_use.insert(of.1.to_owned(), at(node));
            }
        }
    }
    pods(walk, audited, cluster)
}

/// Adds the inline volumes of pods, and the volumes of pods that run without their claim.
fn pods(walk: &mut Walk<'_>, audited: &AuditedDriver<'_>, cluster: &mut Cluster) -> Step {
    let driver = audited.driver;
    let are_claims_whole = walk.all::<Claim>()?.whole;
    for pod in walk.all::<Pod>()?.items {
        let object = at(pod);
        for volume in &pod.spec.volumes {
            if let Some(csi) = &volume.csi {
                let handle = ephemeral(&pod.metadata.uid, &volume.name);
                cluster.volumes.add((&csi.driver, &handle), driver, &object);
                if audited.is(&csi.driver) {
                    let why = format!(
                        "{object} has a volume of its own of {}, which may be this one under another handle",
                        csi.driver
                    );
                    // If the driver lists this very handle, the entry is ignored.
                    let without_handle = &mut cluster.volumes.without_handle;
                    without_handle.insert(handle, WithoutHandle::old(why));
                }
                continue;
            }
            let path = volume.host_path.iter().map(|one| &*one.path);
            for text in volume.in_tree.texts().chain(path) {
                cluster.names.push((text.to_owned(), object.clone()));
            }
            match volume.in_words_of_csi(&pod.metadata.namespace) {
                Some(Ok((own, handle))) => {
                    cluster.volumes.add((&own, &handle), driver, &object);
                    if own == driver {
                        cluster.in_tree.push((handle, object.clone()));
                    }
                }
                Some(Err(why)) => {
                    let text = format!(
                        "{object} has a volume of an in-tree plugin, whose handle cannot be told: {why}"
                    );
                    cluster.volumes.unread.insert(text);
                }
                None => {}
            }
        }
        if pod.is_over() || pod.spec.node_name.is_empty() || !are_claims_whole {
            continue;
        }
        for claim in pod.claims() {
            let got = walk.get::<Claim>(&pod.metadata.namespace, &claim)?;
            if let Some(claim) = got.found() {
                let volume = walk.get::<Volume>("", &claim.spec.volume_name)?.found();
                let csi = volume.and_then(|volume| volume.spec.csi.as_ref());
                if let Some(csi) = csi.filter(|csi| audited.is(&csi.driver)) {
                    let used = cluster.in_use.entry(csi.volume_handle.to_string());
                    used.or_insert_with(|| object.clone());
                }
            } else if got.is_missing() {
                let why = format!(
                    "{object} runs with the claim {claim}, which does not exist: this may be its volume"
                );
                let without_handle = &mut cluster.volumes.without_handle;
                without_handle.insert(format!("{} {claim}", key(pod)), WithoutHandle::old(why));
            }
        }
    }
    Ok(())
}
