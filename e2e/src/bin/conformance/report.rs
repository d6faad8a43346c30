//! What ginkgo's report says.

use serde_json::Value;

/// A spec that did not pass.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) name: String,
    pub(crate) message: String,
}

/// Counts, and what failed.
#[derive(Debug, Default)]
pub(crate) struct Report {
    pub(crate) passed: usize,
    /// Began and found that the driver's definition or the cluster has not what they need.
    pub(crate) skipped: usize,
    pub(crate) failures: Vec<Failure>,
    /// Processes of the suite that ended by themselves, after which their specs ran once more.
    pub(crate) repeated: usize,
}

impl Report {
    /// Reads a `--json-report`; none if it has nothing to say about any spec, not even that it was
    /// left out, which is what a process that ended by itself leaves.
    pub(crate) fn read(json: &Value) -> Option<Self> {
        let suites = json.as_array().into_iter().flatten();
        let mut specs = suites
            .filter_map(|suite| suite.get("SpecReports").and_then(Value::as_array))
            .flatten()
            .peekable();
        specs.peek()?;
        let mut report = Self::default();
        for spec in specs {
            report.add(spec);
        }
        Some(report)
    }

    /// Adds what another part of the run says.
    pub(crate) fn join(&mut self, other: Self) {
        self.passed += other.passed;
        self.skipped += other.skipped;
        self.repeated += other.repeated;
        self.failures.extend(other.failures);
    }

    /// What failed, for people.
    pub(crate) fn lines(&self) -> String {
        let lines = self.failures.iter().map(|failure| {
            let (name, message) = (&failure.name, &failure.message);
            format!("  FAILED  {name}\n          {message}")
        });
        lines.collect::<Vec<_>>().join("\n")
    }

    /// All counts in one line.
    pub(crate) fn counts(&self) -> String {
        let (passed, failed, skipped) = (self.passed, self.failures.len(), self.skipped);
        let counts = format!("{passed} passed, {failed} failed, {skipped} skipped");
        match self.repeated {
            0 => counts,
            parts => format!(
                "{counts}, {parts} part(s) repeated because the suite's process had ended by itself"
            ),
        }
    }

    fn add(&mut self, spec: &Value) {
        let text = |pointer: &str| spec.pointer(pointer).and_then(Value::as_str);
        let is_spec = text("/LeafNodeType") == Some("It");
        let message = text("/Failure/Message").unwrap_or_default();
        match text("/State").unwrap_or_default() {
            "passed" => self.passed += usize::from(is_spec),
            "pending" => {}
            // What the selection leaves out is "skipped" as well, without a reason.
            "skipped" => self.skipped += usize::from(!message.is_empty()),
            _ => self.failures.push(Failure {
                name: name(spec),
                message: message.lines().take(4).collect::<Vec<_>>().join(" "),
            }),
        }
    }
}

fn name(spec: &Value) -> String {
    let containers = spec
        .get("ContainerHierarchyTexts")
        .and_then(Value::as_array);
    let leaf = spec.get("LeafNodeText");
    let parts = containers.into_iter().flatten().chain(leaf);
    let parts: Vec<_> = parts.filter_map(Value::as_str).collect();
    parts.join(" ")
}
