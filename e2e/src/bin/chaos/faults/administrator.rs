//! What administrators do, and what they install, goes wrong too: objects that the API server refuses for a while, Leases
//! deleted. Each does its work in a thread of its own, since an API server that is away keeps it waiting.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use e2e::api::{Api, text};
use e2e::suite::say;
use serde_json::{Value, json};

use crate::acts::ledger::Ledger;
use crate::leases;
use crate::schedule::{By, Kind, Rejected, Who};
use crate::stage::{DRIVER, Stage};

const ADMISSION: &str = "/apis/admissionregistration.k8s.io/v1";
/// What the annotation of a call begins with that a journal's Lease holds.
const INTENT: &str = "intent.csi-sidecars.io/";
/// How long somebody tries: longer than an outage.
const PATIENCE: Duration = Duration::from_secs(40);
/// How long it takes until what was installed has to be removed.
const REMOVAL: Duration = Duration::from_secs(90);

/// What one of them is asked for.
#[derive(Debug, Clone, Copy)]
pub(super) enum Job {
    /// Objects are refused.
    Reject { what: Rejected, by: By, ms: u64 },
    /// The Lease of an election is deleted.
    DeleteElection { of: Who, quota_ms: u64 },
    /// The Leases of the journal are deleted.
    DeleteJournal { quota_ms: u64 },
}

/// All who are at work.
pub(crate) struct Administrators {
    stop: Arc<AtomicBool>,
    ledger: Arc<Ledger>,
    at_work: Vec<(Kind, JoinHandle<Result<bool>>)>,
    number: u64,
}

impl Administrators {
    pub(super) fn new(ledger: Arc<Ledger>) -> Self {
        Self {
            stop: Arc::new(AtomicBool::new(false)),
            ledger,
            at_work: Vec::new(),
            number: 0,
        }
    }

    /// Sets somebody to work.
    pub(super) fn begin(&mut self, stage: &Stage<'_>, kind: &Kind, job: Job) -> Result<bool> {
        self.number += 1;
        let one = Administrator {
            api: stage.cluster.api()?,
            namespace: stage.namespace(),
            name: format!("chaos-{}", self.number),
            stop: Arc::clone(&self.stop),
            ledger: Arc::clone(&self.ledger),
        };
        let thread = thread::spawn(move || one.work(job));
        self.at_work.push((kind.clone(), thread));
        Ok(true)
    }

    /// What has been done since, and whether it could be.
    pub(super) fn finished(&mut self) -> Result<Vec<(Kind, bool)>> {
        let done = self.at_work.extract_if(.., |(_, it)| it.is_finished());
        done.map(joined).collect()
    }

    /// Everybody undoes what they have done.
    pub(super) fn end(&mut self) -> Result<Vec<(Kind, bool)>> {
        self.stop.store(true, Ordering::Relaxed);
        self.at_work.drain(..).map(joined).collect()
    }
}

fn joined((kind, thread): (Kind, JoinHandle<Result<bool>>)) -> Result<(Kind, bool)> {
    let panicked = |_| anyhow!("a thread of an administrator panicked");
    Ok((kind, thread.join().map_err(panicked)??))
}

struct Administrator {
    api: Api,
    namespace: String,
    name: String,
    stop: Arc<AtomicBool>,
    ledger: Arc<Ledger>,
}

impl Administrator {
    /// Whether it could be done.
    fn work(&self, job: Job) -> Result<bool> {
        match job {
            Job::Reject { what, by, ms } => self.reject(what, by, ms),
            Job::DeleteElection { of, quota_ms } => self.under_quota(quota_ms, || {
                self.api
                    .delete(&format!("{}/{}", self.leases(), leases::name(of)))
            }),
            Job::DeleteJournal { quota_ms } => self.under_quota(quota_ms, || self.delete_journal()),
        }
    }

    fn leases(&self) -> String {
        leases::path(&self.namespace)
    }

    /// Tries for a while; false if the API server does not let it happen.
    fn insist(&self, limit: Duration, act: impl Fn() -> Result<()>) -> bool {
        let began = Instant::now();
        loop {
            if act().is_ok() {
                return true;
            }
            if began.elapsed() > limit {
                return false;
            }
            thread::sleep(Duration::from_millis(300));
        }
    }

    fn wait(&self, ms: u64) {
        let end = Instant::now() + Duration::from_millis(ms);
        while Instant::now() < end && !self.stop.load(Ordering::Relaxed) {
            thread::sleep(Duration::from_millis(100));
        }
    }

    /// Creates objects, waits, and deletes them in reverse.
    fn installed(
        &self,
        objects: &[(String, Value)],
        ms: u64,
        then: impl FnOnce() -> bool,
    ) -> Result<bool> {
        let mut made = Vec::new();
        let mut all = true;
        for (path, object) in objects {
            made.push(format!("{path}/{}", self.name));
            all &= self.insist(PATIENCE, || {
                match self.api.create(path, object) {
                    // Its answer was lost.
                    Err(error) if crate::acts::status(&error) == Some(409) => Ok(()),
                    other => other.map(drop),
                }
            });
        }
        let done = all && then();
        if done {
            self.wait(ms);
        }
        for path in made.iter().rev() {
            let removed = self.insist(REMOVAL, || self.api.delete(path));
            anyhow::ensure!(removed, "{path} could not be removed");
        }
        Ok(done)
    }

    fn reject(&self, what: Rejected, by: By, ms: u64) -> Result<bool> {
        let account = format!("system:serviceaccount:{}:", self.namespace);
        let programs = format!("request.userInfo.username.startsWith('{account}')");
        let conditions = json!([{ "name": "programs", "expression": programs }]);
        let (group, resource) = what.resource();
        let rules = json!([{
            "apiGroups": [group], "apiVersions": ["*"],
            "operations": ["CREATE", "UPDATE", "DELETE"],
            "resources": [resource, format!("{resource}/status")],
        }]);
        let metadata = json!({ "name": self.name });
        let version = "admissionregistration.k8s.io/v1";
        let reason = match by {
            By::Forbidden => "Forbidden",
            By::Invalid => "Invalid",
            By::Webhook => {
                let hooks = json!({
                    "apiVersion": version, "kind": "ValidatingWebhookConfiguration",
                    "metadata": metadata,
                    "webhooks": [{
                        "name": "nobody.chaos.csi.test", "failurePolicy": "Fail",
                        "sideEffects": "None", "admissionReviewVersions": ["v1"],
                        "timeoutSeconds": 1, "matchConditions": conditions, "rules": rules,
                        "clientConfig": { "url": "https://127.0.0.1:9/nobody" },
                    }],
                });
                let path = format!("{ADMISSION}/validatingwebhookconfigurations");
                return self.installed(&[(path, hooks)], ms, || true);
            }
        };
        let policy = json!({
            "apiVersion": version, "kind": "ValidatingAdmissionPolicy", "metadata": metadata,
            "spec": {
                "failurePolicy": "Fail", "matchConstraints": { "resourceRules": rules },
                "matchConditions": conditions,
                "validations": [{
                    "expression": "false", "message": "so says the schedule", "reason": reason,
                }],
            },
        });
        let binding = json!({
            "apiVersion": version, "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": metadata,
            "spec": { "policyName": self.name, "validationActions": ["Deny"] },
        });
        let objects = [
            (format!("{ADMISSION}/validatingadmissionpolicies"), policy),
            (
                format!("{ADMISSION}/validatingadmissionpolicybindings"),
                binding,
            ),
        ];
        self.installed(&objects, ms, || true)
    }

    /// Does something while nobody can create Leases, and for so long after.
    fn under_quota(&self, ms: u64, act: impl Fn() -> Result<()>) -> Result<bool> {
        let does = || self.insist(PATIENCE, &act);
        if ms == 0 {
            return Ok(does());
        }
        let path = format!("/api/v1/namespaces/{}/resourcequotas", self.namespace);
        let none = json!({ "count/leases.coordination.k8s.io": "0" });
        let quota = json!({
            "apiVersion": "v1", "kind": "ResourceQuota", "metadata": { "name": self.name },
            "spec": { "hard": none },
        });
        // This cluster has no controller that counts.
        let counted = json!({ "status": { "hard": none, "used": none } });
        let status = format!("{path}/{}/status", self.name);
        self.installed(&[(path, quota)], ms, || {
            self.insist(PATIENCE, || self.api.merge(&status, &counted).map(drop)) && does()
        })
    }

    /// Deletes the Leases of the journal. The calls that are open in them are given up.
    fn delete_journal(&self) -> Result<()> {
        let prefix = format!("{}-journal-", DRIVER.replace('.', "-"));
        let list = self.api.get(&self.leases())?;
        let items = list.pointer("/items").and_then(Value::as_array);
        for lease in items.into_iter().flatten() {
            let name = text(lease, "/metadata/name").unwrap_or_default();
            if !name.starts_with(&prefix) {
                continue;
            }
            let annotations = lease.pointer("/metadata/annotations");
            let annotations = annotations.and_then(Value::as_object);
            let names = { annotations.into_iter().flatten() }.map(|(name, _)| name.as_str());
            let open: Vec<_> = names.filter_map(|it| it.strip_prefix(INTENT)).collect();
            if !open.is_empty() {
                say(&format!(
                    "         {name} goes with calls for {}",
                    open.join(", ")
                ));
            }
            self.ledger.give_up(open.into_iter().map(str::to_owned));
            let version = text(lease, "/metadata/resourceVersion");
            let as_read = json!({ "preconditions": { "resourceVersion": version } });
            self.api
                .delete_with(&format!("{}/{name}", self.leases()), &as_read)?;
        }
        Ok(())
    }
}
