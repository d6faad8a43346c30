//! PersistentVolumes on the wire.

use migration::TRANSLATOR;
use serde_json::Value;
use sidecar::kube::cache::Record;
use sidecar::kube::interner::Interner;
use sidecar::kube::lean::{interned, list, own, shared};
use sidecar::kube::objects::{quantity, volume};

use crate::keys::{MODIFY_SECRET_NAME, MODIFY_SECRET_NAMESPACE, PRE_RESIZE_CAPACITY};
use crate::model::{
    ClaimRef, CsiSource, InTree, List, PreResize, SecretRef, Source, Text, Uid, Volume, VolumeKind,
};

impl Record for Volume {
    type Wire<'a> = volume::Volume<'a>;

    fn from_wire(wire: Self::Wire<'_>, strings: &Interner) -> Option<Self> {
        let volume::Volume {
            metadata, mut spec, ..
        } = wire;
        let annotation = |key| {
            metadata
                .annotations
                .get(key)
                .filter(|text| !text.is_empty())
        };
        let secret = annotation(MODIFY_SECRET_NAME).zip(annotation(MODIFY_SECRET_NAMESPACE));
        let in_tree = spec.take_in_tree(&metadata);
        let claim = spec.claim_ref.as_ref();
        let known = match in_tree {
            Some(object) => Known::translated(&object, &spec, strings),
            None => Known::native(&spec, strings),
        };
        let kind = VolumeKind {
            source: known.source,
            access_modes: known.access_modes,
            block: spec.is_block(),
            mount_options: list(&spec.mount_options, strings),
            class: shared(&spec.volume_attributes_class_name, strings),
            modify_secret: secret.map(|(name, namespace)| SecretRef {
                namespace: strings.intern(namespace),
                name: strings.intern(name),
            }),
        };
        Some(Self {
            handle: known.handle,
            capacity: quantity(spec.capacity.get("storage")),
            claim: claim.map(|claim| ClaimRef {
                namespace: interned(&claim.namespace, strings),
                uid: Uid::new(claim.uid.as_deref().unwrap_or_default()),
            }),
            pre_resize: metadata.annotations.get(PRE_RESIZE_CAPACITY).map(|text| {
                Box::new(PreResize {
                    capacity: strings.intern(text),
                    claim: claim.map(|claim| own(&claim.name)).unwrap_or_default(),
                })
            }),
            kind: strings.share(kind),
        })
    }
}

/// Source, handle and access modes of a volume for its driver.
struct Known {
    source: Source,
    handle: Text,
    access_modes: List,
}

impl Known {
    fn native(spec: &volume::Spec<'_>, strings: &Interner) -> Self {
        let csi = spec.csi.as_ref();
        Self {
            source: csi.map_or(Source::Other, |csi| Source::Csi(csi_source(csi, strings))),
            handle: csi.map(|csi| own(&csi.volume_handle)).unwrap_or_default(),
            access_modes: list(&spec.access_modes, strings),
        }
    }

    /// The same for an in-tree source, translated for the driver that has replaced the plugin.
    fn translated(object: &Value, spec: &volume::Spec<'_>, strings: &Interner) -> Self {
        let native = Self::native(spec, strings);
        let Some(driver) = TRANSLATOR.of_volume(object) else {
            return native;
        };
        let (csi, native) = match in_words_of_csi(object, strings) {
            Ok((csi, translated)) => (Ok(csi), translated),
            Err(why) => (Err(why.into()), native),
        };
        let driver = driver.name;
        Self {
            source: Source::InTree(Box::new(InTree { driver, csi })),
            ..native
        }
    }
}

fn in_words_of_csi(object: &Value, strings: &Interner) -> Result<(CsiSource, Known), String> {
    let volume = TRANSLATOR.volume_to_csi(object);
    let volume = volume.map_err(|error| error.to_string())?;
    let read = |spec: &volume::Spec<'_>| {
        let csi = spec.csi.as_ref().map(|csi| csi_source(csi, strings));
        (csi.unwrap_or_default(), Known::native(spec, strings))
    };
    volume::read_spec(&volume, read).map_err(|error| error.to_string())
}

fn csi_source(csi: &volume::Csi<'_>, strings: &Interner) -> CsiSource {
    let secret = csi.controller_expand_secret_ref.as_ref();
    CsiSource {
        driver: interned(&csi.driver, strings),
        fs_type: interned(&csi.fs_type, strings),
        expand_secret: secret.map(|secret| secret.secret(strings)),
    }
}
