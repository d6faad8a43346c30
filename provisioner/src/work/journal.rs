//! The provisioning journal at the API server: sends what [`plan::journal`](crate::plan::journal) says,
//! one request at a time.
//!
//! While a request is under way what is to be written gathers, and goes with the next one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;
use sidecar::kube::api::{self, Api};
use sidecar::names::{self, LeaseOwner};
use sidecar::verbose;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, sleep_until, timeout_at};

use super::api::{LEASES, key};
use super::claim::Run;
use super::metrics::Metrics;
use super::provisioner::Provisioner;
use crate::model::Claim;
use crate::plan::Settings;
use crate::plan::claim::{Answer as StepAnswer, Failure};
use crate::plan::journal::{
    Answer, Found, INTENT, Intent, Journal, Lost, Owner, Request, Unwritable, Verdict,
};
use crate::plan::memory::ClaimKey;
use crate::plan::outcome::Refusal;
use crate::plan::request::Prepared;

mod nodes;
mod recovery;
mod settled;

use settled::Settled;

/// Between the beginnings of two writes while many claims come: a thousand claims a minute or a
/// thousand a second cost the API server about the same. A claim that comes alone does not wait.
const PACE: Duration = Duration::from_millis(50);

/// While more calls are under way than wait for a write, the next one waits for company: so many times as
/// long as the last one took, so that an API server that has much to do gets fewer and larger ones.
const SHARE: u32 = 4;

/// But not for longer than this.
const GATHER: Duration = Duration::from_secs(1);

/// Between tries while the API server refuses or does not answer.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// The journal of one process.
pub struct Keeper {
    state: Mutex<Journal>,
    /// Something is to be asked of the API server.
    wanted: Notify,
    /// An answer came.
    answered: Notify,
    api: Api,
    namespace: String,
    metrics: Metrics,
}

impl std::fmt::Debug for Keeper {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Keeper").finish_non_exhaustive()
    }
}

impl Keeper {
    /// The journal of `driver` in `namespace`.
    #[must_use]
    pub fn new(
        api: Api,
        namespace: &str,
        driver: &str,
        settings: &Settings,
        metrics: &Metrics,
    ) -> Self {
        let node = settings.node.as_ref();
        let owner = Owner {
            lease: names::lease(LeaseOwner::Provisioner, driver),
            driver: driver.to_owned(),
            node: node.map(|node| node.name.to_string()).unwrap_or_default(),
            holder: settings.identity.clone(),
        };
        Self {
            state: Mutex::new(Journal::new(owner)),
            wanted: Notify::new(),
            answered: Notify::new(),
            api,
            namespace: namespace.to_owned(),
            metrics: metrics.clone(),
        }
    }

    /// Where it is.
    #[must_use]
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Never held across an await.
    fn state(&self) -> MutexGuard<'_, Journal> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until `look` finds something, which it is asked after each answer.
    async fn until<T>(&self, mut look: impl FnMut(&mut Journal) -> Option<T>) -> T {
        loop {
            let answered = self.answered.notified();
            tokio::pin!(answered);
            // From here on no answer is missed.
            answered.as_mut().enable();
            if let Some(found) = look(&mut self.state()) {
                return found;
            }
            self.wanted.notify_one();
            answered.await;
        }
    }

    /// Waits until the journal is this process's.
    pub async fn opened(&self) {
        self.until(|journal| journal.is_open().then_some(())).await;
    }

    async fn intend(&self, intent: Intent) -> Result<(), Unwritable> {
        let ticket = { self.state() }.intend(intent, Instant::now().into_std())?;
        self.until(|journal| journal.state(ticket, Instant::now().into_std()))
            .await
    }

    /// Takes out what is settled. To be called when nothing is worked on any more.
    pub async fn flush(&self) {
        let mut refused = BTreeSet::new();
        while self.state().is_open()
            && let Some(request) = self.next(true)
        {
            match self.send(&request).await {
                Ok(Verdict::Go) => {}
                // The others have their turn first.
                Ok(Verdict::Later(error))
                    if error.refusal != Refusal::Unknown && refused.insert(request.number()) => {}
                Ok(Verdict::Later(_)) | Err(_) => return,
            }
        }
    }

    fn next(&self, lazily: bool) -> Option<Request> {
        self.state().next(lazily)
    }

    /// The next request that is due; `None` after a wait, when there may be one.
    async fn wait(&self, settled: &mut Settled) -> Option<Request> {
        let dirty = self.state().is_dirty();
        let (due, until) = settled.look(dirty, Instant::now());
        let request = self.next(due);
        if request.is_none() {
            let wanted = self.wanted.notified();
            match until {
                Some(until) => drop(timeout_at(until, wanted).await),
                None => wanted.await,
            }
        }
        request
    }

    /// Waits while more is about to come than there is.
    async fn gather(&self, until: Instant) {
        while self.state().may_grow() {
            if timeout_at(until, self.wanted.notified()).await.is_err() {
                return;
            }
        }
    }

    async fn send(&self, request: &Request) -> Result<Verdict, Lost> {
        let sent = Instant::now();
        let answer = match self.ask(request).await {
            Ok(answer) => answer,
            Err(error) => Answer::Failed(error.into()),
        };
        if let (Request::Write(write), Answer::Written { .. }) = (request, &answer) {
            self.metrics.committed(write.intents, sent.elapsed());
        }
        let verdict = self.state().answered(request, answer, sent.into_std());
        self.answered.notify_waiters();
        verdict
    }

    async fn ask(&self, request: &Request) -> Result<Answer, api::ApiError> {
        let write = match request {
            Request::Read(number) => {
                let name = self.state().name(*number);
                let found = self
                    .api
                    .get(&LEASES, &key(Some(&self.namespace), &name)?)
                    .await;
                return match found {
                    Ok(json) => Ok(Answer::Found(Some(read(&json)?))),
                    Err(error) if error.is_not_found() => Ok(Answer::Found(None)),
                    Err(error) => Err(error),
                };
            }
            Request::Write(write) => write,
        };
        let body = write.body(&self.namespace);
        let json = match write.version {
            None => self.api.create(&LEASES, Some(&self.namespace), &body).await,
            Some(_) => {
                let key = key(Some(&self.namespace), &write.name)?;
                self.api.update(&LEASES, &key, &body).await
            }
        };
        written(&json?)
    }
}

/// A Lease, as far as `M` says.
#[derive(Deserialize)]
struct Lease<M> {
    metadata: M,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    name: String,
    uid: String,
    resource_version: String,
    #[serde(default)]
    annotations: Option<BTreeMap<String, String>>,
    #[serde(default)]
    labels: Value,
}

impl Metadata {
    fn found(self) -> Found {
        Found {
            uid: self.uid,
            version: self.resource_version,
            annotations: self.annotations.unwrap_or_default(),
            labels: self.labels,
        }
    }
}

/// What the API server gives an object alone: what was written is known.
fn written(json: &str) -> Result<Answer, api::ApiError> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Metadata {
        uid: String,
        resource_version: String,
    }
    let metadata = lease::<Metadata>(json)?;
    Ok(Answer::Written {
        version: metadata.resource_version,
        uid: metadata.uid,
    })
}

fn read(json: &str) -> Result<Found, api::ApiError> {
    Ok(lease::<Metadata>(json)?.found())
}

fn lease<'a, M: Deserialize<'a>>(json: &'a str) -> Result<M, api::ApiError> {
    let lease: Result<Lease<M>, _> = serde_json::from_str(json);
    let lease = lease.map_err(|error| api::ApiError::unreadable(&error))?;
    Ok(lease.metadata)
}

impl Provisioner {
    /// Keeps the journal for ever.
    ///
    /// Returns why it is not this process's any more: nothing may be done then.
    pub async fn keep_journal(&self) -> Lost {
        let Some(journal) = &self.journal else {
            return std::future::pending().await;
        };
        let mut pause = FIRST_PAUSE;
        let mut settled = Settled::default();
        let mut said = false;
        loop {
            let Some(request) = journal.wait(&mut settled).await else {
                continue;
            };
            let began = Instant::now();
            match journal.send(&request).await {
                Err(lost) => return lost,
                Ok(Verdict::Go) => {
                    pause = FIRST_PAUSE;
                    said = false;
                }
                Ok(Verdict::Later(error)) => {
                    if !std::mem::replace(&mut said, true) {
                        tracing::error!(err = %error, namespace = journal.namespace, "The provisioning journal cannot be written, no volume is made before it can");
                    }
                    sleep(pause).await;
                    pause = LONGEST_PAUSE.min(pause * 2);
                }
            }
            self.learn(journal);
            if matches!(request, Request::Write(_)) && journal.state().is_open() {
                let took = began.elapsed();
                sleep_until(began + PACE).await;
                journal.gather(began + GATHER.min(took * SHARE)).await;
            }
        }
    }

    /// Writes down what the driver is about to be asked, and makes sure that nobody else leads.
    pub(super) async fn intend(&self, run: &Run, prepared: &Arc<Prepared>) -> StepAnswer {
        let Some(journal) = &self.journal else {
            return StepAnswer::Done;
        };
        let intent = run.attempt.intent(&run.claim, prepared);
        match journal.intend(intent).await {
            Ok(()) => StepAnswer::Done,
            Err(error) => {
                let claim = &*run.key.name;
                verbose!(2, claim, err = %error, "Not in the provisioning journal");
                StepAnswer::Unwritable(error)
            }
        }
    }

    /// Whether the driver may be asked: the journal knows of it, and nobody else led a moment ago.
    pub(super) fn may_call(&self, claim: &Claim) -> bool {
        let now = Instant::now().into_std();
        let journal = self.journal.as_ref();
        journal.is_none_or(|journal| journal.state().may_call(&claim.uid, now))
    }

    /// The journal is to say what is in doubt for this claim, and no more.
    pub(super) fn settle(&self, key: &ClaimKey) {
        let Some(journal) = &self.journal else {
            return;
        };
        let (busy, doubt) = {
            let memory = self.cluster.memory();
            (memory.is_busy(key), memory.begin(key).doubt)
        };
        match doubt {
            Some(doubt) => {
                let intent = Intent::owing(&doubt.claim, doubt.pinned, doubt.owed);
                journal.state().amend(&intent);
            }
            None if busy => return,
            None => journal.state().settle(&key.uid),
        }
        journal.wanted.notify_one();
    }

    /// Says once of each request that is owed for a claim that needs no volume any more what an
    /// administrator can do about it.
    pub(super) fn tell_of_owed(&self, run: &Run, failure: &Failure) {
        let (Some(journal), Some(asked)) = (&self.journal, run.attempt.prepared()) else {
            return;
        };
        if !self.cluster.memory().tells(&run.key, asked) {
            return;
        }
        let leases = journal.state().places(&run.key.uid);
        tracing::warn!(
            claim = &*run.key.name,
            volume = asked.name,
            namespace = journal.namespace,
            lease = leases.join(","),
            annotation = format!("{INTENT}{}", run.key.uid),
            err = %failure,
            "The claim needs no volume any more, and a call for it that may have made one cannot be repeated; it is tried again. If there is no volume, remove the annotation from the Lease of the provisioning journal"
        );
    }
}
