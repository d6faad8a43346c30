//! The rows of `tracing`: O-31.

use super::Expect::{Absent, Has, Is, Lacks};
use super::table::{CONTROLLER, EVERYTHING, MINIMAL, NODE, ON_NODES, SET};
use super::{Row, row};

const TRACED: &[&str] = &[
    "tracing.enabled=true",
    "tracing.endpoint=http://collector.monitoring:4317",
    "tracing.samplingRatio=1",
    "tracing.headersSecret.name=collector",
    "healthMonitor.enabled=true",
    "networkPolicy.enabled=true",
    "networkPolicy.egress.restricted=true",
];
const TRACED_HERE: &[&str] = &[
    "tracing.enabled=true",
    "networkPolicy.enabled=true",
    "networkPolicy.egress.restricted=true",
];
const TRACED_BUT_FOR: &[&str] = &[
    "tracing.enabled=true",
    "tracing.endpoint=https://collector:14317/",
    "attacher.env[0].name=OTEL_EXPORTER_OTLP_ENDPOINT",
    "attacher.env[0].value=http://another:4317",
];
const TRACED_TOGETHER: &[&str] = &[
    "tracing.enabled=true",
    "tracing.endpoint=http://collector:4317",
    "sidecars=together",
];
const NOTHING_TO_TRACE: &[&str] = &[
    "tracing.enabled=true",
    "tracing.endpoint=http://collector:4317",
    "sidecars=together",
    "healthMonitor.enabled=true",
    "attacher.enabled=false",
    "provisioner.enabled=false",
];
/// Upstream's images where there are no traces anyway.
const TRACED_BESIDE: &[&str] = &[
    "tracing.enabled=true",
    "livenessprobe.image=registry.k8s.io/sig-storage/livenessprobe:v2.19.0",
    "resizer.image=registry.k8s.io/sig-storage/csi-resizer:v2.3.0",
    "attacher.repository=mirror.example.com/storage/csi-attacher",
];
const DESCRIBED: &[&str] = &["tracing.endpoint=http://collector:4317"];

macro_rules! under {
    ($base:literal, $rest:literal) => {
        concat!("/spec/template/spec/containers/[", $base, "]", $rest)
    };
}

#[rustfmt::skip]
pub(super) const TABLE: &[Row] = &[
    row(MINIMAL, DESCRIBED, CONTROLLER, under!("csi-attacher", "/args"), Lacks("--enable-otel-tracing")),
    row(MINIMAL, DESCRIBED, CONTROLLER, under!("csi-attacher", "/env"), Absent),
    row(MINIMAL, TRACED, CONTROLLER, under!("csi-attacher", "/args"), Has("--enable-otel-tracing=true")),
    row(MINIMAL, TRACED, CONTROLLER, under!("csi-provisioner", "/args"), Has("--enable-otel-tracing=true")),
    row(MINIMAL, TRACED, CONTROLLER, under!("csi-attacher", "/env"), Is(r#"[
        {"name": "POD_UID", "valueFrom": {"fieldRef": {"fieldPath": "metadata.uid"}}},
        {"name": "OTEL_EXPORTER_OTLP_ENDPOINT", "value": "http://collector.monitoring:4317"},
        {"name": "OTEL_TRACES_SAMPLER", "value": "traceidratio"},
        {"name": "OTEL_TRACES_SAMPLER_ARG", "value": "1"},
        {"name": "OTEL_EXPORTER_OTLP_HEADERS", "valueFrom": {"secretKeyRef": {"name": "collector", "key": "headers"}}}
    ]"#)),
    row(EVERYTHING, &[], SET, under!("csi-resizer", "/env/[OTEL_TRACES_SAMPLER_ARG]/value"), Is(r#""0.1""#)),
    row(EVERYTHING, &[], SET, under!("csi-snapshotter", "/env/[OTEL_EXPORTER_OTLP_HEADERS]/valueFrom/secretKeyRef/key"), Is(r#""otlp""#)),
    row(EVERYTHING, &[], "NetworkPolicy/everything-controller", "/spec/egress/2/ports", Is(r#"[{"port": 4317, "protocol": "TCP"}]"#)),
    row(MINIMAL, TRACED, CONTROLLER, under!("csi-external-health-monitor-controller", "/args"), Lacks("--enable-otel-tracing")),
    row(MINIMAL, TRACED, CONTROLLER, under!("csi-external-health-monitor-controller", "/env"), Absent),
    row(MINIMAL, TRACED, CONTROLLER, under!("livenessprobe", "/args"), Lacks("--enable-otel-tracing")),
    row(MINIMAL, TRACED, NODE, under!("csi-node-driver-registrar", "/args"), Lacks("--enable-otel-tracing")),
    row(MINIMAL, TRACED, "NetworkPolicy/test-csi-sidecars-controller", "/spec/egress/1/ports", Is(r#"[{"port": 4317, "protocol": "TCP"}]"#)),
    row(MINIMAL, TRACED, "NetworkPolicy/test-csi-sidecars-node", "/spec/egress/1", Absent),
    row(ON_NODES, TRACED, "NetworkPolicy/test-csi-sidecars-node", "/spec/egress/1/ports", Is(r#"[{"port": 4317, "protocol": "TCP"}]"#)),
    row(ON_NODES, TRACED, NODE, under!("csi-provisioner", "/env/[OTEL_EXPORTER_OTLP_ENDPOINT]/value"), Is(r#""http://collector.monitoring:4317""#)),
    row(MINIMAL, TRACED_HERE, CONTROLLER, under!("csi-attacher", "/env"), Is(r#"[{"name": "POD_UID", "valueFrom": {"fieldRef": {"fieldPath": "metadata.uid"}}}]"#)),
    row(MINIMAL, TRACED_HERE, "NetworkPolicy/test-csi-sidecars-controller", "/spec/egress/1", Absent),
    row(MINIMAL, TRACED_BUT_FOR, CONTROLLER, under!("csi-attacher", "/env/1"), Is(r#"{"name": "OTEL_EXPORTER_OTLP_ENDPOINT", "value": "http://another:4317"}"#)),
    row(MINIMAL, TRACED_BUT_FOR, CONTROLLER, under!("csi-attacher", "/env/2"), Absent),
    row(MINIMAL, TRACED_BUT_FOR, CONTROLLER, under!("csi-provisioner", "/env/[OTEL_EXPORTER_OTLP_ENDPOINT]/value"), Is(r#""https://collector:14317/""#)),
    row(MINIMAL, TRACED_BESIDE, CONTROLLER, under!("csi-attacher", "/args"), Has("--enable-otel-tracing=true")),
    row(MINIMAL, TRACED_TOGETHER, CONTROLLER, under!("csi-sidecars", "/args"), Has("--enable-otel-tracing=true")),
    row(MINIMAL, TRACED_TOGETHER, CONTROLLER, under!("csi-sidecars", "/env/[OTEL_EXPORTER_OTLP_ENDPOINT]/value"), Is(r#""http://collector:4317""#)),
    row(MINIMAL, TRACED_TOGETHER, NODE, under!("csi-node-sidecars", "/args"), Lacks("--enable-otel-tracing")),
    row(MINIMAL, NOTHING_TO_TRACE, CONTROLLER, under!("csi-sidecars", "/args"), Lacks("--enable-otel-tracing")),
    row(MINIMAL, NOTHING_TO_TRACE, CONTROLLER, under!("csi-sidecars", "/env"), Absent),
];
