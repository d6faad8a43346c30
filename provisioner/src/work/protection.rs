//! Removes finalizers from data sources that nobody needs any more.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use sidecar::kube::cache::Cache;
use sidecar::kube::reflect::reflect_all;
use sidecar::kube::{access, api};
use sidecar::queue::Work;
use sidecar::verbose;
use tokio::time::sleep;

use super::api::{CLAIMS, SNAPSHOTS, edit, key};
use super::discovery::has_snapshots;
use super::provisioner::Provisioner;
use crate::keys::{CLONE_FINALIZER, SNAPSHOT_GROUP};
use crate::model::{Claim, Snapshot, Text};
use crate::plan::protection::{self, Release};

impl Provisioner {
    /// Works on cloned claims until the queue is shut down, then waits for what still runs.
    pub async fn serve_sources(self: &Arc<Self>) {
        let serve = self.cluster.source_queue.serve(|work| {
            let this = Arc::clone(self);
            async move { this.work_on_source(work).await }
        });
        serve.await;
    }

    async fn work_on_source(&self, work: Work<Text>) {
        let name = work.key().clone();
        let Some(source) = self.cluster.claims.get(&name) else {
            return work.done();
        };
        let failure = match self.release(&source) {
            Release::None => return work.done(),
            Release::Needed { by } => format!("the claim {by} is still being cloned from it"),
            Release::Due => match self.release_source(&source).await {
                Ok(()) => return work.done(),
                Err(error) if error.is_not_found() => return work.done(),
                Err(error) => error.to_string(),
            },
        };
        let wait = work.retry();
        verbose!(
            2,
            claim = &*name,
            retry_after = ?wait,
            err = failure,
            "The finalizer of a cloned claim stays"
        );
    }

    fn release(&self, source: &Claim) -> Release {
        let mut clones = Vec::new();
        self.cluster.claims.for_each(|_, claim| {
            if protection::clone_source(claim).is_some() {
                clones.push(Arc::clone(claim));
            }
        });
        let busy: Vec<Claim> = self.cluster.memory().busy_claims().cloned().collect();
        protection::release(source, clones.iter().map(|claim| &**claim).chain(&busy))
    }

    async fn release_source(&self, source: &Claim) -> Result<(), api::ApiError> {
        let key = key(Some(&source.namespace), &source.name)?;
        let is_same = |object: &Value| {
            object.pointer("/metadata/uid").and_then(Value::as_str) == Some(&*source.uid)
        };
        let change = |object: &mut Value| is_same(object) && protection::take_off_claim(object);
        if edit(&self.api, &CLAIMS, &key, change).await?.is_some() {
            tracing::info!(claim = %key, finalizer = CLONE_FINALIZER, "Removed the finalizer");
        }
        Ok(())
    }

    /// Sweeps finalizers off snapshots, at once and then every so often, if there are snapshots
    /// and they may be listed.
    pub async fn sweep_snapshots(
        &self,
        client: &kube::Client,
        every: Option<Duration>,
    ) -> Infallible {
        if let Some(every) = every
            && self.driver.current().abilities.snapshot
            && has_snapshots(&self.api).await
            && self.may_list_snapshots(client).await
        {
            let cache: Cache<Snapshot> = Cache::new(self.cluster.strings.clone(), |_| {});
            let watching = reflect_all(client, SNAPSHOTS, &cache, None);
            let sweeping = async {
                cache.synced().await;
                loop {
                    self.sweep(&cache).await;
                    sleep(every).await;
                }
            };
            return tokio::select! {
                never = watching => never,
                never = sweeping => never,
            };
        }
        std::future::pending().await
    }

    /// Without the permission, which the shipped manifests make optional, there is no sweep and no
    /// error again and again.
    async fn may_list_snapshots(&self, client: &kube::Client) -> bool {
        let rule = access::Rule::required(SNAPSHOT_GROUP, "volumesnapshots", &["list", "watch"]);
        let report = access::check(client, &[rule]).await;
        if !report.missing.is_empty() {
            tracing::info!("VolumeSnapshots may not be listed, their finalizers are not swept");
        }
        report.missing.is_empty()
    }

    async fn sweep(&self, snapshots: &Cache<Snapshot>) {
        let mut claims: Vec<Arc<Claim>> = Vec::new();
        self.cluster
            .claims
            .for_each(|_, claim| claims.push(Arc::clone(claim)));
        let busy: Vec<Claim> = self.cluster.memory().busy_claims().cloned().collect();
        let restored = protection::restored(claims.iter().map(|claim| &**claim).chain(&busy));
        let mut all: Vec<Arc<Snapshot>> = Vec::new();
        snapshots.for_each(|_, snapshot| all.push(Arc::clone(snapshot)));
        for snapshot in protection::orphans(all.iter().map(|one| &**one), &restored) {
            if let Err(error) = self
                .release_snapshot(&snapshot.namespace, &snapshot.name)
                .await
            {
                let (namespace, name) = (&*snapshot.namespace, &*snapshot.name);
                verbose!(2, namespace, name, err = %error, "The finalizer of a snapshot stays");
            }
        }
    }

    /// Takes the restore finalizer off a snapshot.
    pub(super) async fn release_snapshot(
        &self,
        namespace: &str,
        name: &str,
    ) -> Result<(), api::ApiError> {
        let key = key(Some(namespace), name)?;
        edit(&self.api, &SNAPSHOTS, &key, protection::take_off_snapshot).await?;
        Ok(())
    }
}
