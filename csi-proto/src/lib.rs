//! Messages, clients and servers of CSI 1.13 (`csi.v1`), of the kubelet's plugin registration, of csi-snapshot-metadata
//! for its clients, of gRPC's health check, of OpenTelemetry's traces, and of the volume condition of older CSI.
//!
//! `cargo run -p csi-codegen` generates the code in `gen` from the files in `proto`. Drivers built on CSI 1.0 to 1.12
//! are understood: whatever they send beyond 1.13 decodes as unknown field or unknown enum number.

pub mod otlp;
pub mod sanitize;

/// CSI, package `csi.v1`.
#[allow(
    clippy::all,
    clippy::allow_attributes_without_reason,
    clippy::too_many_lines,
    missing_docs,
    unreachable_pub,
    unused_qualifications,
    reason = "generated"
)]
#[rustfmt::skip]
pub mod csi {
    include!("gen/csi.v1.rs");
}

/// Kubelet plugin registration, package `pluginregistration` (its version 1 is not in the name).
#[allow(
    clippy::all,
    clippy::allow_attributes_without_reason,
    clippy::too_many_lines,
    missing_docs,
    unreachable_pub,
    unused_qualifications,
    reason = "generated"
)]
#[rustfmt::skip]
pub mod registration {
    include!("gen/pluginregistration.rs");
}

/// The service of csi-snapshot-metadata, package `snapshotmetadata`.
#[allow(
    clippy::all,
    clippy::allow_attributes_without_reason,
    clippy::too_many_lines,
    missing_docs,
    unreachable_pub,
    unused_qualifications,
    reason = "generated"
)]
#[rustfmt::skip]
pub mod snapshot_metadata {
    include!("gen/snapshotmetadata.rs");
}

/// The volume condition of older drivers, package `volumecondition`; its service has the path of `csi.v1.Controller`.
#[allow(
    clippy::all,
    clippy::allow_attributes_without_reason,
    clippy::too_many_lines,
    missing_docs,
    unreachable_pub,
    unused_qualifications,
    reason = "generated"
)]
#[rustfmt::skip]
pub mod volume_condition {
    include!("gen/volumecondition.rs");
}

/// gRPC's health check, package `grpc.health.v1`.
#[allow(
    clippy::all,
    clippy::allow_attributes_without_reason,
    clippy::too_many_lines,
    missing_docs,
    unreachable_pub,
    unused_qualifications,
    reason = "generated"
)]
#[rustfmt::skip]
pub mod health {
    include!("gen/grpc.health.v1.rs");
}
