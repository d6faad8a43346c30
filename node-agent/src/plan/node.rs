//! The Node: the agent's part of its status, and whether it matches a volume's node affinity.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

/// Annotation that makes the attach/detach controller attach volumes to this Node instead of
/// kubelet. Without it the controller ignores the Node.
pub const CONTROLLER_ATTACHES: &str = "volumes.kubernetes.io/controller-managed-attach-detach";

/// The Node, as far as the agent reads it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeView {
    /// `status.volumesInUse`
    pub in_use: BTreeSet<String>,
    /// Names of `status.volumesAttached`
    pub attached: BTreeSet<String>,
    /// Labels.
    pub labels: BTreeMap<String, String>,
    /// [`CONTROLLER_ATTACHES`] is `true`.
    pub controller_attaches: bool,
}

/// The desired Node status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// `status.volumesInUse`
    pub in_use: BTreeSet<String>,
    /// `status.volumesAttached`; `None` if the attach/detach controller writes it.
    pub attached: Option<BTreeSet<String>>,
}

/// The status patches without an answer, or with a failure. The API server may have applied any of
/// them, at any time since.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reports {
    sent: Option<BTreeSet<String>>,
    /// The volumes that all failed patches since the last success have in common.
    unconfirmed: Option<BTreeSet<String>>,
}

impl Reports {
    /// Whether the Node's status lists the volume, whatever becomes of these patches. A volume that
    /// the latest patch left out, and that a pod needs meanwhile, does not count as listed: the
    /// controller may detach it.
    #[must_use]
    pub fn lists(&self, node: &NodeView, volume: &str) -> bool {
        let has = |report: &Option<BTreeSet<String>>| {
            report.as_ref().is_none_or(|report| report.contains(volume))
        };
        node.in_use.contains(volume) && has(&self.sent) && has(&self.unconfirmed)
    }

    /// The next patch of the Node's status; `None` while one is under way, or if nothing has to
    /// change. Uncertain values are sent again although the Node seems to have them.
    #[must_use]
    pub fn next(&self, node: &NodeView, report: &Report) -> Option<Value> {
        if self.sent.is_some() {
            return None;
        }
        let mut node = node.clone();
        let mut patch = patch(&node, report);
        if self.unconfirmed.is_some() && patch.is_none() {
            // Differs from the desired value, to force a patch.
            node.in_use.insert(String::new());
            patch = self::patch(&node, report);
        }
        patch
    }

    /// A patch was sent.
    pub fn begin(&mut self, report: Report) {
        self.sent = Some(report.in_use);
    }

    /// The patch was answered; `accepted`: the API server accepted it.
    pub fn end(&mut self, accepted: bool) {
        let Some(sent) = self.sent.take() else { return };
        self.unconfirmed = match self.unconfirmed.take() {
            _ if accepted => None,
            None => Some(sent),
            Some(unconfirmed) => Some(unconfirmed.intersection(&sent).cloned().collect()),
        };
    }
}

/// Strategic merge patch for the Node's `status` subresource; `None` if nothing has to change.
#[must_use]
pub fn patch(node: &NodeView, report: &Report) -> Option<Value> {
    let mut status = serde_json::Map::new();
    if node.in_use != report.in_use {
        status.insert("volumesInUse".to_owned(), json!(report.in_use));
    }
    if let Some(attached) = report.attached.as_ref().filter(|it| **it != node.attached) {
        let entry = |name: &String| json!({ "name": name, "devicePath": "" });
        let entries: Vec<Value> = attached.iter().map(entry).collect();
        status.insert("volumesAttached".to_owned(), entries.into());
    }
    let mut patch = serde_json::Map::new();
    if !status.is_empty() {
        patch.insert("status".to_owned(), status.into());
    }
    if !node.controller_attaches {
        let annotations = json!({ "annotations": { CONTROLLER_ATTACHES: "true" } });
        patch.insert("metadata".to_owned(), annotations);
    }
    (!patch.is_empty()).then(|| patch.into())
}

/// Whether a volume with this `nodeAffinity.required` may be used on the node. Terms are
/// alternatives; a term without expressions matches no node, as the API defines it.
#[must_use]
pub fn matches(affinity: &Value, node: &str, labels: &BTreeMap<String, String>) -> bool {
    let list = |value: &Value, name: &str| {
        let list = value.get(name).and_then(Value::as_array);
        list.cloned().unwrap_or_default()
    };
    let terms = list(affinity, "nodeSelectorTerms");
    terms.iter().any(|term| {
        let expressions = list(term, "matchExpressions");
        let fields = list(term, "matchFields");
        let by_label = |it: &Value| {
            let key = it.get("key").and_then(Value::as_str).unwrap_or_default();
            fits(it, labels.get(key).map(String::as_str))
        };
        let is_name = |it: &Value| it.get("key").and_then(Value::as_str) == Some("metadata.name");
        !(expressions.is_empty() && fields.is_empty())
            && expressions.iter().all(by_label)
            && fields.iter().all(|it| is_name(it) && fits(it, Some(node)))
    })
}

fn fits(expression: &Value, value: Option<&str>) -> bool {
    let values = expression.get("values").and_then(Value::as_array);
    let values = values.map_or(&[][..], Vec::as_slice);
    let listed = || value.is_some_and(|value| values.iter().any(|it| it == value));
    let number = |text: Option<&str>| text.and_then(|text| text.parse::<i64>().ok());
    let compare = |fits: fn(i64, i64) -> bool| {
        let bound = number(values.first().and_then(Value::as_str));
        number(value).zip(bound).is_some_and(|(a, b)| fits(a, b))
    };
    match expression.get("operator").and_then(Value::as_str) {
        Some("In") => listed(),
        Some("NotIn") => !listed(),
        Some("Exists") => value.is_some(),
        Some("DoesNotExist") => value.is_none(),
        Some("Gt") => compare(|a, b| a > b),
        Some("Lt") => compare(|a, b| a < b),
        Some(_) | None => false,
    }
}
