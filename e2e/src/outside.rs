//! A scenario as seen from outside: the sidecars' requests to the API server and calls to the driver, and their events.
//! With a folder in `RECORD`, each scenario writes a file there, which `make upstream` compares with another program's.
//!
//! Two runs of one program must produce the same files. So each line is there once, however often it happened; leases
//! are omitted, and so is everything that depends on a race: conflicts, and objects that were gone already. Values that
//! are new in each run, such as UIDs, become stars, and so do numbers at the end of names: of many claims, the first
//! events are kept, whichever they are.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::PathBuf;
use std::{env, fs};

use anyhow::Result;
use serde_json::Value;

use crate::api::text;
use crate::calls::Calls;
use crate::cluster::Cluster;
use crate::requests::AuditLog;

/// Service accounts; the sidecars' are in namespaces of their drivers, Kubernetes' in kube-system.
const ACCOUNTS: &str = "system:serviceaccount:[^:]+:[a-z-]+";

/// Sources of Kubernetes' own events.
const KUBERNETES: [&str; 8] = [
    "attachdetach-controller",
    "controllermanager",
    "default-scheduler",
    "kubelet",
    "persistentvolume-controller",
    "taint-eviction-controller",
    "volume_expand",
    "node-controller",
];

/// The API server's message for a conflict.
const CONFLICT: &str = "the object has been modified";

/// Records what happens on a cluster.
pub struct Outside<'a> {
    cluster: &'a Cluster,
    folder: PathBuf,
    requests: AuditLog<'a>,
    /// Number of calls in each record that belong to earlier scenarios.
    calls: BTreeMap<PathBuf, usize>,
    /// Events that belong to earlier scenarios.
    events: HashSet<String>,
}

impl<'a> Outside<'a> {
    /// Starts a recording; `None` without `RECORD`.
    ///
    /// # Errors
    /// The folder cannot be created, or the audit log cannot be marked.
    pub fn of(cluster: &'a Cluster) -> Result<Option<Self>> {
        let Some(folder) = env::var_os("RECORD").filter(|folder| !folder.is_empty()) else {
            return Ok(None);
        };
        fs::create_dir_all(&folder)?;
        Ok(Some(Self {
            cluster,
            folder: folder.into(),
            requests: AuditLog::of(cluster, ACCOUNTS)?,
            calls: BTreeMap::new(),
            events: HashSet::new(),
        }))
    }

    /// Writes the file of a scenario with this ending.
    ///
    /// # Errors
    /// Log, record or events cannot be read, or the file cannot be written.
    pub fn note(&mut self, scenario: &str, ending: &str) -> Result<()> {
        let mut lines = BTreeSet::new();
        self.note_requests(&mut lines)?;
        self.note_calls(&mut lines)?;
        self.note_events(&mut lines)?;
        let dir = self.cluster.dir().to_string_lossy();
        let mut file = format!("{ending}\n");
        for line in lines {
            file.push_str(&line.replace(&*dir, "*"));
            file.push('\n');
        }
        fs::write(self.folder.join(format!("{scenario}.txt")), file)?;
        Ok(())
    }

    fn note_requests(&mut self, lines: &mut BTreeSet<String>) -> Result<()> {
        for request in self.requests.phase()?.iter() {
            let (verb, path, code) = (&request.verb, request.path(), request.code);
            let was_late = code == 409 || code == 404 && (verb == "delete" || verb == "patch");
            let is_other = request.resource == "leases" || request.user.contains(":kube-system:");
            if was_late || is_other {
                continue;
            }
            let account = request.user.rsplit(':').next().unwrap_or_default();
            lines.insert(format!("request {account} {verb} {path} {code}"));
        }
        Ok(())
    }

    fn note_calls(&mut self, lines: &mut BTreeSet<String>) -> Result<()> {
        for place in fs::read_dir(self.cluster.dir().join("run"))? {
            let record = place?.path().join("calls.jsonl");
            let calls = Calls::read(&record)?;
            let known = self.calls.insert(record, calls.count()).unwrap_or(0);
            // kubelet makes the node calls.
            let calls = calls.iter().skip(known);
            for call in calls.filter(|call| !call.method.starts_with("Node")) {
                let code = call.code.as_deref().unwrap_or("unanswered");
                let line = format!("call {} {code} {}", call.method, call.request);
                lines.insert(without_chance(&line));
            }
        }
        Ok(())
    }

    fn note_events(&mut self, lines: &mut BTreeSet<String>) -> Result<()> {
        let list = self.cluster.api()?.get("/api/v1/events")?;
        let events = list.pointer("/items").and_then(Value::as_array);
        for event in events.into_iter().flatten() {
            let field = |pointer| text(event, pointer).unwrap_or_default();
            let is_new = self.events.insert(field("/metadata/uid").to_owned());
            let names = [field("/source/component"), field("/reportingComponent")];
            let is_other = names.iter().any(|name| KUBERNETES.contains(name));
            if !is_new || is_other || field("/message").contains(CONFLICT) {
                continue;
            }
            let line = format!(
                "event {} {} {} {}",
                field("/involvedObject/kind"),
                field("/type"),
                field("/reason"),
                field("/message")
            );
            lines.insert(without_chance(&line.replace('\n', " ")));
        }
        Ok(())
    }
}

/// Replaces UIDs, times, ports, and numbers at the end of names by stars.
fn without_chance(line: &str) -> String {
    let mut text = String::new();
    let mut rest = line;
    while let Some(first) = rest.chars().next() {
        let is_word = |c: char| c.is_ascii_alphanumeric();
        if !is_word(first) {
            text.push(first);
            rest = rest.split_at(first.len_utf8()).1;
            continue;
        }
        let (word, after) = match uid(rest) {
            Some(length) => rest.split_at(length),
            None => rest.split_at(rest.find(|c| !is_word(c)).unwrap_or(rest.len())),
        };
        let is_number = word.chars().all(|c| c.is_ascii_digit());
        let of_name = text.ends_with('-');
        let is_chance =
            word.contains('-') || is_number && (word.len() == 5 || word.len() > 9 || of_name);
        text.push_str(if is_chance { "*" } else { word });
        rest = after;
    }
    text
}

/// Length of a UID at the beginning of the text.
fn uid(text: &str) -> Option<usize> {
    const LENGTH: usize = 36;
    let uid = text.get(..LENGTH)?;
    let groups: Vec<_> = uid.split('-').collect();
    let lengths: Vec<_> = groups.iter().map(|group| group.len()).collect();
    let hex = |group: &&str| group.chars().all(|c| c.is_ascii_hexdigit());
    (lengths == [8, 4, 4, 4, 12] && groups.iter().all(hex)).then_some(LENGTH)
}
