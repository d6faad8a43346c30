//! The kinds that the program reads.

use std::fmt;

/// A kind of object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    Pod,
    Claim,
    Volume,
    Class,
    Attachment,
    Node,
    CsiNode,
    Driver,
    Capacity,
    AttributesClass,
    Lease,
    Event,
    DaemonSet,
    Deployment,
    StatefulSet,
    Quota,
    ConfigMap,
    Secret,
    Snapshot,
    Content,
    SnapshotClass,
    GroupSnapshot,
    GroupContent,
    GroupClass,
    Populator,
    Crd,
}

/// API group and versions of a kind, and its names.
struct Entry {
    kind: Kind,
    /// `kind` of the objects.
    name: &'static str,
    group: &'static str,
    /// Newest first.
    versions: &'static [&'static str],
    plural: &'static str,
    namespaced: bool,
    /// Names that users write in front of an object's name, the usual one first.
    called: &'static [&'static str],
    /// The noun in sentences.
    noun: &'static str,
}

const fn entry(
    kind: Kind,
    name: &'static str,
    (group, versions, plural): (&'static str, &'static [&'static str], &'static str),
    namespaced: bool,
    called: &'static [&'static str],
    noun: &'static str,
) -> Entry {
    Entry {
        kind,
        name,
        group,
        versions,
        plural,
        namespaced,
        called,
        noun,
    }
}

const STORAGE: &str = "storage.k8s.io";
const SNAPSHOT: &str = "snapshot.storage.k8s.io";
const GROUP: &str = "groupsnapshot.storage.k8s.io";
const V1: &[&str] = &["v1"];
const GROUP_VERSIONS: &[&str] = &["v1", "v1beta2", "v1beta1"];
const CLASS_VERSIONS: &[&str] = &["v1", "v1beta1"];

#[rustfmt::skip]
static ENTRIES: &[Entry] = &[
    entry(Kind::Pod, "Pod", ("", V1, "pods"), true, &["pod", "po"], "pod"),
    entry(Kind::Claim, "PersistentVolumeClaim", ("", V1, "persistentvolumeclaims"), true, &["pvc", "claim"], "claim"),
    entry(Kind::Volume, "PersistentVolume", ("", V1, "persistentvolumes"), false, &["pv", "volume"], "volume"),
    entry(Kind::Class, "StorageClass", (STORAGE, V1, "storageclasses"), false, &["sc"], "StorageClass"),
    entry(Kind::Attachment, "VolumeAttachment", (STORAGE, V1, "volumeattachments"), false, &["va", "attachment"], "attachment"),
    entry(Kind::Node, "Node", ("", V1, "nodes"), false, &["node", "no"], "node"),
    entry(Kind::CsiNode, "CSINode", (STORAGE, V1, "csinodes"), false, &["csinode"], "CSINode"),
    entry(Kind::Driver, "CSIDriver", (STORAGE, V1, "csidrivers"), false, &["csidriver", "driver"], "CSIDriver"),
    entry(Kind::Capacity, "CSIStorageCapacity", (STORAGE, V1, "csistoragecapacities"), true, &[], "CSIStorageCapacity"),
    entry(Kind::AttributesClass, "VolumeAttributesClass", (STORAGE, CLASS_VERSIONS, "volumeattributesclasses"), false, &[], "VolumeAttributesClass"),
    entry(Kind::Lease, "Lease", ("coordination.k8s.io", V1, "leases"), true, &[], "lease"),
    entry(Kind::Event, "Event", ("", V1, "events"), true, &[], "event"),
    entry(Kind::DaemonSet, "DaemonSet", ("apps", V1, "daemonsets"), true, &[], "DaemonSet"),
    entry(Kind::Deployment, "Deployment", ("apps", V1, "deployments"), true, &[], "Deployment"),
    entry(Kind::StatefulSet, "StatefulSet", ("apps", V1, "statefulsets"), true, &[], "StatefulSet"),
    entry(Kind::Quota, "ResourceQuota", ("", V1, "resourcequotas"), true, &[], "ResourceQuota"),
    entry(Kind::ConfigMap, "ConfigMap", ("", V1, "configmaps"), true, &[], "ConfigMap"),
    entry(Kind::Secret, "Secret", ("", V1, "secrets"), true, &[], "Secret"),
    entry(Kind::Snapshot, "VolumeSnapshot", (SNAPSHOT, V1, "volumesnapshots"), true, &["vs", "snapshot"], "snapshot"),
    entry(Kind::Content, "VolumeSnapshotContent", (SNAPSHOT, V1, "volumesnapshotcontents"), false, &["vsc", "snapshotcontent"], "snapshot content"),
    entry(Kind::SnapshotClass, "VolumeSnapshotClass", (SNAPSHOT, V1, "volumesnapshotclasses"), false, &[], "VolumeSnapshotClass"),
    entry(Kind::GroupSnapshot, "VolumeGroupSnapshot", (GROUP, GROUP_VERSIONS, "volumegroupsnapshots"), true, &["vgs", "groupsnapshot"], "group snapshot"),
    entry(Kind::GroupContent, "VolumeGroupSnapshotContent", (GROUP, GROUP_VERSIONS, "volumegroupsnapshotcontents"), false, &[], "group snapshot content"),
    entry(Kind::GroupClass, "VolumeGroupSnapshotClass", (GROUP, GROUP_VERSIONS, "volumegroupsnapshotclasses"), false, &[], "VolumeGroupSnapshotClass"),
    entry(Kind::Populator, "VolumePopulator", ("populator.storage.k8s.io", CLASS_VERSIONS, "volumepopulators"), false, &[], "VolumePopulator"),
    entry(Kind::Crd, "CustomResourceDefinition", ("apiextensions.k8s.io", V1, "customresourcedefinitions"), false, &[], "CustomResourceDefinition"),
];

/// The kinds that users can ask about.
pub static SUBJECTS: &[Kind] = &[
    Kind::Pod,
    Kind::Claim,
    Kind::Volume,
    Kind::Attachment,
    Kind::Snapshot,
    Kind::Content,
    Kind::GroupSnapshot,
    Kind::Node,
    Kind::Driver,
];

impl Kind {
    /// Every kind.
    pub fn all() -> impl Iterator<Item = Self> {
        ENTRIES.iter().map(|entry| entry.kind)
    }

    fn entry(self) -> &'static Entry {
        // Unreachable: a test checks that every kind has an entry.
        const NONE: &Entry = &entry(Kind::Pod, "", ("", V1, ""), true, &[], "");
        let found = ENTRIES.iter().find(|entry| entry.kind == self);
        found.unwrap_or(NONE)
    }

    /// `kind` of its objects.
    pub fn name(self) -> &'static str {
        self.entry().name
    }

    /// The noun in sentences.
    pub fn noun(self) -> &'static str {
        self.entry().noun
    }

    /// The usual name that users write in front of an object's name.
    pub fn called(self) -> &'static str {
        let entry = self.entry();
        entry.called.first().copied().unwrap_or(entry.plural)
    }

    /// Whether its objects live in namespaces.
    pub fn is_namespaced(self) -> bool {
        self.entry().namespaced
    }

    /// API group, empty for the core group.
    pub fn group(self) -> &'static str {
        self.entry().group
    }

    /// The versions to try, newest first.
    pub fn versions(self) -> &'static [&'static str] {
        self.entry().versions
    }

    /// Name in URLs and in RBAC rules.
    pub fn plural(self) -> &'static str {
        self.entry().plural
    }

    /// The kind with this `apiVersion` and `kind`.
    pub fn of_object(api_version: &str, kind: &str) -> Option<Self> {
        let group = api_version.rsplit_once('/').map_or("", |(group, _)| group);
        let fits = |entry: &&Entry| entry.name == kind && entry.group == group;
        ENTRIES.iter().find(fits).map(|entry| entry.kind)
    }

    /// The subject that a user calls `word`: `pvc`, `persistentvolumeclaims`, `PersistentVolumeClaim`.
    pub fn of_word(word: &str) -> Option<Self> {
        let word = word.to_ascii_lowercase();
        // kubectl also accepts the group behind it.
        let (word, group) = word.split_once('.').unwrap_or((&word, ""));
        let fits = |entry: &Entry| {
            let names = entry.called.contains(&word)
                || entry.plural == word
                || entry.name.eq_ignore_ascii_case(word);
            names && (group.is_empty() || entry.group == group)
        };
        let mut subjects = SUBJECTS.iter().copied();
        subjects.find(|kind| fits(kind.entry()))
    }
}

/// The commands that dump every object that causes are derived from. Kinds that not every API server has are in
/// commands of their own, since kubectl gives up at the first kind that it does not know. Secrets and ConfigMaps are
/// not dumped.
pub fn dumps() -> Vec<String> {
    let groups = [
        &["", STORAGE, "coordination.k8s.io", "apps"][..],
        &[SNAPSHOT],
        &[GROUP],
        &["populator.storage.k8s.io"],
    ];
    let apart =
        |kind: &Kind| matches!(kind, Kind::Secret | Kind::ConfigMap | Kind::AttributesClass);
    let mut more = ">";
    let mut commands: Vec<_> = { groups.iter() }
        .map(|groups| {
            let own = Kind::all().filter(|kind| groups.contains(&kind.group()) && !apart(kind));
            let own: Vec<_> = own.map(Kind::plural).collect();
            let more = std::mem::replace(&mut more, ">>");
            format!("kubectl get {} -A -o json {more} dump", own.join(","))
        })
        .collect();
    let classes = Kind::AttributesClass.plural();
    let definition = format!(
        "{} {}.{GROUP}",
        Kind::Crd.plural(),
        Kind::GroupSnapshot.plural()
    );
    commands
        .extend([classes, &definition].map(|what| format!("kubectl get {what} -o json >> dump")));
    commands
}

/// Kind, namespace and name of an object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ref {
    pub kind: Kind,
    /// Empty for kinds without namespaces.
    pub namespace: String,
    pub name: String,
}

impl Ref {
    /// A reference; `namespace` is ignored for kinds without namespaces.
    pub fn new(kind: Kind, namespace: &str, name: &str) -> Self {
        let namespace = if kind.is_namespaced() { namespace } else { "" };
        Self {
            kind,
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        }
    }

    /// `shop/data`, or the name alone.
    pub fn path(&self) -> String {
        if self.namespace.is_empty() {
            return self.name.clone();
        }
        format!("{}/{}", self.namespace, self.name)
    }
}

/// `claim shop/data`.
impl fmt::Display for Ref {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind.noun(), self.path())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_its_entry() {
        for kind in Kind::all() {
            assert_eq!(kind.entry().kind, kind);
            let version = match kind.group() {
                "" => "v1".to_owned(),
                group => format!("{group}/v1"),
            };
            assert_eq!(Kind::of_object(&version, kind.name()), Some(kind));
        }
    }

    #[test]
    fn w_30_a_dump_has_every_kind_but_those_with_secrets_in_them() {
        let commands = dumps().join("\n");
        for kind in Kind::all() {
            let named = commands
                .split([',', ' ', '\n'])
                .any(|word| word == kind.plural());
            let apart = matches!(kind, Kind::Secret | Kind::ConfigMap);
            assert_ne!(named, apart, "{}: {commands}", kind.plural());
        }
        assert_eq!(commands.matches("-o json > dump").count(), 1, "{commands}");
    }

    #[test]
    fn people_call_kinds_by_several_names() {
        for (word, kind) in [
            ("pod", Some(Kind::Pod)),
            ("po", Some(Kind::Pod)),
            ("PVC", Some(Kind::Claim)),
            ("persistentvolumeclaims", Some(Kind::Claim)),
            ("PersistentVolume", Some(Kind::Volume)),
            ("volumeattachments.storage.k8s.io", Some(Kind::Attachment)),
            (
                "volumesnapshots.snapshot.storage.k8s.io",
                Some(Kind::Snapshot),
            ),
            ("vs", Some(Kind::Snapshot)),
            ("vs.apps", None),
            ("lease", None),
            ("secret", None),
            ("", None),
        ] {
            assert_eq!(Kind::of_word(word), kind, "{word}");
        }
    }
}
