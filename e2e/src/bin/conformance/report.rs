//! Parses ginkgo's report.

use serde_json::Value;

/// A spec that did not pass.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) name: String,
    pub(crate) message: String,
}

/// Counts, and the failed specs.
#[derive(Debug, Default)]
pub(crate) struct Report {
    pub(crate) passed: usize,
    /// Started, but the driver's definition or the cluster lacks a requirement.
    pub(crate) skipped: usize,
    pub(crate) failures: Vec<Failure>,
    /// Processes of the suite that ended early, whose specs then ran once more.
    pub(crate) repeated: usize,
}

impl Report {
    /// Reads a `--json-report`; `None` if it has no spec at all, not even a skipped one, as after a
    /// process that ended early.
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

    /// Adds the report of another part of the run.
    pub(crate) fn join(&mut self, other: Self) {
        self.passed += other.passed;
        self.skipped += other.skipped;
        self.repeated += other.repeated;
        self.failures.extend(other.failures);
    }

    /// The failed specs, for people.
    pub(crate) fn lines(&self) -> String {
        let lines = self.failures.iter().map(|failure| {
            let (name, message) = (&failure.name, &failure.message);
            format!("  FAILED  {name}\n          {message}")
        });
        lines.collect::<Vec<_>>().join("\n")
    }

    /// All counts, in one line.
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
            // Specs outside the selection are "skipped" too, but without a reason.
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
