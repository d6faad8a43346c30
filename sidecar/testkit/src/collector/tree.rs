//! A trace as a tree, for people.

use std::cmp::Reverse;
use std::collections::HashSet;

use super::Received;

/// The lines of the trace with this id: each span below its parent, in order of their beginnings, with the time since
/// the trace began, the span's duration, and the program where it changes.
///
/// Spans of other traces that link to a span follow it, after an arrow.
#[must_use]
pub fn tree(spans: &[Received], trace: &str) -> Vec<String> {
    let mut ours: Vec<_> = spans.iter().filter(|one| one.trace() == trace).collect();
    // What contains another span begins with it and ends later.
    ours.sort_by_key(|one| {
        (
            one.span.start_time_unix_nano,
            Reverse(one.span.end_time_unix_nano),
        )
    });
    let begun = ours.first().map_or(0, |one| one.span.start_time_unix_nano);
    let known: HashSet<_> = ours.iter().map(|one| one.id()).collect();
    let mut tree = Tree {
        spans,
        begun,
        told: HashSet::new(),
        lines: Vec::new(),
    };
    for top in ours.iter().filter(|one| !known.contains(&one.parent())) {
        tree.tell(&ours, top, 0, "");
    }
    tree.lines
}

struct Tree<'a> {
    spans: &'a [Received],
    /// When the trace began.
    begun: u64,
    /// Ids of spans that have a line: two processes may tell the same one.
    told: HashSet<String>,
    lines: Vec<String>,
}

impl Tree<'_> {
    /// Writes a span and those below it; `above` is the program of the line above.
    fn tell(&mut self, ours: &[&Received], span: &Received, depth: usize, above: &str) {
        let id = span.id();
        if !self.told.insert(id.clone()) {
            return;
        }
        let program = span.program();
        let is_first = program != above;
        let text = label(span, if is_first { NAMED } else { NUMBERED });
        let indent = 2 * depth;
        let program_shown = if is_first {
            format!("  [{program}]")
        } else {
            String::new()
        };
        self.line(span, &format!("{:indent$}{text}{program_shown}", ""));
        for other in self.spans {
            let is_linked = other.links().contains(&(span.trace(), id.clone()));
            if is_linked && other.trace() != span.trace() {
                let (name, indent) = (label(other, NAMED), indent + 2);
                let program = other.program();
                self.line(other, &format!("{:indent$}<- {name}  [{program}]", ""));
            }
        }
        for below in ours.iter().filter(|one| one.parent() == id) {
            self.tell(ours, below, depth + 1, &program);
        }
    }

    fn line(&mut self, span: &Received, text: &str) {
        let (start, end) = (span.span.start_time_unix_nano, span.span.end_time_unix_nano);
        let since = milliseconds(start.saturating_sub(self.begun));
        let took = milliseconds(end.saturating_sub(start));
        self.lines.push(format!("{since:>9} {took:>9}  {text}"));
    }
}

/// Attributes that tell spans of one name apart.
const NUMBERED: &[&str] = &["csi.attempt", "rpc.response.status_code"];

/// The same with the names of the objects, which all spans of a program repeat.
const NAMED: &[&str] = &[
    "csi.attempt",
    "rpc.response.status_code",
    "k8s.persistentvolumeclaim.name",
    "k8s.volumesnapshot.name",
    "k8s.node.name",
];

/// The name of a span with the values of these attributes, or its failure.
fn label(span: &Received, keys: &[&str]) -> String {
    let name = &span.span.name;
    match span.error().filter(|error| !error.is_empty()) {
        // A call's error names its method.
        Some(error) if error.starts_with(name) => return error.to_owned(),
        Some(error) => return format!("{name}: {error}"),
        None => {}
    }
    let values = keys.iter().map(|key| span.attribute(key));
    let values = values.filter(|value| !value.is_empty());
    let parts: Vec<_> = std::iter::once(name.clone()).chain(values).collect();
    parts.join(" ")
}

fn milliseconds(nanos: u64) -> String {
    format!("{}.{} ms", nanos / 1_000_000, nanos / 100_000 % 10)
}

#[cfg(test)]
mod tests {
    use csi_proto::otlp::{AnyValue, KeyValue, Link, Span, Status, Value};

    use super::*;

    const TRACE: u8 = 7;

    fn pair(key: &str, value: &str) -> KeyValue {
        let value = Value::String(value.to_owned());
        KeyValue {
            key: key.to_owned(),
            value: Some(AnyValue { value: Some(value) }),
        }
    }

    /// A span of `program`; times are in milliseconds.
    fn span(program: &str, name: &str, (id, parent): (u8, u8), times: (u64, u64)) -> Received {
        let parent = (parent != 0).then(|| vec![parent; 8]);
        Received {
            scope: String::new(),
            resource: vec![pair("service.name", program)],
            span: Span {
                trace_id: vec![TRACE; 16],
                span_id: vec![id; 8],
                parent_span_id: parent.unwrap_or_default(),
                name: name.to_owned(),
                start_time_unix_nano: 5_000_000_000 + times.0 * 1_000_000,
                end_time_unix_nano: 5_000_000_000 + times.1 * 1_000_000,
                ..Span::default()
            },
        }
    }

    #[test]
    fn o_32_a_trace_is_a_tree() {
        let (provisioner, attacher) = ("csi-provisioner", "csi-attacher");
        let call = "csi.v1.Controller/CreateVolume";
        let mut failed = span(provisioner, call, (4, 3), (11, 31));
        let code = pair("rpc.response.status_code", "INTERNAL");
        failed.span.attributes.push(code);
        failed.span.status = Some(Status {
            message: format!("{call}: Internal"),
            ..Status::default()
        });
        let mut attempt = span(provisioner, "attempt", (3, 2), (10, 40));
        attempt.span.attributes = vec![
            pair("csi.attempt", "1"),
            pair("k8s.persistentvolumeclaim.name", "c"),
        ];
        let mut root = span(provisioner, "PersistentVolumeClaim", (1, 0), (0, 100));
        let name = pair("k8s.persistentvolumeclaim.name", "c");
        root.span.attributes.push(name);
        let mut server = span("apiserver", "POST /api/v1", (9, 0), (33, 34));
        server.span.trace_id = vec![8; 16];
        server.span.links.push(Link {
            trace_id: vec![TRACE; 16],
            span_id: vec![5; 8],
        });
        let mut of_another = span(provisioner, "another", (1, 0), (0, 1));
        of_another.span.trace_id = vec![9; 16];
        let spans = [
            failed,
            span(provisioner, "POST persistentvolumes", (5, 3), (32, 35)),
            attempt,
            span(provisioner, "provision", (2, 1), (0, 40)),
            span(attacher, "VolumeAttachment attach", (6, 1), (110, 120)),
            root.clone(),
            // Of a second leader.
            root,
            server,
            of_another,
            span(attacher, "its parent is lost", (7, 77), (130, 131)),
        ];
        let expected = "
   0.0 ms  100.0 ms  PersistentVolumeClaim c  [csi-provisioner]
   0.0 ms   40.0 ms    provision
  10.0 ms   30.0 ms      attempt 1
  11.0 ms   20.0 ms        csi.v1.Controller/CreateVolume: Internal
  32.0 ms    3.0 ms        POST persistentvolumes
  33.0 ms    1.0 ms          <- POST /api/v1  [apiserver]
 110.0 ms   10.0 ms    VolumeAttachment attach  [csi-attacher]
 130.0 ms    1.0 ms  its parent is lost  [csi-attacher]";
        let trace = "07".repeat(16);
        assert_eq!(format!("\n{}", tree(&spans, &trace).join("\n")), expected);
        assert_eq!(tree(&spans, "none"), [""; 0]);
    }
}
