//! The rows of csi-external-health-monitor-controller.

use super::Expect::{Absent, Has, Is, Lacks};
use super::table::{CONTROLLER, MINIMAL};
use super::{Row, row};

const MONITORED: &[&str] = &["healthMonitor.enabled=true"];
const HEALTH: &[&str] = &["healthMonitor.enabled=true", "features.volumeHealth=true"];
const ADJUSTED: &[&str] = &[
    "healthMonitor.enabled=true",
    "healthMonitor.interval=2m",
    "healthMonitor.listVolumesInterval=10m",
    "healthMonitor.workerThreads=3",
    "healthMonitor.timeout=20s",
    "healthMonitor.port=null",
];
const OBSERVED: &[&str] = &[
    "healthMonitor.enabled=true",
    "nameSuffix=fss",
    "metrics.service=true",
    "metrics.secure.enabled=true",
    "networkPolicy.enabled=true",
    "networkPolicy.metricsFrom[0].podSelector.matchLabels.app=prometheus",
];
const TOGETHER: &[&str] = &[
    "sidecars=together",
    "healthMonitor.enabled=true",
    "healthMonitor.interval=2m",
    "attacher.enabled=false",
    "provisioner.enabled=false",
];
const TESTED: &[&str] = &[
    "test.image=busybox:1",
    "healthMonitor.enabled=true",
    "healthMonitor.image=registry.k8s.io/sig-storage/csi-external-health-monitor-controller:v0.18.0",
];

macro_rules! monitor {
    ($rest:literal) => {
        concat!(
            "/spec/template/spec/containers/[csi-external-health-monitor-controller]",
            $rest
        )
    };
}

#[rustfmt::skip]
pub(super) const TABLE: &[Row] = &[
    row(MINIMAL, &[], CONTROLLER, monitor!(""), Absent),
    row(MINIMAL, &[], "ClusterRole/storage:test-csi-sidecars-health-monitor", "", Absent),
    row(MINIMAL, MONITORED, CONTROLLER, monitor!("/image"), Is(r#""registry.example.com/storage/csi-external-health-monitor-controller:0.1.0""#)),
    row(MINIMAL, MONITORED, CONTROLLER, monitor!("/args"), Is(r#"["--csi-address=/csi/csi.sock", "--v=2", "--leader-election=true", "--http-endpoint=:8085"]"#)),
    row(MINIMAL, MONITORED, CONTROLLER, monitor!("/livenessProbe/httpGet"), Is(r#"{"path": "/healthz/leader-election", "port": "monitor"}"#)),
    row(MINIMAL, MONITORED, CONTROLLER, monitor!("/volumeMounts/1/name"), Is(r#""api-token""#)),
    row(MINIMAL, ADJUSTED, CONTROLLER, monitor!("/args"), Has("--monitor-interval=2m")),
    row(MINIMAL, ADJUSTED, CONTROLLER, monitor!("/args"), Has("--list-volumes-interval=10m")),
    row(MINIMAL, ADJUSTED, CONTROLLER, monitor!("/args"), Has("--worker-threads=3")),
    row(MINIMAL, ADJUSTED, CONTROLLER, monitor!("/args"), Has("--timeout=20s")),
    row(MINIMAL, ADJUSTED, CONTROLLER, monitor!("/args"), Lacks("--http-endpoint")),
    row(MINIMAL, ADJUSTED, CONTROLLER, monitor!("/livenessProbe"), Absent),
    row(MINIMAL, HEALTH, "ClusterRole/storage:test-csi-sidecars-health-monitor", "/rules/1", Is(r#"{"apiGroups": [""], "resources": ["persistentvolumeclaims/status"], "verbs": ["patch"]}"#)),
    row(MINIMAL, HEALTH, "ClusterRole/storage:test-csi-sidecars-health-monitor", "/rules/2", Absent),
    row(MINIMAL, HEALTH, "Role/test-csi-sidecars-health-monitor", "/rules/2", Is(r#"{"apiGroups": [""], "resources": ["events"], "verbs": ["create"]}"#)),
    row(MINIMAL, MONITORED, "Role/test-csi-sidecars-health-monitor", "/rules/2", Absent),
    row(MINIMAL, HEALTH, "Role/test-csi-sidecars-health-monitor", "/rules/1/resourceNames", Is(r#"["external-health-monitor-leader-minimal-example-com"]"#)),
    row(MINIMAL, OBSERVED, CONTROLLER, "/spec/template/spec/containers/[csi-external-health-monitor-controller-fss]/ports/0/name", Is(r#""monitor-fss""#)),
    row(MINIMAL, OBSERVED, CONTROLLER, "/spec/template/spec/containers/[csi-external-health-monitor-controller-fss]/args", Has("--secure-http-endpoint=:8085")),
    row(MINIMAL, OBSERVED, "Service/test-csi-sidecars-controller", "/spec/ports/[monitor-fss]/port", Is("8085")),
    row(MINIMAL, OBSERVED, "NetworkPolicy/test-csi-sidecars-controller", "/spec/ingress/0/ports/1", Is(r#"{"port": 8085, "protocol": "TCP"}"#)),
    row(MINIMAL, TOGETHER, CONTROLLER, "/spec/template/spec/containers/[csi-sidecars]/args/0", Is(r#""--controllers=health-monitor,livenessprobe""#)),
    row(MINIMAL, TOGETHER, CONTROLLER, "/spec/template/spec/containers/[csi-sidecars]/args", Has("--health-monitor-monitor-interval=2m")),
    row(MINIMAL, TESTED, "Pod/test-csi-sidecars-test", "/spec/containers/[controller-monitor]/command/6", Is(r#""http://test-csi-sidecars-controller-test:8085/metrics""#)),
];

/// Like the permissions table of the other programs. The effect of `features.volumeHealth` is in [`TABLE`].
#[rustfmt::skip]
pub(super) const PERMISSIONS: &[(&[&str], &str, &[&str])] = &[
    (&["controller.leaderElection.enabled=true"], "healthMonitor", &[
        "create leases.coordination.k8s.io in storage",
        "get leases.coordination.k8s.io external-health-monitor-leader-my-example-com in storage",
        "update leases.coordination.k8s.io external-health-monitor-leader-my-example-com in storage",
    ]),
    (&["secrets.access=all"], "healthMonitor", &[]),
];

/// Its permissions with all of these features off.
#[rustfmt::skip]
pub(super) const ALWAYS: &[(&str, &[&str])] = &[
    ("healthMonitor", &[
        "list persistentvolumes", "watch persistentvolumes",
        "list persistentvolumeclaims", "watch persistentvolumeclaims",
        "list events", "create events", "patch events",
    ]),
];
