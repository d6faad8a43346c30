//! Leadership around a controller's work: campaign, lead, hand over.

use std::time::Duration;

use ::kube::Client;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::flags::Election;
use super::serve::LeaderHealth;
use crate::election::{self, Elector, Fence};
use crate::flags::Exit;
use crate::kube::events::{Recorder, Reference, Severity, Source};
use crate::metrics::ElectionMetrics;
use crate::names::{self, LeaseOwner};

/// How long a leader may be without its driver while other replicas wait.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// How long the end of the process waits for events that are not written yet.
pub(super) const LAST_EVENTS: Duration = Duration::from_secs(1);

/// The namespace of the leases.
pub(super) fn namespace(election: &Election) -> String {
    let pod_namespace = std::env::var("POD_NAMESPACE").ok();
    let file = std::fs::read_to_string(names::NAMESPACE_FILE).ok();
    names::namespace(
        &election.namespace,
        pod_namespace.as_deref(),
        file.as_deref(),
    )
}

/// A candidate in a leader election.
#[derive(Debug)]
pub struct Candidate<'a> {
    /// The program that takes part.
    pub owner: LeaseOwner,
    /// The driver's name; empty for a controller without one.
    pub driver: &'a str,
    /// Settings from the flags.
    pub election: &'a Election,
    /// Counters of the election.
    pub metrics: &'a ElectionMetrics,
    /// Health check of the leadership.
    pub health: &'a LeaderHealth,
    /// Gates everything that needs the lease.
    pub fence: &'a Fence,
    /// Set if the process holds several leases.
    pub company: Option<&'a Company>,
}

/// How a process holds one of several leases.
#[derive(Clone, Debug)]
pub struct Company {
    /// Builds the holder identity from the host name; single programs never use this form.
    pub identity: fn(host: &str, head: &str) -> String,
    /// The controller whose lease is the head, which all controllers of the process need.
    pub head: &'static str,
    /// Former holders that may not work any more, because this process holds the head lease that they need.
    pub succeeds: Option<String>,
}

impl Candidate<'_> {
    /// Campaigns, then works while it leads, and hands the lease over when `work` has ended.
    ///
    /// `client` writes the lease and its events, the last of them after the lease is lost.
    /// `until` ends the campaign; while leading, `work` itself must watch for that.
    ///
    /// # Errors
    /// How the process ends: leadership is lost, or `until` or `work` failed.
    pub async fn lead(
        self,
        client: Client,
        until: impl Future<Output = Result<(), Exit>>,
        work: impl AsyncFnOnce() -> Result<(), Exit>,
    ) -> Result<(), Exit> {
        let (mut elector, events) = self.elector(client)?;
        let ended = tokio::select! {
            biased;
            () = elector.acquire() => None,
            result = until => Some(result),
        };
        let result = match ended {
            Some(result) => result,
            None => tokio::select! {
                biased;
                lost = elector.lead() => {
                    // No release: another replica leads, or will at any moment.
                    return Err(Exit::failure(1, format_args!("Stopped leading: {lost}")));
                }
                result = work() => result,
            },
        };
        // Work has stopped, whatever the reason: another replica may take over.
        elector.release().await;
        let _ = timeout(LAST_EVENTS, events).await;
        result
    }

    /// A standby elector, whose health is served from now on, and the task that writes its events until it is dropped.
    ///
    /// # Errors
    /// The host has no name, or no lease name can be built.
    pub fn elector(&self, client: Client) -> Result<(Elector, JoinHandle<()>), Exit> {
        let (config, events) = self.config(client.clone())?;
        let lease = config.name.clone();
        let elector = Elector::new(client, config);
        self.health.set(&lease, elector.health());
        Ok((elector, tokio::spawn(events)))
    }

    fn config(
        &self,
        client: Client,
    ) -> Result<(election::Config, impl Future<Output = ()> + Send + use<>), Exit> {
        let election = self.election;
        let namespace = namespace(election);
        let hostname = names::hostname()?;
        let name = names::lease(self.owner, self.driver);
        if !names::is_subdomain(&name) {
            let line = format!(
                "--leader-election: the API server refuses a Lease called {name:?}, so that nobody would \
                 ever lead: the driver calls itself {:?}, and its name must consist of lower-case \
                 letters, digits, - and ., with letters or digits at both ends",
                self.driver
            );
            return Err(Exit::failure(1, line));
        }
        let component = match self.owner {
            // Only upstream's resizer sanitizes the name that it passes to the library.
            LeaseOwner::Resizer => name.clone(),
            LeaseOwner::Attacher
            | LeaseOwner::Provisioner
            | LeaseOwner::Snapshotter
            | LeaseOwner::SnapshotController
            | LeaseOwner::HealthMonitor
            | LeaseOwner::Nobody => names::lease_unsanitized(self.owner, self.driver),
        };
        let source = Source {
            component: format!("{component}/{hostname}"),
            host: String::new(),
        };
        let (recorder, worker) = Recorder::new(client, source);
        let about = Reference {
            api_version: "coordination.k8s.io/v1".into(),
            kind: "Lease".into(),
            namespace: namespace.clone(),
            name: name.clone(),
            ..Reference::default()
        };
        let on_event = move |text: &str| {
            recorder.record(&about, Severity::Normal, "LeaderElection", text);
        };
        let own_name = names::identity(&hostname);
        let config = election::Config {
            namespace,
            identity: match self.company {
                Some(company) => (company.identity)(&own_name, company.head),
                None => own_name,
            },
            succeeds: self.company.and_then(|company| company.succeeds.clone()),
            timing: election.timing,
            labels: election.labels.clone(),
            metrics: Some(match self.company {
                Some(_) => self.metrics.named(&name),
                None => self.metrics.clone(),
            }),
            shown: self.company.map(|_| name.clone()).unwrap_or_default(),
            name,
            fence: self.fence.clone(),
            on_event: Box::new(on_event),
        };
        Ok((config, worker.run()))
    }
}
