//! The rows of `metrics.secure`: O-59.

use super::Expect::{Absent, Has, Is, Lacks};
use super::table::{CONTROLLER, MINIMAL, NODE, ON_NODES};
use super::{Row, row};

const SECURE: &[&str] = &[
    "metrics.secure.enabled=true",
    "metrics.serviceMonitor.enabled=true",
    "networkPolicy.enabled=true",
    "networkPolicy.metricsFrom[0].podSelector.matchLabels.app=prometheus",
];
const SECURE_ISSUED: &[&str] = &[
    "metrics.secure.enabled=true",
    "metrics.secure.certManager.issuer.name=ca",
    "metrics.secure.clientCaKey=ca.crt",
];
const SECURE_OPENSHIFT: &[&str] = &[
    "metrics.secure.enabled=true",
    "metrics.secure.openshift=true",
];
const SECURE_OPENSHIFT_MONITORED: &[&str] = &[
    "metrics.secure.enabled=true",
    "metrics.secure.openshift=true",
    "metrics.serviceMonitor.enabled=true",
];
const SECURE_TOGETHER: &[&str] = &["metrics.secure.enabled=true", "sidecars=together"];

#[rustfmt::skip]
pub(super) const TABLE: &[Row] = &[
    row(MINIMAL, &[], "ClusterRoleBinding/storage:test-csi-sidecars-auth-delegator", "", Absent),
    row(MINIMAL, &[], "ClusterRole/storage:test-csi-sidecars-metrics-reader", "", Absent),
    row(MINIMAL, SECURE, CONTROLLER, "/spec/template/spec/containers/[csi-attacher]/args", Has("--secure-http-endpoint=:8081")),
    row(MINIMAL, SECURE, CONTROLLER, "/spec/template/spec/containers/[csi-attacher]/args", Has("--tls-cert-file=/metrics-tls/tls.crt")),
    row(MINIMAL, SECURE, CONTROLLER, "/spec/template/spec/containers/[csi-attacher]/args", Has("--tls-private-key-file=/metrics-tls/tls.key")),
    row(MINIMAL, SECURE, CONTROLLER, "/spec/template/spec/containers/[csi-attacher]/args", Lacks("--http-endpoint=:8081")),
    row(MINIMAL, SECURE, CONTROLLER, "/spec/template/spec/containers/[csi-attacher]/livenessProbe/httpGet/scheme", Is(r#""HTTPS""#)),
    row(MINIMAL, SECURE, CONTROLLER, "/spec/template/spec/containers/[livenessprobe]/args", Has("--http-endpoint=:9808")),
    row(MINIMAL, SECURE, CONTROLLER, "/spec/template/spec/volumes/[metrics-tls]/secret/secretName", Is(r#""test-csi-sidecars-metrics-tls""#)),
    row(MINIMAL, SECURE, NODE, "/spec/template/spec/volumes/[metrics-tls]", Absent),
    row(MINIMAL, SECURE, "ClusterRoleBinding/storage:test-csi-sidecars-auth-delegator", "/roleRef/name", Is(r#""system:auth-delegator""#)),
    row(MINIMAL, SECURE, "ClusterRoleBinding/storage:test-csi-sidecars-auth-delegator", "/subjects", Is(r#"[{"kind":"ServiceAccount","name":"test-csi-sidecars-controller","namespace":"storage"}]"#)),
    row(MINIMAL, SECURE, "ClusterRole/storage:test-csi-sidecars-metrics-reader", "/rules", Is(r#"[{"nonResourceURLs":["/metrics"],"verbs":["get"]}]"#)),
    row(MINIMAL, SECURE, "ClusterRoleBinding/storage:test-csi-sidecars-metrics-reader", "", Absent),
    row(MINIMAL, SECURE, "ServiceMonitor/test-csi-sidecars", "/spec/endpoints/0/scheme", Is(r#""https""#)),
    row(MINIMAL, SECURE, "ServiceMonitor/test-csi-sidecars", "/spec/endpoints/0/tlsConfig/serverName", Is(r#""test-csi-sidecars-controller.storage.svc""#)),
    row(MINIMAL, SECURE, "ServiceMonitor/test-csi-sidecars", "/spec/endpoints/1/scheme", Absent),
    row(MINIMAL, SECURE, "NetworkPolicy/test-csi-sidecars-controller", "/spec/ingress/0/ports", Is(r#"[{"port":8081,"protocol":"TCP"},{"port":8082,"protocol":"TCP"},{"port":9808,"protocol":"TCP"},{"port":9809,"protocol":"TCP"}]"#)),
    row(MINIMAL, SECURE_ISSUED, "Certificate/test-csi-sidecars-metrics-tls", "/spec/issuerRef/name", Is(r#""ca""#)),
    row(MINIMAL, SECURE_ISSUED, CONTROLLER, "/spec/template/spec/containers/[csi-provisioner]/args", Has("--client-ca-file=/metrics-tls/ca.crt")),
    row(MINIMAL, SECURE_OPENSHIFT, "Service/test-csi-sidecars-controller", "/metadata/annotations/service.beta.openshift.io~1serving-cert-secret-name", Is(r#""test-csi-sidecars-metrics-tls""#)),
    row(MINIMAL, SECURE_OPENSHIFT_MONITORED, "ServiceMonitor/test-csi-sidecars", "/spec/endpoints/0/tlsConfig/ca", Is(r#"{"configMap":{"key":"service-ca.crt","name":"openshift-service-ca.crt"}}"#)),
    row(MINIMAL, SECURE, "ServiceMonitor/test-csi-sidecars", "/spec/endpoints/0/tlsConfig/ca", Is(r#"{"secret":{"key":"ca.crt","name":"test-csi-sidecars-metrics-tls"}}"#)),
    row(MINIMAL, SECURE_TOGETHER, CONTROLLER, "/spec/template/spec/containers/[csi-sidecars]/ports/0/name", Is(r#""https-metrics""#)),
    row(MINIMAL, SECURE_TOGETHER, CONTROLLER, "/spec/template/spec/containers/[csi-sidecars]/livenessProbe/httpGet/scheme", Is(r#""HTTPS""#)),
    row(MINIMAL, SECURE_TOGETHER, NODE, "/spec/template/spec/containers/[csi-node-sidecars]/args", Has("--http-endpoint=:9808")),
    row(ON_NODES, SECURE, NODE, "/spec/template/spec/containers/[csi-provisioner]/args", Has("--tls-cert-file=/metrics-tls/tls.crt")),
];
