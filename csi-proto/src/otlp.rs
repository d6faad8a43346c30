//! OpenTelemetry's protocol (OTLP 1.10), as far as traces need it: its trace service and the messages of that service.
//!
//! Written by hand: these messages are a sixth of the published files, and no crate of OpenTelemetry is linked. Numbers
//! and types are those of `opentelemetry/proto/{trace,common,resource,collector/trace}/v1`. Fields that are never set
//! here are left out; decoders take absent fields for empty.

use prost::Message;

pub use prost_types::{Any, Duration};

/// Request of one export.
#[derive(Clone, PartialEq, Message)]
pub struct ExportTraceServiceRequest {
    /// Spans by the resource that made them.
    #[prost(message, repeated, tag = "1")]
    pub resource_spans: Vec<ResourceSpans>,
}

/// Response to an export.
#[derive(Clone, PartialEq, Message)]
pub struct ExportTraceServiceResponse {
    /// Rejected spans, or a warning.
    #[prost(message, optional, tag = "1")]
    pub partial_success: Option<ExportTracePartialSuccess>,
}

/// The part of an export that was rejected.
#[derive(Clone, PartialEq, Message)]
pub struct ExportTracePartialSuccess {
    /// Number of rejected spans.
    #[prost(int64, tag = "1")]
    pub rejected_spans: i64,
    /// The reason, or a warning if the number is 0.
    #[prost(string, tag = "2")]
    pub error_message: String,
}

/// The spans of one process.
#[derive(Clone, PartialEq, Message)]
pub struct ResourceSpans {
    /// The process.
    #[prost(message, optional, tag = "1")]
    pub resource: Option<Resource>,
    /// Spans of the process, by scope.
    #[prost(message, repeated, tag = "2")]
    pub scope_spans: Vec<ScopeSpans>,
}

/// A process that makes spans.
#[derive(Clone, PartialEq, Message)]
pub struct Resource {
    /// Attributes of the process.
    #[prost(message, repeated, tag = "1")]
    pub attributes: Vec<KeyValue>,
}

/// The spans of one scope of a process.
#[derive(Clone, PartialEq, Message)]
pub struct ScopeSpans {
    /// The scope.
    #[prost(message, optional, tag = "1")]
    pub scope: Option<InstrumentationScope>,
    /// Spans of the scope.
    #[prost(message, repeated, tag = "2")]
    pub spans: Vec<Span>,
}

/// A part of a process.
#[derive(Clone, PartialEq, Message)]
pub struct InstrumentationScope {
    /// Name of the scope.
    #[prost(string, tag = "1")]
    pub name: String,
    /// Version of the scope.
    #[prost(string, tag = "2")]
    pub version: String,
}

/// One span.
#[derive(Clone, PartialEq, Message)]
pub struct Span {
    /// 16 bytes.
    #[prost(bytes = "vec", tag = "1")]
    pub trace_id: Vec<u8>,
    /// 8 bytes.
    #[prost(bytes = "vec", tag = "2")]
    pub span_id: Vec<u8>,
    /// 8 bytes; none for a root.
    #[prost(bytes = "vec", tag = "4")]
    pub parent_span_id: Vec<u8>,
    /// Name of the operation.
    #[prost(string, tag = "5")]
    pub name: String,
    /// Side of the call.
    #[prost(enumeration = "SpanKind", tag = "6")]
    pub kind: i32,
    /// Nanoseconds since 1970.
    #[prost(fixed64, tag = "7")]
    pub start_time_unix_nano: u64,
    /// Nanoseconds since 1970.
    #[prost(fixed64, tag = "8")]
    pub end_time_unix_nano: u64,
    /// Attributes of the span.
    #[prost(message, repeated, tag = "9")]
    pub attributes: Vec<KeyValue>,
    /// Related spans of other traces.
    #[prost(message, repeated, tag = "13")]
    pub links: Vec<Link>,
    /// Result of the operation.
    #[prost(message, optional, tag = "15")]
    pub status: Option<Status>,
    /// The W3C flags of the trace.
    #[prost(fixed32, tag = "16")]
    pub flags: u32,
}

/// The side of a call that a span stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum SpanKind {
    /// The kind is not specified.
    Unspecified = 0,
    /// An operation within the process, not a call.
    Internal = 1,
    /// The called side.
    Server = 2,
    /// The calling side.
    Client = 3,
}

/// A span of another trace.
#[derive(Clone, PartialEq, Message)]
pub struct Link {
    /// 16 bytes.
    #[prost(bytes = "vec", tag = "1")]
    pub trace_id: Vec<u8>,
    /// 8 bytes.
    #[prost(bytes = "vec", tag = "2")]
    pub span_id: Vec<u8>,
}

/// Result of a span.
#[derive(Clone, PartialEq, Message)]
pub struct Status {
    /// Error message.
    #[prost(string, tag = "2")]
    pub message: String,
    /// Whether the operation failed.
    #[prost(enumeration = "StatusCode", tag = "3")]
    pub code: i32,
}

/// Whether the operation failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum StatusCode {
    /// The status is not set.
    Unset = 0,
    /// Marked as successful.
    Ok = 1,
    /// The operation failed.
    Error = 2,
}

/// An attribute.
#[derive(Clone, PartialEq, Message)]
pub struct KeyValue {
    /// Key of the attribute.
    #[prost(string, tag = "1")]
    pub key: String,
    /// Value of the attribute.
    #[prost(message, optional, tag = "2")]
    pub value: Option<AnyValue>,
}

/// The value of an attribute.
#[derive(Clone, PartialEq, Message)]
pub struct AnyValue {
    /// A value of one type.
    #[prost(oneof = "Value", tags = "1, 2, 3")]
    pub value: Option<Value>,
}

/// The types of values that are used here.
#[derive(Clone, PartialEq, prost::Oneof)]
pub enum Value {
    /// A text value.
    #[prost(string, tag = "1")]
    String(String),
    /// Yes or no.
    #[prost(bool, tag = "2")]
    Bool(bool),
    /// A number.
    #[prost(int64, tag = "3")]
    Int(i64),
}

/// `google.rpc.Status`, as far as it is read: details that a server adds to the status of a call.
#[derive(Clone, PartialEq, Message)]
pub struct RichStatus {
    /// The details.
    #[prost(message, repeated, tag = "3")]
    pub details: Vec<Any>,
}

/// `google.rpc.RetryInfo`: when the caller may retry.
#[derive(Clone, PartialEq, Message)]
pub struct RetryInfo {
    /// After this delay.
    #[prost(message, optional, tag = "1")]
    pub retry_delay: Option<Duration>,
}

/// The type of [`RetryInfo`] among the details.
pub const RETRY_INFO: &str = "type.googleapis.com/google.rpc.RetryInfo";

/// The path of the only method of the trace service.
pub const EXPORT: &str = "/opentelemetry.proto.collector.trace.v1.TraceService/Export";

/// Exports through `service`.
///
/// # Errors
/// The collector's status, or `Unavailable` if it cannot be reached.
#[cfg(feature = "client")]
pub async fn export<T>(
    service: T,
    request: tonic::Request<ExportTraceServiceRequest>,
) -> Result<ExportTraceServiceResponse, tonic::Status>
where
    T: tonic::client::GrpcService<tonic::body::Body>,
    T::ResponseBody: tonic::codegen::Body<Data = tonic::codegen::Bytes> + Send + 'static,
    <T::ResponseBody as tonic::codegen::Body>::Error: Into<tonic::codegen::StdError> + Send,
{
    let mut client = tonic::client::Grpc::new(service);
    client.ready().await.map_err(|error| {
        let error: tonic::codegen::StdError = error.into();
        tonic::Status::from_error(error)
    })?;
    let path = tonic::codegen::http::uri::PathAndQuery::from_static(EXPORT);
    let codec = tonic_prost::ProstCodec::default();
    Ok(client.unary(request, path, codec).await?.into_inner())
}
