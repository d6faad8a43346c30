//! The provisioning journal at the API server: sends the requests of [`plan::journal`](crate::plan::journal), one at a
//! time.
//!
//! Changes that come during a request gather, and go with the next one.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;
use sidecar::controller::reactor::Due;
use sidecar::election::Fence;
use sidecar::kube::api::{Api, ApiError};
use sidecar::names::{self, LeaseOwner};
use sidecar::verbose;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, sleep_until, timeout_at};

use super::api::{LEASES, key};
use super::executor::{Engine, Executor};
use super::metrics::Metrics;
use crate::plan::Settings;
use crate::plan::journal::{
    Answer, Found, Intent, Journal, KeptMetadata, Lost, Owner, Request, Unwritable, Verdict,
};
use crate::plan::outcome::Refusal;
use crate::plan::request::PinnedRequest;

mod nodes;
mod opening;
mod rival;
mod settled;

use opening::hindrance;
pub use opening::{not_to_be_opened, recover};
pub use rival::until_silent;
use settled::Settled;

/// Shortest time between the starts of two writes while many claims come: a thousand claims a minute or a thousand a
/// second cost the API server about the same. A single claim does not wait.
const PACE: Duration = Duration::from_millis(50);

/// While more calls are under way than wait for a write, the next write waits for more of them: this many times the
/// duration of the last write, so that a busy API server gets fewer and larger ones.
const SHARE: u32 = 4;

/// Longest such wait.
const GATHER: Duration = Duration::from_secs(1);

/// Pauses between tries while the API server refuses or does not answer.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// A failure that lasts until the pause is this long is reported, since it takes somebody to repair it.
const LASTS: Duration = Duration::from_millis(800);

/// The journal of one process at the API server.
pub struct Keeper {
    /// Notified when the journal may have a request to the API server.
    wanted: Notify,
    /// Notified after each answer.
    answered: Notify,
    api: Api,
    namespace: String,
    metrics: Metrics,
    /// Fence of the election's lease, if there is one.
    fence: Option<Fence>,
}

impl std::fmt::Debug for Keeper {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Keeper").finish_non_exhaustive()
    }
}

impl Keeper {
    /// The journal in `namespace`; `fence` belongs to the election's lease, if there is one.
    #[must_use]
    pub fn new(api: Api, namespace: &str, metrics: &Metrics, fence: Option<Fence>) -> Self {
        Self {
            wanted: Notify::new(),
            answered: Notify::new(),
            api,
            namespace: namespace.to_owned(),
            metrics: metrics.clone(),
            fence,
        }
    }

    /// Whether the election's lease shows that no other process leads.
    fn leads(&self) -> bool {
        let fence = self.fence.as_ref();
        fence.is_some_and(|fence| fence.poll_send().is_ready())
    }

    /// Namespace of the journal.
    #[must_use]
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Wakes the sender, since there may be something to write.
    pub(super) fn look(&self) {
        self.wanted.notify_one();
    }
}

/// The journal of `driver` before its first request.
#[must_use]
pub fn journal(driver: &str, settings: &Settings, labels: &[(String, String)]) -> Journal {
    let node = settings.node.as_ref();
    Journal::new(Owner {
        lease: names::lease(LeaseOwner::Provisioner, driver),
        driver: driver.to_owned(),
        node: node.map(|node| node.name.to_string()).unwrap_or_default(),
        holder: settings.identity.clone(),
        labels: labels.to_vec(),
    })
}

impl Executor {
    /// Calls `look` with the journal; `None` if there is none, or the process is about to end.
    fn in_journal<T>(&self, look: impl FnOnce(&mut Journal) -> T) -> Option<T> {
        let engine = self.engine.upgrade()?;
        engine.turn(|provisioner, _| (provisioner.journal().map(look), Due::default()))
    }

    /// Waits until `look` returns something; it is called again after each answer.
    async fn until<T>(
        &self,
        keeper: &Keeper,
        mut look: impl FnMut(&mut Journal) -> Option<T>,
    ) -> T {
        loop {
            let answered = keeper.answered.notified();
            tokio::pin!(answered);
            // From here on no answer is missed.
            answered.as_mut().enable();
            if let Some(found) = self.in_journal(&mut look).flatten() {
                return found;
            }
            keeper.look();
            answered.await;
        }
    }

    fn next_request(&self, lazily: bool) -> Option<Request> {
        self.in_journal(|journal| journal.next(lazily)).flatten()
    }

    fn is_journal_open(&self) -> bool {
        self.in_journal(|journal| journal.is_open()) == Some(true)
    }

    /// Removes settled entries. Call it once no attempts are running any more.
    pub async fn flush_journal(&self) {
        let Some(keeper) = &self.journal else { return };
        let mut refused = BTreeSet::new();
        while self.is_journal_open()
            && let Some(request) = self.next_request(true)
        {
            match self.send(keeper, &request).await {
                Ok(Verdict::Go) => {}
                // The other objects have their turn first.
                Ok(Verdict::Later(error))
                    if error.refusal != Refusal::Unknown && refused.insert(request.number()) => {}
                Ok(Verdict::Later(_)) | Err(_) => return,
            }
        }
    }

    /// The next request that is due; `None` after a wait, when there may be one.
    async fn wait(&self, keeper: &Keeper, settled: &mut Settled) -> Option<Request> {
        let dirty = self.in_journal(|journal| journal.is_dirty()) == Some(true);
        let (due, until) = settled.look(dirty, Instant::now());
        let request = self.next_request(due);
        if request.is_none() {
            let wanted = keeper.wanted.notified();
            match until {
                Some(until) => drop(timeout_at(until, wanted).await),
                None => wanted.await,
            }
        }
        request
    }

    /// Waits while more calls are about to come.
    async fn gather(&self, keeper: &Keeper, until: Instant) {
        while self.in_journal(|journal| journal.may_grow()) == Some(true) {
            if timeout_at(until, keeper.wanted.notified()).await.is_err() {
                return;
            }
        }
    }

    async fn send(&self, keeper: &Keeper, request: &Request) -> Result<Verdict, Lost> {
        let sent = Instant::now();
        let answer = match self.ask(keeper, request).await {
            Ok(answer) => answer,
            Err(error) => Answer::Failed(error),
        };
        if let (Request::Write(write), Answer::Written { .. }) = (request, &answer) {
            keeper.metrics.committed(write.intents, sent.elapsed());
        }
        let sent = sent.into_std();
        let verdict = self.in_journal(|journal| journal.answered(request, answer, sent));
        keeper.answered.notify_waiters();
        // Without a journal there are no requests.
        verdict.unwrap_or(Ok(Verdict::Go))
    }

    async fn ask(&self, keeper: &Keeper, request: &Request) -> Result<Answer, ApiError> {
        let Keeper { api, namespace, .. } = keeper;
        let write = match request {
            Request::Read(number) => {
                let name = self.in_journal(|journal| journal.name(*number));
                let key = key(Some(namespace), &name.unwrap_or_default())?;
                return match api.get(&LEASES, &key).await {
                    Ok(json) => Ok(Answer::Found(Some(read(&json)?))),
                    Err(error) if error.is_not_found() => Ok(Answer::Found(None)),
                    Err(error) => Err(error),
                };
            }
            Request::Write(write) => write,
        };
        let body = write.body(namespace);
        let json = match write.version {
            None => api.create(&LEASES, Some(namespace), &body).await,
            Some(_) => {
                let key = key(Some(namespace), &write.name)?;
                api.update(&LEASES, &key, &body).await
            }
        };
        written(&json?)
    }
}

/// A Lease; `M` determines which of its metadata is read.
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
    labels: Option<BTreeMap<String, String>>,
    #[serde(default)]
    owner_references: Option<Vec<Value>>,
    #[serde(default)]
    finalizers: Option<Vec<String>>,
}

impl Metadata {
    fn found(self) -> Found {
        Found {
            uid: self.uid,
            version: self.resource_version,
            annotations: self.annotations.unwrap_or_default(),
            kept: KeptMetadata {
                labels: self.labels.unwrap_or_default(),
                owner_references: self.owner_references.unwrap_or_default(),
                finalizers: self.finalizers.unwrap_or_default(),
            },
        }
    }
}

/// The metadata that the API server sets; the rest was written, and is known.
fn written(json: &str) -> Result<Answer, ApiError> {
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

fn read(json: &str) -> Result<Found, ApiError> {
    Ok(lease::<Metadata>(json)?.found())
}

fn lease<'a, M: Deserialize<'a>>(json: &'a str) -> Result<M, ApiError> {
    let lease: Result<Lease<M>, _> = serde_json::from_str(json);
    let lease = lease.map_err(|error| ApiError::unreadable(&error))?;
    Ok(lease.metadata)
}

/// Keeps the journal up to date for ever; calls `hindered` with the reason why it cannot be written, and with `None`
/// when it can be written again.
///
/// Returns why this process has lost the journal: nothing may be done any more.
pub async fn keep_journal(engine: &Engine, hindered: impl Fn(Option<String>)) -> Lost {
    let executor = engine.shell();
    let Some(keeper) = &executor.journal else {
        return std::future::pending().await;
    };
    tokio::select! {
        lost = keep(engine, keeper, hindered) => lost,
        never = executor.send_heartbeats(keeper) => match never {},
    }
}

async fn keep(engine: &Engine, keeper: &Keeper, hindered: impl Fn(Option<String>)) -> Lost {
    let executor = engine.shell();
    let mut pause = FIRST_PAUSE;
    let mut settled = Settled::default();
    let mut reported = false;
    hindered(None);
    loop {
        let Some(request) = executor.wait(keeper, &mut settled).await else {
            continue;
        };
        let began = Instant::now();
        match executor.send(keeper, &request).await {
            Err(lost) => return lost,
            Ok(Verdict::Go) => {
                if matches!(request, Request::Write(_)) {
                    hindered(None);
                }
                pause = FIRST_PAUSE;
                reported = false;
            }
            Ok(Verdict::Later(error)) => {
                if !std::mem::replace(&mut reported, true) {
                    tracing::error!(err = %error, namespace = keeper.namespace, "Cannot write the provisioning journal; no volume is created until that works");
                }
                if pause >= LASTS {
                    hindered(Some(hindrance(&error)));
                }
                sleep(pause).await;
                pause = LONGEST_PAUSE.min(pause * 2);
            }
        }
        let now = Instant::now().into_std();
        engine.turn(|provisioner, informers| ((), provisioner.learn(informers, now)));
        if matches!(request, Request::Write(_)) && executor.is_journal_open() {
            let took = began.elapsed();
            sleep_until(began + PACE).await;
            executor
                .gather(keeper, began + GATHER.min(took * SHARE))
                .await;
        }
    }
}

impl Executor {
    /// Writes the request that the driver is about to get into the journal, and makes sure that no other process leads.
    pub(super) async fn intend(
        &self,
        prepared: &PinnedRequest,
        intent: Intent,
    ) -> Result<(), Unwritable> {
        let Some(keeper) = &self.journal else {
            return Ok(());
        };
        let written = self.write_down(keeper, intent).await;
        if let Err(error) = &written {
            let claim = &prepared.pv_template.claim;
            let claim = &*format!("{}/{}", claim.namespace, claim.name);
            verbose!(2, claim, err = %error, "Not in the provisioning journal");
        }
        written
    }

    async fn write_down(&self, keeper: &Keeper, intent: Intent) -> Result<(), Unwritable> {
        let now = Instant::now().into_std();
        let Some(ticket) = self.in_journal(|journal| journal.intend(intent, now)) else {
            // The process is about to end.
            return std::future::pending().await;
        };
        let ticket = ticket?;
        self.until(keeper, |journal| {
            journal.state(ticket, Instant::now().into_std(), keeper.leads())
        })
        .await
    }

    /// Whether the driver may be called: the request is in the journal, and no other process led a moment ago.
    pub(super) fn may_call(&self, claim_uid: &str) -> bool {
        let now = Instant::now().into_std();
        let leads = self.journal.as_ref().is_some_and(Keeper::leads);
        let engine = self.engine.upgrade();
        engine.is_some_and(|engine| {
            engine.turn(|provisioner, _| {
                (provisioner.may_call(claim_uid, now, leads), Due::default())
            })
        })
    }
}
