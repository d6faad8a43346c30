//! The rows of `why.endpoint`: W-67.

use super::Expect::{Absent, Has, Is, Lacks};
use super::table::{CONTROLLER, MINIMAL};
use super::{Row, row};

const ANSWERING: &[&str] = &["why.endpoint.port=8095", "healthMonitor.enabled=true"];
const TOGETHER: &[&str] = &["why.endpoint.port=8095", "sidecars=together"];
const SILENT: &[&str] = &["why.role.create=true"];

macro_rules! under {
    ($base:literal, $rest:literal) => {
        concat!("/spec/template/spec/containers/[", $base, "]", $rest)
    };
}

const ANNOTATION: &str = "/spec/template/metadata/annotations";

#[rustfmt::skip]
pub(super) const TABLE: &[Row] = &[
    row(MINIMAL, SILENT, CONTROLLER, ANNOTATION, Absent),
    row(MINIMAL, SILENT, CONTROLLER, under!("csi-attacher", "/args"), Lacks("--why-endpoint")),
    row(MINIMAL, ANSWERING, CONTROLLER, under!("csi-attacher", "/args"), Has("--why-endpoint=localhost:8095")),
    row(MINIMAL, ANSWERING, CONTROLLER, under!("csi-provisioner", "/args"), Has("--why-endpoint=localhost:8096")),
    row(MINIMAL, ANSWERING, CONTROLLER, under!("csi-external-health-monitor-controller", "/args"), Has("--why-endpoint=localhost:8099")),
    row(MINIMAL, ANSWERING, CONTROLLER, ANNOTATION, Is(r#"{"csi-sidecars.io/why": "8095,8096,8099"}"#)),
    row(MINIMAL, TOGETHER, CONTROLLER, under!("csi-sidecars", "/args"), Has("--why-endpoint=localhost:8095")),
    row(MINIMAL, TOGETHER, CONTROLLER, ANNOTATION, Is(r#"{"csi-sidecars.io/why": "8095"}"#)),
];
