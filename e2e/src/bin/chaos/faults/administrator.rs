//! Faults by administrators and by what they install: objects that the API server refuses for a while, deleted Leases.
//! Each one has its own thread, since it blocks while the API server is down.

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
/// Prefix of the annotations that hold calls in a journal's Lease.
const INTENT: &str = "intent.csi-sidecars.io/";
/// Time after which an administrator gives up: longer than an outage.
const RETRY_LIMIT: Duration = Duration::from_secs(40);
/// Time limit for removing what was installed.
const REMOVAL: Duration = Duration::from_secs(90);

/// The job of an administrator.
#[derive(Debug, Clone, Copy)]
pub(super) enum Job {
    /// Let the API server refuse objects.
    Reject { what: Rejected, by: By, ms: u64 },
    /// Delete the Lease of an election.
    DeleteElection { of: Who, quota_ms: u64 },
    /// Delete the Leases of the journal.
    DeleteJournal { quota_ms: u64 },
}

/// The administrators with a running job.
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

    /// Starts an administrator.
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

    /// The finished jobs, and whether they succeeded.
    pub(super) fn finished(&mut self) -> Result<Vec<(Kind, bool)>> {
        let done = self.at_work.extract_if(.., |(_, it)| it.is_finished());
        done.map(joined).collect()
    }

    /// Lets all administrators undo their work, and waits for them.
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
    /// Does the job; returns whether it succeeded.
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

    /// Retries for a while; false if the API server never accepts it.
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

    /// Creates objects, waits, and deletes them in reverse order.
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
            all &= self.insist(RETRY_LIMIT, || {
                match self.api.create(path, object) {
                    // The first attempt succeeded, and its response was lost.
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

    /// Performs an act while a quota prevents new Leases, and keeps the quota for this time.
    fn under_quota(&self, ms: u64, act: impl Fn() -> Result<()>) -> Result<bool> {
        let does = || self.insist(RETRY_LIMIT, &act);
        if ms == 0 {
            return Ok(does());
        }
        let path = format!("/api/v1/namespaces/{}/resourcequotas", self.namespace);
        let none = json!({ "count/leases.coordination.k8s.io": "0" });
        let quota = json!({
            "apiVersion": "v1", "kind": "ResourceQuota", "metadata": { "name": self.name },
            "spec": { "hard": none },
        });
        // This cluster has no controller that maintains a quota's status.
        let counted = json!({ "status": { "hard": none, "used": none } });
        let status = format!("{path}/{}/status", self.name);
        self.installed(&[(path, quota)], ms, || {
            self.insist(RETRY_LIMIT, || self.api.merge(&status, &counted).map(drop)) && does()
        })
    }

    /// Deletes the Leases of the journal. Their unfinished calls are given up.
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
