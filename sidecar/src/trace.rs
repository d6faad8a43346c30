//! Exports traces of the work on objects, by OpenTelemetry's conventions; off by default.
//!
//! | file | contents |
//! |---|---|
//! | `ids` | ids of traces and spans, and the sampler: pure |
//! | `settings` | settings from the environment: pure |
//! | `outcome` | the meaning of the collector's responses: pure |
//! | `text` | removes the values of headers from the collector's messages: pure |
//! | `subject` | the object and the work of an attempt, and its place in a trace: pure |
//! | `tracer` | makes the spans of one controller |
//! | `attempt` | the spans of an attempt, emitted when it ends |
//! | `memory` | a bounded map of earlier attempts: pure |
//! | `asked` | the calls and requests of an attempt |
//! | `export` | the queue, the batches, and their results |
//! | `connect` | the connection to the collector |
//!
//! The engine begins an attempt; the driver's channel and the API client add their spans below it. They find the
//! attempt in the task, which has none while traces are off. Reactors, plans and simulations only name the object of a
//! key: [`Subject`].

mod asked;
mod attempt;
mod connect;
mod export;
mod ids;
mod memory;
mod outcome;
pub mod settings;
mod subject;
mod text;
mod tracer;

pub(crate) use asked::{Asked, call, request};
pub use asked::{link, step};
pub(crate) use attempt::{Ending, Running, Traces, within};
pub use export::{Exporter, LAST_SPANS};
pub use ids::{Sampler, SpanId, TraceId};
pub use subject::{Goal, MOST_LINKS, Over, Subject, claim_of};
pub use tracer::Tracer;

use crate::flags::Values;
use crate::metrics::{RegisterError, Registry};
use crate::names;

/// The header that passes the caller's span on.
pub(crate) const TRACEPARENT: &str = "traceparent";

/// The flag that enables traces.
pub const FLAG: &str = "enable-otel-tracing";

/// Exports traces of this process, if flags and environment enable it. Logs problems of the environment as warnings.
///
/// # Errors
/// The registry already has the metrics of spans.
pub fn start(
    values: &Values,
    program: &str,
    version: &'static str,
    registry: &Registry,
) -> Result<Option<Exporter>, RegisterError> {
    if !values.has(FLAG) || !values.bool(FLAG) {
        return Ok(None);
    }
    let variable = |name: &str| std::env::var(name).ok();
    let pod = variable("POD_UID").filter(|uid| !uid.is_empty());
    let instance = pod.or_else(|| names::hostname().ok()).unwrap_or_default();
    let process = settings::Process {
        program,
        version,
        instance: &instance,
    };
    let environment = settings::read(&process, variable);
    let silent = environment.warnings.is_empty();
    for warning in environment.warnings {
        tracing::warn!("{warning}");
    }
    let Some(settings) = environment.settings else {
        if silent {
            tracing::info!("The environment switches traces off");
        }
        return Ok(None);
    };
    tracing::info!(endpoint = %settings.endpoint, sampler = ?settings.sampler, "Exporting traces");
    Exporter::start(settings, version, registry).map(Some)
}
