//! Many requests to the API server, several at once.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use bytes::Bytes;
use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use http::{Method, Request};
use http_body_util::BodyExt as _;
use kube::Client;
use kube::client::Body;
use kube::config::{Config, KubeConfigOptions, Kubeconfig};
use serde_json::Value;
use tokio::runtime::{Builder, Runtime};

/// Enough to keep two processors busy.
const AT_ONCE: usize = 24;

/// An administrator's client for many requests.
pub(crate) struct Load {
    pub(crate) runtime: Runtime,
    pub(crate) client: Client,
}

impl Load {
    pub(crate) fn new(kubeconfig: &Path) -> Result<Self> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()?;
        let client = runtime.block_on(async {
            let read = Kubeconfig::read_from(kubeconfig)?;
            let options = KubeConfigOptions::default();
            let config = Config::from_custom_kubeconfig(read, &options).await?;
            anyhow::Ok(Client::try_from(config)?)
        })?;
        Ok(Self { runtime, client })
    }

    /// POSTs each object to a collection. Returns the time it took.
    pub(crate) fn create(
        &self,
        collection: &str,
        objects: impl Iterator<Item = Value>,
    ) -> Result<Duration> {
        self.send(objects.map(|object| (Method::POST, collection.to_owned(), object.to_string())))
    }

    /// DELETEs each path. Returns the time it took.
    pub(crate) fn delete(&self, paths: impl Iterator<Item = String>) -> Result<Duration> {
        self.send(paths.map(|path| (Method::DELETE, path, String::new())))
    }

    /// Sends a merge patch to each path. Returns the time it took.
    pub(crate) fn merge(&self, patches: impl Iterator<Item = (String, Value)>) -> Result<Duration> {
        self.send(patches.map(|(path, patch)| (Method::PATCH, path, patch.to_string())))
    }

    fn send(&self, requests: impl Iterator<Item = (Method, String, String)>) -> Result<Duration> {
        let start = Instant::now();
        let all = stream::iter(requests)
            .map(|(method, path, body)| self.one(method, path, body))
            .buffer_unordered(AT_ONCE)
            .try_for_each(|_answer| std::future::ready(Ok(())));
        self.runtime.block_on(all)?;
        Ok(start.elapsed())
    }

    /// Sends one request and returns the answer.
    pub(crate) async fn one(&self, method: Method, path: String, body: String) -> Result<Bytes> {
        let kind = if method == Method::PATCH {
            "application/merge-patch+json"
        } else {
            "application/json"
        };
        self.typed(method, path, body, kind).await
    }

    /// Sends one strategic merge patch.
    pub(crate) async fn strategic(&self, path: String, patch: &Value) -> Result<Bytes> {
        let kind = "application/strategic-merge-patch+json";
        self.typed(Method::PATCH, path, patch.to_string(), kind)
            .await
    }

    async fn typed(&self, method: Method, path: String, body: String, kind: &str) -> Result<Bytes> {
        let what = format!("{method} {path}");
        let request = Request::builder().method(method).uri(&path);
        let request = request.header("content-type", kind);
        let response = self
            .client
            .send(request.body(Body::from(body.into_bytes()))?);
        let response = response.await.with_context(|| what.clone())?;
        let status = response.status();
        let answer = response.into_body().collect().await?.to_bytes();
        if !status.is_success() {
            bail!("{what}: {status}: {}", String::from_utf8_lossy(&answer));
        }
        Ok(answer)
    }

    /// GETs a JSON document.
    pub(crate) fn get(&self, path: &str) -> Result<Value> {
        let request = Request::get(path).body(Vec::new())?;
        Ok(self
            .runtime
            .block_on(self.client.request::<Value>(request))?)
    }
}
