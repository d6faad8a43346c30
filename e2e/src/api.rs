//! Plain requests to the API server, with the JSON that a user would see.

use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use futures_util::future;
use futures_util::stream::{self, StreamExt, TryStreamExt};
use http::Request;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::{Value, json};
use tokio::runtime::{Builder, Runtime};

use crate::wait;

/// Concurrent requests for many objects.
const AT_ONCE: usize = 16;
/// Time until a newly defined kind can be read.
const DEFINED: Duration = Duration::from_secs(30);

/// A client of one cluster with one user's credentials.
pub struct Api {
    runtime: Runtime,
    client: Client,
}

impl std::fmt::Debug for Api {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Api")
    }
}

impl Api {
    /// The user and server of a kubeconfig file.
    pub fn from_kubeconfig(file: &Path) -> Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let client = runtime.block_on(async {
            let read = Kubeconfig::read_from(file)
                .with_context(|| format!("cannot read {}", file.display()))?;
            let mut config =
                Config::from_custom_kubeconfig(read, &KubeConfigOptions::default()).await?;
            config.default_retry = false;
            anyhow::Ok(Client::try_from(config)?)
        })?;
        Ok(Self { runtime, client })
    }

    fn send(&self, request: Request<Vec<u8>>) -> Result<Value> {
        let what = format!("{} {}", request.method(), request.uri());
        let limit = Duration::from_secs(30);
        self.runtime
            .block_on(async {
                tokio::time::timeout(limit, self.client.request::<Value>(request)).await
            })
            .with_context(|| format!("{what}: no answer within {limit:?}"))?
            .with_context(|| what)
    }

    /// GET: an object, a list, or any JSON document. The storage of a newly defined kind answers 429 until it
    /// is initialized.
    pub fn get(&self, path: &str) -> Result<Value> {
        let begun = Instant::now();
        loop {
            match self.send(Request::get(path).body(Vec::new())?) {
                Err(error) if begun.elapsed() < DEFINED && is_initializing(&error) => {
                    sleep(Duration::from_millis(200));
                }
                answer => return answer,
            }
        }
    }

    /// GET of an object that may be absent.
    pub fn find(&self, path: &str) -> Result<Option<Value>> {
        match self.get(path) {
            Ok(value) => Ok(Some(value)),
            Err(error) if is_not_found(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// POST to a collection.
    pub fn create(&self, collection: &str, object: &Value) -> Result<Value> {
        let request = Request::post(collection).header("content-type", "application/json");
        self.send(request.body(serde_json::to_vec(object)?)?)
    }

    /// POSTs many objects, some of them concurrently.
    pub fn create_all(&self, collection: &str, objects: &[Value]) -> Result<()> {
        let requests = objects.iter().map(|object| {
            let request = Request::post(collection).header("content-type", "application/json");
            Ok(request.body(serde_json::to_vec(object)?)?)
        });
        self.send_all(requests)
    }

    /// DELETEs many objects, some of them concurrently; all of them must exist.
    pub fn delete_all(&self, paths: &[String]) -> Result<()> {
        let requests = paths.iter();
        self.send_all(requests.map(|path| Ok(Request::delete(path).body(Vec::new())?)))
    }

    fn send_all(&self, requests: impl Iterator<Item = Result<Request<Vec<u8>>>>) -> Result<()> {
        let requests: Vec<_> = requests.collect::<Result<_>>()?;
        let answers = stream::iter(requests)
            .map(|request| self.client.request::<Value>(request))
            .buffer_unordered(AT_ONCE)
            .try_for_each(|_| future::ready(Ok(())));
        Ok(self.runtime.block_on(answers)?)
    }

    /// Merge patch.
    pub fn merge(&self, path: &str, patch: &Value) -> Result<Value> {
        let request = Request::patch(path).header("content-type", "application/merge-patch+json");
        self.send(request.body(serde_json::to_vec(patch)?)?)
    }

    /// DELETE; an absent object counts as deleted.
    pub fn delete(&self, path: &str) -> Result<()> {
        self.delete_with(path, &json!({}))
    }

    /// DELETE with options such as `gracePeriodSeconds`.
    pub fn delete_with(&self, path: &str, options: &Value) -> Result<()> {
        let request = Request::delete(path).header("content-type", "application/json");
        match self.send(request.body(serde_json::to_vec(options)?)?) {
            Err(error) if !is_not_found(&error) => Err(error),
            _ => Ok(()),
        }
    }

    /// The events about an object, one a line, for error messages.
    pub fn events(&self, namespace: &str, name: &str) -> String {
        let path = format!("/api/v1/namespaces/{namespace}/events");
        let list = self.get(&format!("{path}?fieldSelector=involvedObject.name={name}"));
        let items = list.unwrap_or_default();
        let items = items.pointer("/items").and_then(Value::as_array).cloned();
        let lines = items.unwrap_or_default().into_iter().map(|event| {
            let reason = text(&event, "/reason").unwrap_or_default();
            format!(
                "    {reason}: {}",
                text(&event, "/message").unwrap_or_default()
            )
        });
        format!(
            "events of {name}:\n{}",
            lines.collect::<Vec<_>>().join("\n")
        )
    }

    /// Waits until the object is deleted.
    pub fn until_gone(&self, limit: Duration, path: &str) -> Result<()> {
        wait::until_true(limit, &format!("{path} is gone"), || {
            Ok(self.find(path)?.is_none())
        })
    }
}

fn is_not_found(error: &anyhow::Error) -> bool {
    has_code(error, 404)
}

fn is_initializing(error: &anyhow::Error) -> bool {
    has_code(error, 429)
}

fn has_code(error: &anyhow::Error, code: u16) -> bool {
    let is = |cause: &kube::Error| matches!(cause, kube::Error::Api(status) if status.code == code);
    error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<kube::Error>())
        .any(is)
}

/// A field of a JSON document as text; `None` if it is absent or no text.
pub fn text<'a>(value: &'a Value, pointer: &str) -> Option<&'a str> {
    value.pointer(pointer).and_then(Value::as_str)
}
