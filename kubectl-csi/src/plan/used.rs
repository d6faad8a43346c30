//! Volumes that attachments, nodes and pods name, or use without naming them.

use sha2::{Digest as _, Sha256};

use super::named::{Cluster, Nameless, Whose, at, key};
use super::way::{Step, Way};
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

pub(super) fn used(way: &mut Way<'_>, whose: &Whose<'_>, cluster: &mut Cluster) -> Step {
    let driver = whose.driver;
    for attachment in way.all::<Attachment>()?.items {
        let (object, source) = (at(attachment), &attachment.spec.source);
        let inline = source.inline_volume_spec.as_ref();
        if let Some(csi) = inline.and_then(|inline| inline.csi.as_ref()) {
            let of = (&*csi.driver, &*csi.volume_handle);
            cluster.volumes.add(of, driver, &object);
        }
        let volume = &*source.persistent_volume_name;
        let got = way.get::<Volume>("", volume)?;
        let is_missing = got.is_missing();
        let csi = got.found().and_then(|volume| volume.spec.csi.as_ref());
        let inline = inline.and_then(|inline| inline.csi.as_ref());
        if let Some(csi) = csi.or(inline).filter(|_| attachment.status.attached) {
            let handle = csi.volume_handle.to_string();
            cluster.in_use.insert(handle, object.clone());
        }
        if whose.is(&attachment.spec.attacher) && !volume.is_empty() && is_missing {
            let why = format!(
                "{object} is of the PersistentVolume {volume}, which does not exist: this may be its volume"
            );
            let nameless = &mut cluster.volumes.nameless;
            nameless.insert(key(attachment), Nameless::old(why));
        }
    }
    for node in way.all::<Node>()?.items {
        for of in node.volumes() {
            cluster.volumes.add(of, driver, &at(node));
            if whose.is(of.0) {
                cluster.in_use.insert(of.1.to_owned(), at(node));
            }
        }
    }
    pods(way, whose, cluster)
}

/// Adds the inline volumes of pods, and the volumes of pods that run without their claim.
fn pods(way: &mut Way<'_>, whose: &Whose<'_>, cluster: &mut Cluster) -> Step {
    let driver = whose.driver;
    let are_claims_whole = way.all::<Claim>()?.whole;
    for pod in way.all::<Pod>()?.items {
        let object = at(pod);
        for volume in &pod.spec.volumes {
            if let Some(csi) = &volume.csi {
                let handle = ephemeral(&pod.metadata.uid, &volume.name);
                cluster.volumes.add((&csi.driver, &handle), driver, &object);
                if whose.is(&csi.driver) {
                    let why = format!(
                        "{object} has a volume of its own of {}, which may be this one under another handle",
                        csi.driver
                    );
                    // If the driver lists this very handle, the entry is ignored.
                    let nameless = &mut cluster.volumes.nameless;
                    nameless.insert(handle, Nameless::old(why));
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
                    let doubt = format!(
                        "{object} has a volume of an in-tree plugin, whose handle cannot be told: {why}"
                    );
                    cluster.volumes.doubts.insert(doubt);
                }
                None => {}
            }
        }
        if pod.is_over() || pod.spec.node_name.is_empty() || !are_claims_whole {
            continue;
        }
        for claim in pod.claims() {
            let got = way.get::<Claim>(&pod.metadata.namespace, &claim)?;
            if let Some(claim) = got.found() {
                let volume = way.get::<Volume>("", &claim.spec.volume_name)?.found();
                let csi = volume.and_then(|volume| volume.spec.csi.as_ref());
                if let Some(csi) = csi.filter(|csi| whose.is(&csi.driver)) {
                    let used = cluster.in_use.entry(csi.volume_handle.to_string());
                    used.or_insert_with(|| object.clone());
                }
            } else if got.is_missing() {
                let why = format!(
                    "{object} runs with the claim {claim}, which does not exist: this may be its volume"
                );
                let nameless = &mut cluster.volumes.nameless;
                nameless.insert(format!("{} {claim}", key(pod)), Nameless::old(why));
            }
        }
    }
    Ok(())
}
