//! A collector of traces beside a cluster, and the API server's settings for it.

use std::io::Write as _;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::Value;
use sidecar_testkit::collector::{Collector, Received};
use tempfile::NamedTempFile;
use tokio::runtime::Builder;
use tokio::sync::oneshot;

use crate::api::text;
use crate::wait;

/// `service.name` of the API server's spans.
pub const API_SERVER: &str = "apiserver";

/// A collector in a thread of its own; dropping it ends both.
#[derive(Debug)]
pub struct Traces {
    collector: Collector,
    settings: NamedTempFile,
    /// The thread ends when this is dropped.
    _stop: oneshot::Sender<()>,
}

impl Traces {
    /// Starts the collector on a free port.
    pub fn start() -> Result<Self> {
        let (sender, started) = mpsc::channel();
        let (stop, stopped) = oneshot::channel();
        let runtime = Builder::new_current_thread().enable_all().build()?;
        thread::spawn(move || {
            runtime.block_on(async {
                // The receiver is gone if the caller has given up.
                let _ = sender.send(Collector::start().await);
                let _ = stopped.await;
            });
        });
        let collector = started.recv().context("the collector did not start")?;
        collector.keep_only(is_worth_keeping);
        let endpoint = collector.endpoint();
        let address = endpoint.trim_start_matches("http://");
        let mut settings = NamedTempFile::new()?;
        write!(
            settings,
            "apiVersion: apiserver.config.k8s.io/v1beta1\n\
             kind: TracingConfiguration\n\
             endpoint: {address}\n\
             # Traces of callers like ours are the API server's own, which it samples by itself.\n\
             samplingRatePerMillion: 1000000\n"
        )?;
        Ok(Self {
            collector,
            settings,
            _stop: stop,
        })
    }

    /// The URL for `OTEL_EXPORTER_OTLP_ENDPOINT`.
    pub fn endpoint(&self) -> String {
        self.collector.endpoint()
    }

    /// Flags of `csi-cluster up` with which the API server sends its traces here as well.
    pub fn flags(&self) -> Vec<String> {
        let file = self.settings.path().display();
        vec![format!("--apiserver-arg=--tracing-config-file={file}")]
    }

    /// The spans so far; of the API server's only those with links.
    pub fn spans(&self) -> Vec<Received> {
        self.collector.spans()
    }

    /// Waits for spans.
    pub fn until<T>(
        &self,
        limit: Duration,
        what: &str,
        probe: impl Fn(&[Received]) -> Option<T>,
    ) -> Result<T> {
        let found = wait::until(limit, what, || Ok(probe(&self.spans())));
        found.with_context(|| {
            let spans = self.spans();
            let lines = spans.iter().map(|one| {
                format!(
                    "{} {} {} {}",
                    one.trace(),
                    one.id(),
                    one.parent(),
                    one.span.name
                )
            });
            lines.collect::<Vec<_>>().join("\n")
        })
    }
}

fn is_worth_keeping(span: &Received) -> bool {
    !span.span.links.is_empty() || span.program() != API_SERVER
}

/// The trace of an object: its UID without dashes.
pub fn trace_of(object: &Value) -> Result<String> {
    let uid = text(object, "/metadata/uid").context("an object without UID")?;
    Ok(uid.replace('-', ""))
}

/// The span of this name in a trace.
pub fn find<'s>(spans: &'s [Received], trace: &str, name: &str) -> Option<&'s Received> {
    { spans.iter() }.find(|one| one.span.name == name && one.trace() == trace)
}
