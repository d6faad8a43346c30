//! A single task: calls the driver and writes an object, or removes one.

use std::fmt;
use std::sync::Arc;

use csi_proto::csi::GetCapacityRequest;
use csi_proto::csi::controller_client::ControllerClient;
use serde_json::Value;
use sidecar::csi::call;
use sidecar::error::Chain;
use sidecar::kube::api::ApiError;
use sidecar::kube::cache::Record;
use sidecar::kube::key::Key;
use sidecar::queue::Work;
use sidecar::verbose;

use super::super::api::CAPACITIES;
use super::Capacity;
use crate::model::StorageCapacity;
use crate::plan::capacity::{FreeCapacity, Item, Step, Task, request};
use crate::plan::outcome::RpcError;

/// Why a task is retried.
#[derive(Debug, thiserror::Error)]
enum Failure {
    /// The driver refused, or did not answer.
    #[error("failed to get storage capacity: {0}")]
    Driver(RpcError),
    /// The driver's answer is invalid.
    #[error(transparent)]
    Answer(#[from] crate::plan::capacity::Negative),
    /// The API server refused, or did not answer.
    #[error("failed to write CSIStorageCapacity: {0}")]
    Api(#[from] ApiError),
}

impl Capacity {
    pub(super) async fn work(&self, work: Work<Task>) {
        let result = match work.key() {
            Task::Refresh(item) => self.refresh(item).await,
            Task::Remove(name) => self.remove(name).await,
        };
        let Err(failure) = result else {
            return work.done();
        };
        let task = Shown(work.key()).to_string();
        let wait = work.retry();
        tracing::error!(%task, retry_after = ?wait, err = %failure, "Storage capacity is not up to date");
    }

    async fn refresh(&self, item: &Item) -> Result<(), Failure> {
        if self.desired().wanted(item).is_none() {
            return Ok(());
        }
        // Without its class the item is about to be removed.
        let Some(class) = self.classes.get(&item.class) else {
            return Ok(());
        };
        let free = self.ask(request(item, &class)).await?;
        // The objects may have changed during the call.
        let Some(object) = self.desired().wanted(item) else {
            return Ok(());
        };
        match self.producer.decide(item, free, object.as_deref()) {
            Step::Keep => Ok(()),
            Step::Create(body) => self.create(item, &body).await,
            Step::Update(name, body) => self.update(&name, &body).await,
        }
    }

    async fn ask(&self, request: GetCapacityRequest) -> Result<FreeCapacity, Failure> {
        let channel = self.driver.channel().await.map_err(Failure::Driver)?;
        let mut client = ControllerClient::new(channel);
        let answer = call(self.driver.timeout(), request, async |request| {
            client.get_capacity(request).await
        });
        let answer = answer.await;
        let answer = answer.map_err(|status| Failure::Driver(RpcError::from(&status)))?;
        Ok(FreeCapacity::new(&answer)?)
    }

    async fn create(&self, item: &Item, body: &Value) -> Result<(), Failure> {
        let namespace = Some(self.producer.namespace.as_str());
        self.desired().begin_create(item);
        let answer = self.api.create(&CAPACITIES, namespace, body).await;
        let created = answer.and_then(|answer| self.read(&answer));
        let tasks = self
            .desired()
            .end_create(item, created.as_ref().ok().map(Arc::clone));
        self.add(tasks);
        let object = created?;
        verbose!(5, item = %Shown(&Task::Refresh(item.clone())), object = &*object.name, "Created CSIStorageCapacity");
        Ok(())
    }

    async fn update(&self, name: &str, body: &Value) -> Result<(), Failure> {
        let key = self.key(name)?;
        let own = self.objects.begin_write(&key);
        match self.api.update(&CAPACITIES, &key, body).await {
            Ok(answer) => {
                let taken = own.answered(&answer);
                taken.map_err(|error| ApiError::unreadable(&Chain(&error)))?;
                verbose!(5, object = name, "Updated CSIStorageCapacity");
                Ok(())
            }
            Err(error) if error.is_not_found() => {
                drop(own);
                self.gone(name);
                Ok(())
            }
            Err(error) => Err(error.into()),
        }
    }

    async fn remove(&self, name: &str) -> Result<(), Failure> {
        let Some(object) = self.desired().obsolete(name) else {
            return Ok(());
        };
        let key = self.key(name)?;
        let deleted = self.api.delete(&CAPACITIES, &key, Some(&object.uid));
        match deleted.await {
            // The watch reports when it is gone.
            Ok(_) => {
                verbose!(5, object = name, "Deleted CSIStorageCapacity");
                Ok(())
            }
            Err(error) if error.is_not_found() => {
                self.gone(name);
                Ok(())
            }
            // Another object has this name; the watch reports it.
            Err(error) if error.is_conflict() => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn gone(&self, name: &str) {
        let tasks = self.desired().object_gone(name);
        self.add(tasks);
    }

    fn read(&self, json: &str) -> Result<Arc<StorageCapacity>, ApiError> {
        let wire = serde_json::from_str(json).map_err(|error| ApiError::unreadable(&error))?;
        let object = StorageCapacity::from_wire(wire, &self.strings);
        let named = object.filter(|object| !object.name.is_empty());
        let object = named.ok_or_else(|| ApiError::unreadable(&"no CSIStorageCapacity"))?;
        Ok(Arc::new(object))
    }

    fn key(&self, name: &str) -> Result<Key, ApiError> {
        let key = Key::new(Some(&self.producer.namespace), name);
        key.ok_or_else(|| ApiError::local(format!("{name:?} is no object name")))
    }
}

/// A task as the log shows it.
struct Shown<'a>(&'a Task);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Task::Remove(name) => write!(out, "remove {name}"),
            Task::Refresh(item) => {
                write!(out, "{} in {{", item.class)?;
                for (index, (key, value)) in item.segment.iter().enumerate() {
                    let comma = if index == 0 { "" } else { ", " };
                    write!(out, "{comma}{key}={value}")?;
                }
                out.write_str("}")
            }
        }
    }
}
