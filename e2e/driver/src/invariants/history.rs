//! Calls as time spans, and what a caller may conclude from their end.

use std::collections::BTreeMap;

use sidecar::rpc_code::{Finality, finality};

use crate::instrument::record::Call;
use crate::instrument::rules::CodeName;

/// The caller's knowledge after a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Known {
    /// The driver returned OK, and the caller received it.
    Done,
    /// The driver returned a final error.
    Failed,
    /// No response, or one after which the operation may still be running.
    InDoubt,
}

/// The caller's knowledge after this call.
pub(super) fn known(call: &Call) -> Known {
    let code = call
        .code
        .clone()
        .and_then(|name| CodeName::try_from(name).ok());
    match code {
        Some(_) if call.caller_gone => Known::InDoubt,
        Some(CodeName(tonic::Code::Ok)) => Known::Done,
        Some(CodeName(code)) if finality(code) != Finality::InDoubt => Known::Failed,
        Some(_) | None => Known::InDoubt,
    }
}

/// A call and its duration, from the caller's point of view.
#[derive(Debug, Clone, Copy)]
pub(super) struct Span<'a> {
    pub(super) call: &'a Call,
    pub(super) end: u64,
}

/// The spans, sorted by their start. A call that the driver's death has cut off ends at the
/// driver's last known time.
pub(super) fn spans(calls: &[Call]) -> Vec<Span<'_>> {
    let mut last: BTreeMap<&str, u64> = BTreeMap::new();
    for call in calls {
        let latest = last.entry(&call.instance).or_default();
        *latest = (*latest).max(call.end_ns.unwrap_or(call.start_ns));
    }
    let end = |call: &Call| {
        call.end_ns
            .or_else(|| last.get(call.instance.as_str()).copied())
            .unwrap_or(call.start_ns)
    };
    let mut spans: Vec<Span<'_>> = calls
        .iter()
        .map(|call| Span {
            call,
            end: end(call),
        })
        .collect();
    spans.sort_by_key(|span| (span.call.start_ns, span.call.seq));
    spans
}

/// The start or the end of a call.
#[derive(Debug, Clone, Copy)]
pub(super) enum Event<'a> {
    Start(&'a Call),
    End(&'a Call),
}

/// Starts and ends in the order in which they happened; at the same time, an end comes first.
pub(super) fn events(calls: &[Call]) -> Vec<Event<'_>> {
    let mut events: Vec<(u64, u8, Event<'_>)> = Vec::new();
    for span in spans(calls) {
        let call = span.call;
        events.push((call.start_ns, 1, Event::Start(call)));
        // A call that ends at its start must not end before.
        let order = if span.end == call.start_ns { 2 } else { 0 };
        events.push((span.end, order, Event::End(call)));
    }
    events.sort_by_key(|(time, order, _)| (*time, *order));
    events.into_iter().map(|(_, _, event)| event).collect()
}
