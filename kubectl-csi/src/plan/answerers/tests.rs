use serde_json::{Value, json};

use super::*;
use crate::plan::{Answer, Read};

struct Json(Value);

impl Read for Json {
    type Error = serde_json::Error;

    fn read<T: serde::de::DeserializeOwned>(self) -> Result<T, Self::Error> {
        serde_json::from_value(self.0)
    }
}

fn pod(namespace: &str, name: &str, ports: &str) -> Value {
    let arguments = [
        "--csi-address=/csi/csi.sock",
        "--drivername=csi.example.com",
    ];
    json!({
        "metadata": {"name": name, "namespace": namespace, "annotations": {"csi-sidecars.io/why": ports}},
        "spec": {"containers": [{"name": "driver", "args": arguments}]},
        "status": {"phase": "Running"},
    })
}

fn lease(namespace: &str, name: &str, holder: &str, created: &str) -> Value {
    json!({
        "metadata": {"name": name, "namespace": namespace, "creationTimestamp": created},
        "spec": {"holderIdentity": holder},
    })
}

const ATTACHER: &str = "external-attacher-leader-csi-example-com";
const OLD: &str = "2026-11-01T00:00:00Z";
const NEW: &str = "2026-11-28T00:00:00Z";

/// The ports that are asked about a volume, `namespace/pod:port`, what is left out, and the requests that were needed.
fn asked(
    about: &Ref,
    objects: &[(Kind, Value)],
    refused: &[Kind],
) -> (Vec<String>, Vec<String>, Vec<Want>) {
    let mut seen = Seen::default();
    let volume =
        json!({"metadata": {"name": "pvc-1"}, "spec": {"csi": {"driver": "csi.example.com"}}});
    seen.put(Kind::Volume, Json(volume)).unwrap();
    for (kind, object) in objects {
        seen.put(*kind, Json(object.clone())).unwrap();
    }
    let mut wanted = Vec::new();
    loop {
        match answerers(&seen, std::slice::from_ref(about), Timestamp::UNIX_EPOCH) {
            Ok(found) => {
                let ports = found.ports.iter();
                let ports = ports.map(|one| format!("{}:{}", one.pod_path(), one.port));
                let unseen = found.unseen.into_iter();
                let unseen = unseen.map(|(what, why)| format!("{what}: {why}"));
                return (ports.collect(), unseen.collect(), wanted);
            }
            Err(wants) => {
                for want in wants {
                    let answer = match refused.contains(&want.kind) {
                        true => Answer::Refused("no permission".to_owned()),
                        false => Answer::Whole,
                    };
                    wanted.push(want.clone());
                    seen.answer(want, answer);
                }
            }
        }
    }
}

fn volume() -> Ref {
    Ref::new(Kind::Volume, "", "pvc-1")
}

#[test]
fn w_46_only_the_holders_of_the_drivers_leases_are_asked() {
    let objects = [
        (Kind::Pod, pod("aaa", "ctl-0", "8090")),
        (Kind::Pod, pod("storage", "ctl-0", "8090")),
        (Kind::Pod, pod("storage", "ctl-1", "8091, 8092,x,0")),
        (Kind::Pod, pod("storage", "ctl-2", "8093")),
        (Kind::Lease, lease("storage", ATTACHER, "ctl-1", OLD)),
        (
            Kind::Lease,
            lease(
                "storage",
                "csi-example-com",
                "ctl-2_provisioner_together",
                OLD,
            ),
        ),
        (Kind::Lease, lease("aaa", "csi-other-com", "ctl-0", OLD)),
    ];
    let (ports, unseen, wants) = asked(&volume(), &objects, &[]);
    assert_eq!(
        ports,
        [
            "storage/ctl-2:8093",
            "storage/ctl-1:8091",
            "storage/ctl-1:8092"
        ]
    );
    assert_eq!(unseen, [""; 0]);
    let lists = wants.iter().filter(|want| want.name.is_none());
    let lists: Vec<_> = lists.filter(|want| want.kind != Kind::Lease).collect();
    assert!(lists.is_empty(), "{lists:?}");
}

#[test]
fn w_46_a_younger_lease_of_another_namespace_comes_last() {
    let mut objects = vec![
        (Kind::Pod, pod("storage", "ctl-0", "8090")),
        (Kind::Lease, lease("storage", ATTACHER, "ctl-0", OLD)),
    ];
    for number in 0..9 {
        let namespace = format!("a{number}");
        let ports = "1,2,3,4,5,6,7,8,9,10,11,12";
        objects.push((Kind::Pod, pod(&namespace, "ctl-0", ports)));
        objects.push((Kind::Lease, lease(&namespace, ATTACHER, "ctl-0", NEW)));
    }
    let (ports, unseen, _) = asked(&volume(), &objects, &[]);
    assert_eq!(
        ports.first().map(|port| &**port),
        Some("storage/ctl-0:8090")
    );
    assert_eq!(ports.len(), ASKED);
    assert_eq!(unseen.len(), 2, "{unseen:?}");
    assert!(
        unseen[0].starts_with("all answers of a0/ctl-0, a1/ctl-0 and"),
        "{unseen:?}"
    );
    assert!(
        unseen[1].starts_with("holders of 2 more leases"),
        "{unseen:?}"
    );
}

#[test]
fn w_46_where_no_pod_holds_the_lease_the_drivers_pods_are_asked() {
    let mut other = pod("storage", "other", "8090");
    other["spec"] = json!({"containers": [{"name": "x"}], "nodeName": "worker-1"});
    let mut host = other.clone();
    host["metadata"]["name"] = "on-host".into();
    host["spec"]["nodeName"] = "node.example".into();
    for (holder, expected) in [
        ("gone", &["storage/ctl-1:8090"][..]),
        ("", &["storage/ctl-1:8090"]),
        (
            "node-example",
            &["storage/ctl-1:8090", "storage/on-host:8090"],
        ),
    ] {
        let objects = [
            (Kind::Pod, pod("storage", "ctl-1", "8090")),
            (Kind::Pod, pod("aaa", "ctl-1", "8090")),
            (Kind::Pod, other.clone()),
            (Kind::Pod, host.clone()),
            (Kind::Lease, lease("storage", ATTACHER, holder, OLD)),
        ];
        let (ports, unseen, wants) = asked(&volume(), &objects, &[]);
        assert_eq!(ports, expected, "{holder}");
        assert_eq!(unseen, [""; 0], "{holder}");
        let everywhere = |want: &&Want| want.kind == Kind::Pod && want.namespace.is_none();
        assert_eq!(wants.iter().find(everywhere), None);
    }
}

#[test]
fn w_46_without_a_lease_the_namespace_of_the_drivers_daemonset_counts() {
    let paths = [
        "/var/lib/kubelet/plugins_registry",
        "/var/lib/kubelet/plugins/csi.example.com",
    ];
    let volumes = paths.map(|path| json!({"hostPath": {"path": path}}));
    let set = json!({
        "metadata": {"name": "node", "namespace": "storage"},
        "spec": {"template": {"spec": {"volumes": volumes}}},
    });
    let objects = [
        (Kind::Pod, pod("storage", "ctl-1", "8090")),
        (Kind::Pod, pod("aaa", "ctl-1", "8090")),
        (Kind::DaemonSet, set),
    ];
    let (ports, unseen, _) = asked(&volume(), &objects, &[]);
    assert_eq!(ports, ["storage/ctl-1:8090"]);
    assert_eq!(unseen, [""; 0]);
}

#[test]
fn w_46_snapshot_controller_is_found_by_its_own_lease() {
    let objects = [
        (Kind::Pod, pod("kube-system", "snap-0", "8090")),
        (Kind::Pod, pod("storage", "ctl-0", "8090")),
        (Kind::Lease, lease("storage", ATTACHER, "ctl-0", OLD)),
        (
            Kind::Lease,
            lease("kube-system", "snapshot-controller-leader", "snap-0", OLD),
        ),
    ];
    let snapshot = Ref::new(Kind::Snapshot, "shop", "snap");
    assert_eq!(
        asked(&snapshot, &objects, &[]).0,
        ["kube-system/snap-0:8090"]
    );
    assert_eq!(asked(&volume(), &objects, &[]).0, ["storage/ctl-0:8090"]);
}

/// A pod of snapshot-controller, and the workload that it belongs to.
fn snapshot_controller(namespace: &str, ports: &str, created: &str) -> [(Kind, Value); 2] {
    let container = json!({"name": "controller", "image": "example.com/snapshot-controller:v1"});
    let mut pod = pod(namespace, "snap-0", ports);
    pod["spec"] = json!({"containers": [container]});
    let workload = json!({
        "metadata": {"name": "snap", "namespace": namespace, "creationTimestamp": created},
        "spec": {"template": {"spec": {"containers": [container]}}},
    });
    [(Kind::Pod, pod), (Kind::Deployment, workload)]
}

#[test]
fn w_46_snapshot_controller_that_no_lease_names_is_found_beside_its_workload() {
    const LEASE: &str = "snapshot-controller-leader";
    let snapshot = Ref::new(Kind::Snapshot, "shop", "snap");
    let [strange, _] = snapshot_controller("aaa", "8090", OLD);
    for (case, lease) in [
        ("without leader election", None),
        (
            "once with it",
            Some(lease("kube-system", LEASE, "snap-9", OLD)),
        ),
        ("elsewhere, given back", Some(lease("old", LEASE, "", OLD))),
    ] {
        let mut objects = vec![
            // It runs no snapshot-controller.
            (Kind::Pod, pod("kube-system", "other", "8091")),
            strange.clone(),
        ];
        objects.extend(snapshot_controller("kube-system", "8090", OLD));
        objects.extend(lease.map(|lease| (Kind::Lease, lease)));
        let (ports, unseen, wants) = asked(&snapshot, &objects, &[]);
        assert_eq!(ports, ["kube-system/snap-0:8090"], "{case}");
        assert_eq!(unseen, [""; 0], "{case}");
        let everywhere = |want: &&Want| want.kind == Kind::Pod && want.namespace.is_none();
        assert_eq!(wants.iter().find(everywhere), None, "{case}");
        // It has no work for the volume of a driver.
        assert_eq!(asked(&volume(), &objects, &[]).0, [""; 0], "{case}");
    }
}

#[test]
fn w_46_the_oldest_workloads_of_snapshot_controller_come_first() {
    let mut objects = Vec::from(snapshot_controller("kube-system", "8090", OLD));
    for number in 0..9 {
        let namespace = format!("a{number}");
        objects.extend(snapshot_controller(&namespace, "1,2,3,4,5,6,7,8,9", NEW));
    }
    let snapshot = Ref::new(Kind::Snapshot, "shop", "snap");
    let (ports, unseen, wants) = asked(&snapshot, &objects, &[]);
    assert_eq!(
        ports.first().map(|port| &**port),
        Some("kube-system/snap-0:8090")
    );
    assert_eq!(ports.len(), ASKED);
    let more =
        "pods of snapshot-controller in 2 more namespaces: 8 namespaces with one are looked at";
    assert!(unseen.iter().any(|text| text == more), "{unseen:?}");
    let lists = wants.iter().filter(|want| want.kind == Kind::Pod);
    let lists: Vec<_> = lists.map(|want| want.namespace.as_deref()).collect();
    assert_eq!(lists.len(), NAMESPACES);
    assert!(!lists.contains(&None), "{lists:?}");
}

#[test]
fn w_25_w_46_what_may_not_be_read_is_named() {
    let objects = [(Kind::Lease, lease("storage", ATTACHER, "ctl-0", OLD))];
    let (ports, unseen, _) = asked(&volume(), &objects, &[Kind::Pod]);
    assert_eq!(ports, [""; 0]);
    assert_eq!(unseen, ["pod ctl-0 in storage: no permission"]);
}
