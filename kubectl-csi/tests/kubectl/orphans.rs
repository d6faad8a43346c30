//! `kubectl csi audit` calls no volume unknown that this cluster may use: a user may delete it for that.

use crate::objects::{
    ATTACHED, BY_NAME, CALLS, EPHEMERAL, EPHEMERAL_HANDLE, GROUP, GROUP_OF_STRAY, HEADLESS, IN_USE,
    INLINE, INSTALLED, LOST, MEMBERS, NAMED, NFS, NOBODY, OF_STRAY, ORPHAN, OTHER_CALLS, OTHERS,
    PAIRS, POD_NFS, RESTORED, SNAPSHOT, STRAY, TAKING, TWIN, TWIN_SNAPSHOT, UNREAD, WAITS, WANTED,
    ZONE_A,
};
use crate::world::{Case, World, check, is, stored, told};
use kubectl_csi::model::Kind;
use kubectl_csi::plan::{Difference, Stock, Storage, Stored};
use serde_json::json;

const CASES: &[Case<'_>] = &[
    (
        "W-50 a cluster that does not name the driver",
        NOBODY,
        &[STRAY],
        &[
            "driverless pvc-1 csi.example.org",
            "driverless pvc-k csi.example.org",
            "refused: | no PersistentVolume and no CSINode of this cluster names csi.example.com",
        ],
        4,
    ),
    (
        "W-50 none is known",
        &["pv pvc-k spec.csi.volumeHandle = \"other\""],
        &["- volume vol-1", STRAY],
        &["refused: | this cluster knows none of the 2 volumes that it lists"],
        4,
    ),
    (
        "W-50 a new cluster on an old storage",
        &[
            "- pv pvc-1",
            "- pv pvc-k",
            "- va csi-c4",
            "- pod shop/db-0",
            "- pvc shop/data-db-0",
        ],
        &[STRAY],
        &["refused: | this cluster knows none of the 3"],
        4,
    ),
    (
        "W-50 nothing is listed",
        &[],
        &["- volume vol-1", "- volume kept-1"],
        &["refused: | it lists no volume, and this cluster has 2 PersistentVolumes of it"],
        4,
    ),
    (
        "W-50 most are lost",
        &[
            r#"+ {"apiVersion":"v1","kind":"PersistentVolume","metadata":{"name":"third"},"spec":{"csi":{"driver":"csi.example.com","volumeHandle":"third"}},"status":{"phase":"Bound"}}"#,
        ],
        &["- volume vol-1", STRAY],
        &[
            "? unknownVolume vol-9 | the driver has only 1 of the 3 PersistentVolumes of this cluster",
            "? lostVolume third | the driver has only 1 of the 3",
            "? lostVolume vol-1 | the driver has only 1 of the 3",
        ],
        1,
    ),
    (
        "W-53 no list, and none answers",
        &["- pv pvc-k"],
        &["?volumes vol-1"],
        &[
            "? lostVolume vol-1 | the driver has only 0 of the 1",
            "unseen: volumes that this cluster does not know",
        ],
        1,
    ),
    (
        "W-50 an entry without an id",
        &["- va csi-c4", "- pod shop/db-0", ZONE_A],
        &["# volumes", "- volume vol-1", STRAY],
        &[
            "? unknownVolume vol-9 | 1 entries of the driver's list have no id",
            "? lostVolume vol-1 | 1 entries of the driver's list have no id",
        ],
        1,
    ),
    (
        "W-50 not listed, and there when asked for",
        &["- va csi-c4", "- pod shop/db-0", ZONE_A],
        &["- volume vol-1", "~ volume"],
        &["? lostVolume vol-1 | does not answer NOT_FOUND"],
        1,
    ),
    (
        "W-50 one on each side, and nobody to ask",
        &["- va csi-c4", "- pod shop/db-0", ZONE_A],
        &["- volume vol-1", STRAY],
        &[
            "? unknownVolume vol-9: the driver does not list what volume pvc-1 names: this may be it",
            "? lostVolume vol-1: the driver cannot be asked for it, and lists some that nothing names: this may be one of them",
        ],
        1,
    ),
    (
        "W-50 a handle that a person wrote",
        &[],
        &["- volume kept-1", "x volume kept-1", STRAY],
        &[
            "? unknownVolume vol-9: the driver does not list what volume pvc-k names: this may be it",
            "? lostVolume kept-1: a person wrote its handle, and the driver may have it under another one",
        ],
        1,
    ),
    (
        "W-50 a handle that a node has in use and nobody lists",
        &[r#"node worker-1 status.volumesInUse = ["kubernetes.io/csi/csi.example.com^other"]"#],
        &[STRAY],
        &[
            "? unknownVolume vol-9: the driver does not list what node worker-1 names: this may be it",
        ],
        1,
    ),
    (
        "W-53 a handle that a person wrote, asked for",
        &[],
        &["?volumes kept-1"],
        &[
            "? lostVolume kept-1 | a person wrote its handle",
            "unseen: volumes that this cluster does not know",
        ],
        1,
    ),
    (
        "W-58 one on each side, and nobody to ask",
        &[],
        &["- snapshot s-1", SNAPSHOT],
        &[
            "? unknownSnapshot s-9: the driver does not list what snapshot content snapcontent-1 names: this may be it",
            "? lostSnapshot s-1: the driver cannot be asked for it, and lists some that nothing names: this may be one of them",
        ],
        1,
    ),
    (
        "W-50 a path of a node",
        &[
            r#"+ {"apiVersion":"v1","kind":"PersistentVolume","metadata":{"name":"local"},"spec":{"local":{"path":"/mnt/vol-9"}},"status":{"phase":"Bound"}}"#,
        ],
        &["+ volume mnt/vol-9 1"],
        &["? unknownVolume mnt/vol-9 | its handle has a name or the UID of volume local in it"],
        1,
    ),
    (
        "W-50 a flex volume",
        &[
            r#"+ {"apiVersion":"v1","kind":"PersistentVolume","metadata":{"name":"flex"},"spec":{"flexVolume":{"driver":"a/b","options":{"id":"vol-9"}}},"status":{"phase":"Bound"}}"#,
        ],
        &[STRAY],
        &["? unknownVolume vol-9 | its handle has a name or the UID of volume flex in it"],
        1,
    ),
    (
        "W-50 another driver's name",
        &[TWIN, INSTALLED],
        &[STRAY],
        &["otherDriver twin twin.example.com"],
        0,
    ),
    (
        "W-58 another driver's name",
        &[TWIN_SNAPSHOT],
        &[SNAPSHOT],
        &["otherDriver twin twin.example.com"],
        0,
    ),
    (
        "W-50 an attachment without a PersistentVolume",
        &[INLINE],
        &[STRAY],
        &[],
        0,
    ),
    (
        "W-50 an attachment whose PersistentVolume is gone",
        &[HEADLESS],
        &[STRAY],
        &[
            "? unknownVolume vol-9 | attachment headless is of the PersistentVolume gone, which does not exist",
        ],
        1,
    ),
    ("W-50 in use on a node", &[IN_USE], &[STRAY], &[], 0),
    ("W-50 attached to a node", &[ATTACHED], &[STRAY], &[], 0),
    (
        "W-50 attached in the storage",
        &[],
        &["+ volume vol-9 1 worker-3"],
        &["? unknownVolume vol-9 | the storage has it attached to a node, worker-3"],
        1,
    ),
    (
        "W-50 attached in the storage to a node of another cluster",
        &[],
        &["+ volume vol-9 1 elsewhere", "+ volume vol-8 1", SNAPSHOT],
        &[
            "? unknownVolume vol-8: another cluster uses the same storage: it has a volume attached to elsewhere, which is no node of this one",
            "? unknownVolume vol-9 | the storage has it attached to a node, elsewhere",
            "? unknownSnapshot s-9 | another cluster uses the same storage",
        ],
        1,
    ),
    (
        "W-50 what a copy is made of",
        &[],
        &[STRAY, SNAPSHOT, "< vol-9 vol-1", "< s-9 kept-1"],
        &[
            "? unknownVolume vol-9 | the storage has vol-1, which is made of it",
            "? unknownSnapshot s-9 | the storage has kept-1, which is made of it",
        ],
        1,
    ),
    (
        "W-79 a member that the driver names",
        &[],
        &["+ snapshot s-9 1 group=g-1"],
        &["? unknownSnapshot s-9 | it is a member of group snapshot content groupcontent-1"],
        1,
    ),
    (
        "W-51 a snapshot whose content is gone",
        &[r#"vs shop/snap status.boundVolumeSnapshotContentName = "gone""#],
        &[SNAPSHOT],
        &[
            "? unknownSnapshot s-9 | snapshot shop/snap names the content gone, which does not exist",
        ],
        1,
    ),
    (
        "W-51 a group whose content is gone",
        &[r#"vgs shop/group status.boundVolumeGroupSnapshotContentName = "gone""#],
        &[SNAPSHOT],
        &["? unknownSnapshot s-9 | group snapshot shop/group names the content gone"],
        1,
    ),
    (
        "W-50 a pod's own volume under another handle",
        &[EPHEMERAL],
        &[STRAY],
        &[
            "? unknownVolume vol-9: pod shop/e has a volume of its own of csi.example.com, which may be this one under another handle",
        ],
        1,
    ),
    (
        "W-50 a snapshot's source",
        &[OF_STRAY],
        &[STRAY],
        &["? unknownVolume vol-9 | snapshot content of names it"],
        1,
    ),
    (
        "W-50 a group's source",
        &[GROUP_OF_STRAY],
        &[STRAY],
        &["? unknownVolume vol-9 | group snapshot content of names it"],
        1,
    ),
    (
        "W-50 a snapshot among the volumes",
        &[],
        &["+ volume s-1 1"],
        &["? unknownVolume s-1 | snapshot content"],
        1,
    ),
    (
        "W-58 a volume among the snapshots",
        &[],
        &["+ snapshot vol-1"],
        &["? unknownSnapshot vol-1 | names it"],
        1,
    ),
    (
        "W-50 another case",
        &["- va csi-c4", "- pod shop/db-0", ZONE_A],
        &["- volume vol-1", "+ volume VOL-1 10"],
        &[
            "? unknownVolume VOL-1 | volume pvc-1 names it",
            "? lostVolume vol-1 | the driver lists one with a handle much like this",
        ],
        1,
    ),
    (
        "W-50 a path in front",
        &[],
        &["+ volume pool/vol-1 10"],
        &["? unknownVolume pool/vol-1 | volume pvc-1 names it"],
        1,
    ),
    (
        "W-50 the folder of a volume",
        &[r#"pv pvc-k spec.csi.volumeHandle = "server/share/k""#],
        &["- volume kept-1", "+ volume server/share 10"],
        &[
            "? unknownVolume server/share | volume pvc-k names it",
            "? lostVolume server/share/k | a handle much like this",
        ],
        1,
    ),
    (
        "W-50 named after its PersistentVolume",
        &[],
        &["+ volume pvc-k 1"],
        &["? unknownVolume pvc-k | its handle has a name or the UID of volume pvc-k in it"],
        1,
    ),
    (
        "W-50 named after another driver's PersistentVolume",
        &[TWIN, INSTALLED, r#"pv twin spec.csi.volumeHandle = "x-1""#],
        &["+ volume disk-twin 1"],
        &["? unknownVolume disk-twin | its handle has a name or the UID of volume twin in it"],
        1,
    ),
    (
        "W-50 named after its claim",
        &[BY_NAME],
        &["+ volume disk_6BA7B8109DAD11D180B400C04FD430C8 1"],
        &[
            "? unknownVolume disk_6BA7B8109DAD11D180B400C04FD430C8 | a name or the UID of claim shop/c",
        ],
        1,
    ),
    (
        "W-51 a claim that gets its volume",
        &[WANTED],
        &[STRAY],
        &["? unknownVolume vol-9 | claim shop/new has no PersistentVolume yet"],
        1,
    ),
    (
        "W-51 a pod that runs with a claim that is gone",
        &[ORPHAN],
        &[STRAY],
        &["? unknownVolume vol-9 | pod shop/orphan runs with the claim gone, which does not exist"],
        1,
    ),
    (
        "W-50 a path on a server",
        &[NFS],
        &["+ volume exports/vol-9 1"],
        &["? unknownVolume exports/vol-9 | its handle has a name or the UID of volume nfs in it"],
        1,
    ),
    (
        "W-50 a path on a server that a pod mounts",
        &[POD_NFS],
        &["+ volume exports/vol-9 1"],
        &["? unknownVolume exports/vol-9 | its handle has a name or the UID of pod shop/nfs in it"],
        1,
    ),
    (
        "W-50 named after a claim without a UID",
        &[],
        &["+ volume shop-data-db-0 1"],
        &[
            "? unknownVolume shop-data-db-0 | its handle has a name or the UID of claim shop/data-db-0 in it",
        ],
        1,
    ),
    (
        "W-58 the group itself",
        &[],
        &["+ snapshot g-1"],
        &["? unknownSnapshot g-1 | group snapshot content groupcontent-1 names it"],
        1,
    ),
    (
        "W-51 a claim of another driver",
        &[OTHERS],
        &[STRAY],
        &["unknownVolume vol-9"],
        3,
    ),
    (
        "W-51 a claim that waits for a pod",
        &[WAITS],
        &[STRAY],
        &["unknownVolume vol-9"],
        3,
    ),
    (
        "W-51 a claim whose volume is gone",
        &[LOST],
        &[STRAY],
        &["? unknownVolume vol-9 | claim shop/lost names the PersistentVolume gone"],
        1,
    ),
    (
        "W-51 a snapshot that is being taken",
        &[TAKING],
        &[SNAPSHOT],
        &["? unknownSnapshot s-9 | snapshot content taking has no handle yet"],
        1,
    ),
    (
        "W-51 a group that is being taken",
        &[GROUP],
        &[SNAPSHOT],
        &["? unknownSnapshot s-9 | group snapshot content g has no members yet"],
        1,
    ),
    ("W-79 members", &[MEMBERS], &[SNAPSHOT], &[], 0),
    (
        "W-79 members as v1beta1 has them",
        &[PAIRS],
        &[SNAPSHOT],
        &[],
        0,
    ),
    ("W-79 members made by hand", &[NAMED], &[SNAPSHOT], &[], 0),
    (
        "W-79 any Lease of the journal",
        &[CALLS],
        &[STRAY],
        &[
            "? unknownVolume vol-9 | claim with UID u-7",
            "mayExist csi-example-com-journal-7 u-7",
        ],
        1,
    ),
    (
        "W-79 an entry of a backup",
        &[RESTORED],
        &[STRAY],
        &[
            "? unknownVolume vol-9 | claim with UID u-8",
            "mayExist csi-example-com-journal-node-1 u-8",
        ],
        1,
    ),
    (
        "W-79 a journal that cannot be read",
        &[UNREAD],
        &[STRAY],
        &[
            "? unknownVolume vol-9 | claim with UID u-9",
            "mayExist x-journal-0 u-9",
        ],
        1,
    ),
    (
        "W-79 another driver's journal",
        &[OTHER_CALLS],
        &[STRAY],
        &["unknownVolume vol-9"],
        3,
    ),
    (
        "W-58 none is known",
        &[
            "- volumesnapshotcontent snapcontent-1",
            "- volumesnapshotcontent content-k",
            "volumegroupsnapshotcontent groupcontent-1 status.volumeSnapshotInfoList = [{\"snapshotHandle\":\"x\"}]",
        ],
        &[],
        &[
            "? unknownSnapshot kept-s | knows none of the snapshots",
            "? unknownSnapshot s-1 | knows none of the snapshots",
        ],
        1,
    ),
    (
        "W-58 contents in a version that is not looked at",
        &["!volumesnapshotcontents"],
        &[SNAPSHOT],
        &[
            "? unknownSnapshot kept-s | does not serve volumesnapshotcontents",
            "? unknownSnapshot s-9 | does not serve",
        ],
        1,
    ),
    (
        "W-43 an API server without pods",
        &["!pods"],
        &[STRAY],
        &["? unknownVolume vol-9 | the API server does not serve pods"],
        1,
    ),
];

#[test]
fn w_50_w_51_w_53_w_58_w_79_what_may_be_used_is_not_called_unknown() {
    check(CASES);
}

/// Objects that could not be read may name any volume; the answer says which permission is missing.
#[test]
fn w_25_w_50_without_a_permission_nothing_is_called_unknown() {
    for (kind, volumes, snapshots) in [
        (Kind::Attachment, true, false),
        (Kind::Claim, true, true),
        (Kind::Pod, true, false),
        (Kind::Lease, true, true),
        (Kind::Class, true, true),
        (Kind::Node, true, false),
        (Kind::Content, true, true),
        (Kind::GroupContent, true, true),
        (Kind::Snapshot, false, true),
        (Kind::GroupSnapshot, false, true),
    ] {
        let mut world = World::two();
        world.forbidden.insert(kind);
        let audit = world.audit(&stored(&[STRAY, SNAPSHOT]), "");
        let why = format!("{} could not be listed: no permission", kind.plural());
        for (is_undecided, handle) in [(volumes, "vol-9"), (snapshots, "s-9")] {
            let one = audit.undecided.iter().find(|one| one.handle == handle);
            let says = one.is_some_and(|one| one.why.iter().any(|text| **text == why));
            assert_eq!(says, is_undecided, "{kind:?} {handle}: {audit:?}");
            let is_told = audit.differences.iter().any(|one| one.handle == handle);
            assert_eq!(is_told, !is_undecided, "{kind:?} {handle}: {audit:?}");
        }
    }
    let mut world = World::two();
    world.forbidden.extend([Kind::Volume, Kind::CsiNode]);
    let audit = world.audit(&stored(&[STRAY]), "");
    assert!(
        audit.differences.is_empty() && audit.code() == 4,
        "{audit:?}"
    );
}

#[test]
fn w_50_a_lost_volume_may_be_in_use_where_that_cannot_be_seen() {
    for (kind, is_undecided) in [
        (Kind::Pod, true),
        (Kind::Claim, true),
        (Kind::Node, true),
        (Kind::Attachment, true),
        (Kind::Lease, false),
        (Kind::Class, false),
        (Kind::Content, false),
    ] {
        let mut world = World::two();
        world.edit(r#"+ {"apiVersion":"v1","kind":"PersistentVolume","metadata":{"name":"pvc-5","annotations":{"pv.kubernetes.io/provisioned-by":"csi.example.com"}},"spec":{"csi":{"driver":"csi.example.com","volumeHandle":"vol-5"}},"status":{"phase":"Bound"}}"#);
        world.forbidden.insert(kind);
        let audit = world.audit(&stored(&["x volume vol-5"]), "");
        let lost = |all: &[Difference]| all.iter().any(|one| one.handle == "vol-5");
        assert_eq!(lost(&audit.undecided), is_undecided, "{kind:?}: {audit:?}");
        assert_eq!(
            lost(&audit.differences),
            !is_undecided,
            "{kind:?}: {audit:?}"
        );
    }
}

/// An answer counts repeated reasons instead of listing them.
#[test]
fn w_51_many_claims_are_named_in_part() {
    let mut world = World::two();
    for number in 0..10 {
        world.edit(&WANTED.replace("\"new\"", &format!("\"new-{number}\"")));
    }
    let audit = world.audit(&stored(&[STRAY]), "");
    let why = &audit.undecided[0].why;
    assert_eq!(why.len(), 4, "{why:?}");
    assert!(why.contains("so it is for 7 more objects"), "{why:?}");
}

/// A driver's storage: unattached volumes, no snapshots.
fn listing(driver: &str, handles: &[&str]) -> Storage {
    let all = handles
        .iter()
        .map(|handle| ((*handle).into(), Stored::default()));
    Storage {
        driver: driver.to_owned(),
        volumes: Stock {
            missing: Some([].into()),
            ..Stock::new(Ok(all.collect()))
        },
        snapshots: Stock::new(Err("none".to_owned())),
        sources: [].into(),
    }
}

/// Driver, source of a PersistentVolume, handle of another PersistentVolume, a handle in the storage, the expected
/// answer.
type InTree<'a> = (&'a str, serde_json::Value, &'a str, &'a str, &'a str);

fn in_tree() -> Vec<InTree<'static>> {
    let gce = "projects/p/zones/z/disks/d";
    vec![
        (
            "ebs.csi.aws.com",
            json!({"awsElasticBlockStore": {"volumeID": "aws://us-east-1a/vol-0a"}}),
            "vol-0b",
            "vol-0a",
            "",
        ),
        (
            "ebs.csi.aws.com",
            json!({"awsElasticBlockStore": {"volumeID": "vol-0a"}}),
            "vol-0b",
            "vol-0c",
            "? unknownVolume vol-0c: the driver does not list what volume old names: this may be it",
        ),
        (
            "ebs.csi.aws.com",
            json!({"awsElasticBlockStore": {"volumeID": "vol-0a"}}),
            "vol-0a",
            "vol-0c",
            "unknownVolume vol-0c",
        ),
        (
            "pd.csi.storage.gke.io",
            json!({"gcePersistentDisk": {"pdName": "d"}}),
            "projects/p/zones/z/disks/e",
            gce,
            "? unknownVolume projects/p/zones/z/disks/d | volume old of an in-tree plugin may be it",
        ),
        (
            "csi.vsphere.vmware.com",
            json!({"vsphereVolume": {"volumePath": "[ds] a.vmdk"}}),
            "6ba7b810",
            "6ba7b811",
            "? unknownVolume 6ba7b811 | volumes of the in-tree plugin such as volume old have other handles",
        ),
        (
            "file.csi.azure.com",
            json!({"azureFile": {"secretName": "s"}}),
            "rg#a#b",
            "rg#a#c",
            "? unknownVolume rg#a#c | volume old is of an in-tree plugin",
        ),
        // Only the share identifies it.
        (
            "file.csi.azure.com",
            json!({"azureFile": {"secretName": "s", "shareName": "share"}, "claimRef": {"namespace": "shop"}}),
            "rg#a#b",
            "rg#a#share#x",
            "? unknownVolume rg#a#share#x | volume old of an in-tree plugin may be it",
        ),
        // Another name for the same storage.
        (
            "ebs.example.com",
            json!({"awsElasticBlockStore": {"volumeID": "vol-0a"}}),
            "vol-0b",
            "vol-0a",
            "otherDriver old ebs.csi.aws.com",
        ),
    ]
}

#[test]
fn w_50_volumes_of_in_tree_plugins_are_known_by_their_drivers_handles() {
    for (driver, source, own, listed, expected) in in_tree() {
        let mut world = World::healthy();
        let volume = |name: &str, spec: serde_json::Value| {
            format!(
                "+ {}",
                json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": spec, "status": {"phase": "Bound"}})
            )
        };
        world.edit(&volume("old", source));
        let csi = json!({"csi": {"driver": driver, "volumeHandle": own}});
        world.edit(&volume("new", csi));
        let told = told(&world.audit(&listing(driver, &[own, listed]), ""));
        let told: Vec<_> = told
            .iter()
            .filter(|one| !one.starts_with("driverless"))
            .collect();
        let fits = match expected {
            "" => told.is_empty(),
            expected => told.len() == 1 && is(told[0], expected),
        };
        assert!(fits, "{driver} {listed}: {told:?}");
    }
}

#[test]
fn w_50_volumes_that_pods_have_of_their_own_are_known() {
    let driver = "ebs.csi.aws.com";
    let pod = |volume: &serde_json::Value| {
        format!(
            "+ {}",
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "shop", "uid": "u"}, "spec": {"volumes": [volume]}})
        )
    };
    let csi = json!({"name": "v", "csi": {"driver": driver}});
    let in_tree = json!({"name": "v", "awsElasticBlockStore": {"volumeID": "vol-0a"}});
    for (volume, listed) in [(&csi, EPHEMERAL_HANDLE), (&in_tree, "vol-0a")] {
        let mut world = World::healthy();
        world.edit(&pod(volume));
        world.edit(&format!("+ {}", json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "new"}, "spec": {"csi": {"driver": driver, "volumeHandle": "vol-0b"}}})));
        let told = told(&world.audit(&listing(driver, &["vol-0b", listed]), ""));
        let told: Vec<_> = told
            .iter()
            .filter(|one| !one.starts_with("driverless"))
            .collect();
        assert!(told.is_empty(), "{told:?}");
    }
}
