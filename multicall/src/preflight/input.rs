//! Manifests: a file, the output of `helm template` or that of `kubectl get -o json`.
//!
//! Reads the kind off a document's lines and parses only the kinds that matter: a chart may contain megabytes of
//! CRDs, and the text between documents need not be YAML at all.

use std::collections::BTreeSet;
use std::io::Read as _;
use std::ops::Range;
use std::path::Path;

use serde_json::Value;
use sidecar::visible::visible;

/// Charts do not render to more.
const LARGEST: u64 = 256 << 20;
/// Far more than any object of an API server.
const LARGEST_OBJECT: usize = 8 << 20;

/// Byte order mark, which some editors put at the start of a text.
const BOM: char = '\u{feff}';

/// The kinds that are read; all others are skipped.
const KINDS: &[&str] = &[
    "Deployment",
    "DaemonSet",
    "StatefulSet",
    "ReplicaSet",
    "Pod",
    "ConfigMap",
    "ClusterRole",
    "ClusterRoleBinding",
    "Role",
    "RoleBinding",
    "ServiceMonitor",
    "PodMonitor",
    "PrometheusRule",
    "List",
];

/// The input cannot be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum InputError {
    /// The operating system's error.
    #[error("{name}: {error}")]
    Io { name: String, error: std::io::Error },
    /// The input is too large.
    #[error("{name}: larger than 256 MiB; give it the rendered manifests of one driver")]
    TooLarge { name: String },
    /// The input has no workload.
    #[error(
        "{name}: no Deployment, DaemonSet, StatefulSet or Pod in it; give it manifests, such as the output of helm template{}",
        not_read(unreadable)
    )]
    Empty {
        name: String,
        unreadable: Vec<String>,
    },
}

/// Lists the unreadable documents after an error: one of them may be the one that matters.
pub(crate) fn not_read(unreadable: &[String]) -> String {
    let lines = unreadable
        .iter()
        .map(|one| format!("\nNot read: {}", visible(one)));
    lines.collect()
}

/// The place of an object in the input.
#[derive(Clone, Debug, Default)]
pub(crate) struct Origin {
    /// The file, and the line where its document begins.
    file: String,
    line: usize,
    range: Range<usize>,
}

/// An object of the input.
#[derive(Clone, Debug, Default)]
pub(crate) struct Object {
    pub(crate) kind: String,
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) value: Value,
    pub(crate) origin: Origin,
}

/// How completely the input shows roles and bindings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Roles {
    /// Only those in the manifests.
    #[default]
    Given,
    /// Some of the cluster's could not be listed.
    Partial,
    /// All of the cluster's.
    Whole,
}

/// The parsed input.
#[derive(Debug, Default)]
pub(crate) struct Input {
    pub(crate) objects: Vec<Object>,
    /// Number of documents of other kinds.
    pub(crate) passed_over: usize,
    /// Documents that are malformed or too large, with the line where they begin.
    pub(crate) unreadable: Vec<String>,
    pub(crate) roles: Roles,
    /// ConfigMaps that are not parsed yet.
    maps: Vec<Origin>,
    text: String,
}

/// The ConfigMaps that the containers of a pod take variables from.
pub(crate) fn configured(spec: &Value) -> impl Iterator<Item = &str> {
    let containers = list(spec, "/containers").iter();
    let all = containers.chain(list(spec, "/initContainers"));
    let names = all.flat_map(|container| {
        let own = list(container, "/env").iter();
        let own = own.map(|one| text(one, "/valueFrom/configMapKeyRef/name"));
        let whole = list(container, "/envFrom").iter();
        own.chain(whole.map(|one| text(one, "/configMapRef/name")))
    });
    names.filter(|name| !name.is_empty())
}

/// The text at a JSON pointer, or an empty one.
pub(crate) fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

/// The list at a JSON pointer, or an empty one.
pub(crate) fn list<'a>(value: &'a Value, pointer: &str) -> &'a [Value] {
    let list = value.pointer(pointer).and_then(Value::as_array);
    list.map(Vec::as_slice).unwrap_or_default()
}

/// The texts of the list at a JSON pointer.
pub(crate) fn texts<'a>(value: &'a Value, pointer: &str) -> Vec<&'a str> {
    list(value, pointer)
        .iter()
        .filter_map(Value::as_str)
        .collect()
}

impl Input {
    /// Reads a file, or standard input (`-`). Objects without a namespace get `namespace`.
    ///
    /// # Errors
    /// The input cannot be read.
    pub(crate) fn read(path: &Path, namespace: &str) -> Result<Self, InputError> {
        let name = match path == Path::new("-") {
            true => "standard input".to_owned(),
            false => path.display().to_string(),
        };
        let mut bytes = Vec::new();
        let read = match path == Path::new("-") {
            true => std::io::stdin()
                .lock()
                .take(LARGEST + 1)
                .read_to_end(&mut bytes),
            false => std::fs::File::open(path)
                .and_then(|file| file.take(LARGEST + 1).read_to_end(&mut bytes)),
        };
        if let Err(error) = read {
            return Err(InputError::Io { name, error });
        }
        if bytes.len() as u64 > LARGEST {
            return Err(InputError::TooLarge { name });
        }
        let text = match String::from_utf8(bytes) {
            Ok(text) => text,
            Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
        };
        let input = Self::parse(&name, text, namespace);
        if input.workloads().next().is_none() {
            let unreadable = input.unreadable;
            return Err(InputError::Empty { name, unreadable });
        }
        Ok(input)
    }

    /// Reads a text.
    pub(crate) fn parse(name: &str, text: String, namespace: &str) -> Self {
        let mut input = Self::default();
        for (line, range) in documents(&text) {
            let document = text.get(range.clone()).unwrap_or_default();
            let origin = Origin {
                file: name.to_owned(),
                line,
                range,
            };
            input.document(document, namespace, &origin);
        }
        input.variables(&text, namespace);
        input.text = text;
        input
    }

    /// Parses the ConfigMaps that a container takes variables from; a chart may have many others.
    fn variables(&mut self, text: &str, namespace: &str) {
        let names: BTreeSet<String> = { self.workloads() }
            .flat_map(|workload| configured(super::container::template(workload)))
            .map(str::to_owned)
            .collect();
        for origin in std::mem::take(&mut self.maps) {
            let document = text.get(origin.range.clone()).unwrap_or_default();
            match names.iter().any(|name| document.contains(&**name)) {
                true => self.object(document, namespace, &origin),
                false => self.passed_over += 1,
            }
        }
    }

    fn document(&mut self, document: &str, namespace: &str, origin: &Origin) {
        let document = document.trim_start_matches(BOM);
        let content = |line: &&str| {
            let line = line.trim_start();
            !(line.is_empty() || line.starts_with('#'))
        };
        let Some(first) = document.lines().find(content) else {
            return;
        };
        match kind_of(document) {
            Some("ConfigMap") => self.maps.push(origin.clone()),
            Some(kind) if KINDS.contains(&kind) || kind.ends_with("List") => {
                self.object(document, namespace, origin);
            }
            Some(_) => self.passed_over += 1,
            // A chart's notes, and texts without any kind, are no objects.
            None if first.starts_with("NOTES:") || !document.contains("kind") => {
                self.passed_over += 1;
            }
            None => self.object(document, namespace, origin),
        }
    }

    fn object(&mut self, document: &str, namespace: &str, origin: &Origin) {
        if document.trim_start().starts_with('{') && self.json(document, namespace, origin) {
            return;
        }
        let place = format!("{}:{}", origin.file, origin.line);
        if document.len() > LARGEST_OBJECT {
            self.unreadable
                .push(format!("{place}: larger than any object may be"));
            return;
        }
        // Of duplicate keys the last one counts, as for the API server and kubectl.
        let options = serde_saphyr::options! {
            duplicate_keys: serde_saphyr::options::DuplicateKeyPolicy::LastWins,
        };
        match serde_saphyr::from_str_with_options::<Value>(document, options) {
            Ok(value) => self.take(value, namespace, origin),
            Err(error) => {
                let line = error.location().map_or(0, |at| at.line());
                let line =
                    origin.line + usize::try_from(line).unwrap_or_default().saturating_sub(1);
                self.unreadable
                    .push(format!("{}:{line}: no YAML of an object", origin.file));
            }
        }
    }

    /// Reads concatenated JSON objects. Returns whether there was any: YAML, too, may begin like JSON.
    fn json(&mut self, document: &str, namespace: &str, origin: &Origin) -> bool {
        let mut any = false;
        for value in serde_json::Deserializer::from_str(document).into_iter::<Value>() {
            match value {
                Ok(value) => self.take(value, namespace, origin),
                Err(error) if any => self.unreadable.push(format!("{}: {error}", origin.file)),
                Err(_) => return false,
            }
            any = true;
        }
        any
    }

    fn take(&mut self, value: Value, namespace: &str, origin: &Origin) {
        let kind = text(&value, "/kind").to_owned();
        if kind.ends_with("List") {
            let of_list = kind.trim_end_matches("List").to_owned();
            for mut item in list(&value, "/items").iter().cloned() {
                if text(&item, "/kind").is_empty()
                    && let Some(object) = item.as_object_mut()
                {
                    object.insert("kind".to_owned(), Value::from(&*of_list));
                }
                self.take(item, namespace, origin);
            }
            return;
        }
        if kind.is_empty() {
            let (file, line) = (&origin.file, origin.line);
            self.unreadable
                .push(format!("{file}:{line}: an object without a kind"));
            return;
        }
        if !KINDS.contains(&&*kind) {
            self.passed_over += 1;
            return;
        }
        let own = text(&value, "/metadata/namespace");
        let namespace = if own.is_empty() { namespace } else { own };
        self.objects.push(Object {
            namespace: namespace.to_owned(),
            name: text(&value, "/metadata/name").to_owned(),
            kind,
            value,
            origin: origin.clone(),
        });
    }

    /// Adds an object that comes from no file.
    pub(crate) fn add(&mut self, value: Value) {
        self.take(value, "default", &Origin::default());
    }

    /// Pods and the objects that create pods.
    pub(crate) fn workloads(&self) -> impl Iterator<Item = &Object> {
        let kinds = [
            "Deployment",
            "DaemonSet",
            "StatefulSet",
            "ReplicaSet",
            "Pod",
        ];
        let makes = move |object: &&Object| kinds.contains(&&*object.kind);
        self.objects.iter().filter(makes)
    }

    /// The object of this kind and name.
    pub(crate) fn find(&self, kind: &str, namespace: &str, name: &str) -> Option<&Object> {
        let mut own = self.objects.iter().filter(|object| object.kind == kind);
        own.find(|one| one.namespace == namespace && one.name == name)
    }

    /// All objects of a kind.
    pub(crate) fn of_kind<'a>(&'a self, kind: &'a str) -> impl Iterator<Item = &'a Object> {
        self.objects
            .iter()
            .filter(move |object| object.kind == kind)
    }

    /// File and line where the object's document first contains `needle`.
    pub(crate) fn place(&self, object: &Object, needle: &str) -> Option<String> {
        let document = self.text.get(object.origin.range.clone())?;
        let line = document.lines().position(|line| line.contains(needle))?;
        Some(format!(
            "{}:{}",
            object.origin.file,
            object.origin.line + line
        ))
    }
}

/// The documents of a YAML stream with the lines where they begin.
fn documents(text: &str) -> Vec<(usize, Range<usize>)> {
    let mut documents = Vec::new();
    let (mut line, mut begin) = (1, 0);
    let (mut at, mut number) = (0, 0);
    for one in text.split_inclusive('\n') {
        number += 1;
        let end = at + one.len();
        let behind = one.trim_start_matches(BOM).strip_prefix("---");
        let behind = behind.filter(|rest| rest.is_empty() || rest.starts_with(char::is_whitespace));
        if let Some(rest) = behind {
            documents.push((line, begin..at));
            // A document may begin on this line; comments before it belong to no document.
            let content = rest.trim_start();
            (line, begin) = match content.is_empty() || content.starts_with('#') {
                true => (number + 1, end),
                false => (number, end - rest.len()),
            };
        }
        at = end;
    }
    documents.push((line, begin..at));
    documents
}

/// The kind of a document, from its `kind:` line; `None` if it must be parsed.
fn kind_of(document: &str) -> Option<&str> {
    let mut lines = { document.lines() }.filter_map(|line| line.strip_prefix("kind:"));
    let line = lines.next_back()?;
    let line = line.split('#').next().unwrap_or_default();
    let kind = line.trim().trim_matches(['"', '\'']);
    let plain = !kind.is_empty() && kind.chars().all(|c| c.is_ascii_alphanumeric());
    plain.then_some(kind)
}
