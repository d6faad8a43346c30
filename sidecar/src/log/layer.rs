//! Turns `tracing` events into lines on stderr.

use std::os::fd::AsFd;
use std::time::{Duration, SystemTime};

use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::registry::{LookupSpan, Registry};

use super::fields::{Entry, Fields, Value};
use super::sink::Sink;
use super::text::Origin;
use super::{Format, json, text};

/// Writes each event as one line.
pub(super) struct Lines<W> {
    pub(super) format: Format,
    pub(super) own: &'static [&'static str],
    /// Crates that implement a controller, with its name.
    pub(super) controllers: &'static [(&'static str, &'static str)],
    pub(super) write: W,
}

/// Key of the controller's name in a process with several controllers.
const CONTROLLER: &str = "controller";

pub(super) fn install<F>(
    format: Format,
    own: &'static [&'static str],
    controllers: &'static [(&'static str, &'static str)],
    sink: Sink<F>,
) where
    F: AsFd + Send + Sync + 'static,
{
    let lines = Lines {
        format,
        own,
        controllers,
        write: move |line: &str| sink.write(line),
    };
    // Fails only if a test has installed its own subscriber.
    let _ = tracing::subscriber::set_global_default(Registry::default().with(lines));
}

impl<W> Lines<W> {
    fn is_own(&self, target: &str) -> bool {
        let name = crate_name(target);
        name == "sidecar" || self.own.contains(&name) || self.controller(target).is_some()
    }

    fn controller(&self, target: &str) -> Option<&'static str> {
        let name = crate_name(target);
        let mut controllers = self.controllers.iter();
        controllers.find_map(|(of, controller)| (*of == name).then_some(*controller))
    }

    fn allows(&self, metadata: &Metadata<'_>) -> bool {
        let level = *metadata.level();
        if self.is_own(metadata.target()) {
            return match verbosity(level) {
                Some(needed) => super::enabled(needed, metadata.file().unwrap_or_default()),
                None => true,
            };
        }
        // The Kubernetes client warns with the whole body of a response that it cannot decode,
        // which would print a Secret; kube-runtime warns of refusals that it also returns to us.
        let most = if ["kube_client", "kube_runtime"].contains(&crate_name(metadata.target())) {
            Level::ERROR
        } else {
            Level::WARN
        };
        level <= most
    }
}

fn crate_name(target: &str) -> &str {
    target.split("::").next().unwrap_or(target)
}

/// The lowest verbosity at which events of a level appear; `None` if they always do.
fn verbosity(level: Level) -> Option<u32> {
    match level {
        Level::TRACE => Some(5),
        Level::DEBUG => Some(4),
        _ => None,
    }
}

impl<S, W> Layer<S> for Lines<W>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    W: Fn(&str) + 'static,
{
    fn enabled(&self, metadata: &Metadata<'_>, _: Context<'_, S>) -> bool {
        self.allows(metadata)
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(LevelFilter::TRACE)
    }

    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let mut entry = Entry::default();
        attributes.record(&mut entry);
        if let Some(span) = context.span(id) {
            span.extensions_mut().replace(entry.fields);
        }
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        let mut entry = Entry::default();
        values.record(&mut entry);
        if let Some(span) = context.span(id)
            && let Some(fields) = span.extensions_mut().get_mut::<Fields>()
        {
            fields.extend(&entry.fields);
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut recorded = Entry::default();
        event.record(&mut recorded);
        let mut fields = Fields::default();
        if let Some(scope) = context.event_scope(event) {
            for span in scope.from_root() {
                if let Some(outer) = span.extensions().get::<Fields>() {
                    fields.extend(outer);
                }
            }
        }
        fields.extend(&recorded.fields);
        let controller = self.controller(event.metadata().target());
        if let Some(controller) = controller.filter(|_| !fields.has(CONTROLLER)) {
            fields.set(CONTROLLER, Value::Text(controller.to_owned()));
        }
        let level = *event.metadata().level();
        let implied = verbosity(level).map_or(recorded.verbosity, u64::from);
        let entry = Entry {
            fields,
            verbosity: implied,
            ..recorded
        };
        let path = event.metadata().file().unwrap_or("unknown");
        let origin = Origin {
            severity: severity(level),
            time: now(),
            process: std::process::id(),
            file: path.rsplit('/').next().unwrap_or(path),
            line: event.metadata().line().unwrap_or_default(),
        };
        (self.write)(&self.format.line(origin, &entry));
    }
}

impl Format {
    fn line(self, origin: Origin<'_>, entry: &Entry) -> String {
        match self {
            Self::Text => text::line(origin, entry),
            Self::Json => json::line(origin, entry),
        }
    }

    /// Formats the line about dropped lines.
    pub(super) fn lost(self, lines: u64) -> String {
        let mut entry = Entry {
            message: "Log lines were dropped because nobody read the log".to_owned(),
            ..Entry::default()
        };
        entry.fields.set("lines", Value::Plain(lines.to_string()));
        let origin = Origin {
            severity: 'W',
            time: now(),
            process: std::process::id(),
            file: "sink.rs",
            line: line!(),
        };
        self.line(origin, &entry)
    }
}

fn severity(level: Level) -> char {
    match level {
        Level::ERROR => 'E',
        Level::WARN => 'W',
        _ => 'I',
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the log is the one that says when things happened"
)]
fn now() -> Duration {
    SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default()
}
