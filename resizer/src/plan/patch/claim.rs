//! The parts that all patches of a claim's status share.
//!
//! Several programs write the list of conditions: a patch adds, changes and deletes single entries
//! by their type, and does not mention those of others.

use serde_json::{Map, Value, json};
use sidecar::visible::visible;

use crate::model::{ClaimDetail, Condition};

/// A patch under construction.
pub(super) struct Draft<'a> {
    claim: &'a ClaimDetail,
    /// `status` without the conditions.
    pub(super) status: Map<String, Value>,
    /// `metadata.annotations`
    pub(super) annotations: Map<String, Value>,
    conditions: Vec<Condition>,
}

impl<'a> Draft<'a> {
    pub(super) fn new(claim: &'a ClaimDetail) -> Self {
        Self {
            claim,
            status: Map::new(),
            annotations: Map::new(),
            conditions: claim.conditions.to_vec(),
        }
    }

    /// Replaces the condition of this type, or adds it.
    pub(super) fn set(&mut self, condition: Condition) {
        let held = self.conditions.iter_mut();
        match { held }.find(|held| held.kind == condition.kind) {
            Some(held) => *held = condition,
            None => self.conditions.push(condition),
        }
    }

    /// Forces a new resource version of the claim: sets the probe time of its condition of this
    /// type to `now`, or removes the time if it is `now` already. A claim without the condition
    /// gets `otherwise`.
    pub(super) fn renew(&mut self, otherwise: Condition, now: &str) {
        let held = self.claim.condition(&otherwise.kind).cloned();
        let mut condition = held.unwrap_or(otherwise);
        // A patch without a change creates no version, and two processes may run within the same
        // second.
        let same = condition.probed.as_deref() == Some(now);
        condition.probed = (!same).then(|| now.into());
        self.set(condition);
    }

    /// Removes the conditions of these types.
    pub(super) fn drop(&mut self, kinds: &[&str]) {
        self.conditions.retain(|held| !kinds.contains(&&*held.kind));
    }

    pub(super) fn field(&mut self, name: &str, value: Value) {
        self.status.insert(name.to_owned(), value);
    }

    /// The patch; `None` if it would change nothing.
    pub(super) fn finish(mut self) -> Option<Value> {
        self.diff_conditions();
        if self.status.is_empty() && self.annotations.is_empty() {
            return None;
        }
        let mut metadata = Map::new();
        metadata.insert("resourceVersion".to_owned(), json!(&*self.claim.version));
        if !self.annotations.is_empty() {
            metadata.insert("annotations".to_owned(), self.annotations.into());
        }
        let mut patch = Map::new();
        patch.insert("metadata".to_owned(), metadata.into());
        if !self.status.is_empty() {
            patch.insert("status".to_owned(), self.status.into());
        }
        Some(patch.into())
    }

    fn diff_conditions(&mut self) {
        let (before, after) = (&self.claim.conditions, &self.conditions);
        if **before == **after {
            return;
        }
        if after.is_empty() {
            return self.field("conditions", Value::Null);
        }
        if before.is_empty() {
            let list = after.iter().map(whole).collect();
            return self.field("conditions", list);
        }
        let kinds = after.iter().map(|held| json!({ "type": &*held.kind }));
        let kinds: Value = kinds.collect();
        let mut list: Vec<Value> = after.iter().filter_map(|held| self.changed(held)).collect();
        let gone = |held: &&Condition| !after.iter().any(|kept| kept.kind == held.kind);
        for held in before.iter().filter(gone) {
            list.push(json!({ "$patch": "delete", "type": &*held.kind }));
        }
        self.field("conditions", list.into());
        self.field("$setElementOrder/conditions", kinds);
    }

    /// The changed fields of a condition; `None` if nothing has changed.
    fn changed(&self, after: &Condition) -> Option<Value> {
        let Some(before) = self.claim.condition(&after.kind) else {
            return Some(whole(after));
        };
        if before == after {
            return None;
        }
        let (Value::Object(mut new), Value::Object(old)) = (whole(after), whole(before)) else {
            return None;
        };
        for (name, value) in &old {
            match new.get(name) {
                Some(same) if same == value && name != "type" => {
                    new.remove(name);
                }
                Some(_) => {}
                None => {
                    new.insert(name.clone(), Value::Null);
                }
            }
        }
        Some(new.into())
    }
}

fn whole(condition: &Condition) -> Value {
    let mut object = Map::new();
    let mut put = |name: &str, value: Value| object.insert(name.to_owned(), value);
    put("type", json!(&*condition.kind));
    put("status", json!(&*condition.status));
    put("lastProbeTime", json!(condition.probed.as_deref()));
    put("lastTransitionTime", json!(condition.changed.as_deref()));
    for (name, text) in [
        ("reason", &condition.reason),
        ("message", &condition.message),
    ] {
        if !text.is_empty() {
            put(name, json!(visible(text)));
        }
    }
    object.into()
}
