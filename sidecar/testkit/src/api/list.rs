//! LIST: selectors, pages, and the metadata-only form.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use super::refusal::Refusal;
use super::route::Target;
use super::store::{Key, Store};

/// The selectors of a list or watch.
#[derive(Clone, Debug, Default)]
pub(super) struct Selector {
    labels: Vec<Term>,
    fields: Vec<Term>,
    namespace: String,
    name: Option<String>,
}

#[derive(Clone, Debug)]
struct Term {
    path: String,
    wanted: Wanted,
}

#[derive(Clone, Debug)]
enum Wanted {
    Is(String),
    IsNot(String),
    Present,
    Absent,
}

impl Selector {
    pub(super) fn new(target: &Target, query: &BTreeMap<String, String>) -> Self {
        let terms = |name: &str| {
            let text = query.get(name).map(String::as_str).unwrap_or_default();
            text.split(',')
                .filter(|term| !term.is_empty())
                .map(term)
                .collect()
        };
        Self {
            labels: terms("labelSelector"),
            fields: terms("fieldSelector"),
            namespace: target.namespace.clone(),
            name: target.name.clone(),
        }
    }

    pub(super) fn wants(&self, object: &Value) -> bool {
        let metadata = &object["metadata"];
        let field = |term: &Term| {
            let pointer = format!("/{}", term.path.replace('.', "/"));
            term.holds(object.pointer(&pointer))
        };
        (self.namespace.is_empty() || metadata["namespace"] == *self.namespace)
            && self
                .name
                .as_ref()
                .is_none_or(|name| metadata["name"] == **name)
            && self
                .labels
                .iter()
                .all(|term| term.holds(metadata["labels"].get(&term.path)))
            && self.fields.iter().all(field)
    }
}

impl Term {
    fn holds(&self, found: Option<&Value>) -> bool {
        let found = found.map(|value| match value.as_str() {
            Some(text) => text.to_owned(),
            None => value.to_string(),
        });
        match &self.wanted {
            Wanted::Is(value) => found.unwrap_or_default() == *value,
            Wanted::IsNot(value) => found.unwrap_or_default() != *value,
            Wanted::Present => found.is_some(),
            Wanted::Absent => found.is_none(),
        }
    }
}

fn term(text: &str) -> Term {
    let (path, wanted) = if let Some((path, value)) = text.split_once("!=") {
        (path, Wanted::IsNot(value.to_owned()))
    } else if let Some((path, value)) = text.split_once("==") {
        (path, Wanted::Is(value.to_owned()))
    } else if let Some((path, value)) = text.split_once('=') {
        (path, Wanted::Is(value.to_owned()))
    } else if let Some(path) = text.strip_prefix('!') {
        (path, Wanted::Absent)
    } else {
        (text, Wanted::Present)
    };
    Term {
        path: path.trim().to_owned(),
        wanted,
    }
}

/// Handles a LIST.
pub(super) fn list(
    store: &Store,
    target: &Target,
    query: &BTreeMap<String, String>,
) -> Result<Value, Refusal> {
    let kind = &target.kind;
    let selector = Selector::new(target, query);
    let limit = query
        .get("limit")
        .and_then(|limit| limit.parse::<usize>().ok());
    let limit = limit.filter(|limit| *limit > 0).unwrap_or(usize::MAX);
    let (version, after) = match query.get("continue").filter(|token| !token.is_empty()) {
        Some(token) => resume(store, target, token)?,
        None => (store.version(), None),
    };
    let asked = query
        .get("resourceVersion")
        .and_then(|version| version.parse().ok());
    if asked.is_some_and(|asked: u64| asked > store.version()) {
        let text = format!(
            "Too large resource version: {}, current: {version}",
            asked.unwrap_or(0)
        );
        return Err(Refusal::new(504, text));
    }
    // Later pages come from the first page's snapshot, whatever happened since.
    let snapshot = store.list_at(version, kind, &target.namespace);
    let mut matching = snapshot
        .iter()
        .filter(|(key, _)| after.as_ref().is_none_or(|after| *key > after))
        .filter(|(_, object)| selector.wants(object));
    let page: Vec<(&Key, &Arc<Value>)> = matching.by_ref().take(limit).collect();
    let left = matching.count();
    let mut metadata = json!({"resourceVersion": version.to_string()});
    if let Some((last, _)) = page.last().filter(|_| left > 0) {
        metadata["continue"] = format!("{version} {} {}", last.namespace, last.name).into();
        // Only counted without selectors.
        if selector.labels.is_empty() && selector.fields.is_empty() {
            metadata["remainingItemCount"] = left.into();
        }
    }
    // Items of typed lists have neither apiVersion nor kind, as on the real server.
    let items: Vec<Value> = page
        .into_iter()
        .map(|(_, object)| {
            let mut item = (**object).clone();
            if let Some(map) = item.as_object_mut().filter(|_| !kind.custom) {
                map.remove("apiVersion");
                map.remove("kind");
            }
            item
        })
        .collect();
    Ok(json!({
        "apiVersion": kind.api_version(), "kind": format!("{}List", kind.kind),
        "metadata": metadata, "items": items,
    }))
}

/// Parses a continue token: the version of the first page, and the last object of the previous one.
fn resume(store: &Store, target: &Target, token: &str) -> Result<(u64, Option<Key>), Refusal> {
    let parts: Vec<&str> = token.split(' ').collect();
    let [version, namespace, name] = parts.as_slice() else {
        return Err(Refusal::new(400, "continue key is not valid"));
    };
    let version = version.parse().unwrap_or(0);
    if version < store.compacted() {
        let text = "The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue parameter.";
        return Err(Refusal::new(410, text));
    }
    Ok((version, Some(Key::new(&target.kind, namespace, name))))
}

/// The `PartialObjectMetadata` form of an object or list, if the client accepts it.
pub(super) fn trimmed(accept: &str, value: Value) -> Value {
    if !accept.contains("as=PartialObjectMetadata") {
        return value;
    }
    let metadata_only = |object: &Value| {
        json!({
            "apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata",
            "metadata": object["metadata"],
        })
    };
    match value["items"].as_array() {
        Some(items) => json!({
            "apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadataList",
            "metadata": value["metadata"],
            "items": items.iter().map(metadata_only).collect::<Vec<_>>(),
        }),
        None => metadata_only(&value),
    }
}
