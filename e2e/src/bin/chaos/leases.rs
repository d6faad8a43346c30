//! Records who leads: polls the leases and notes each change.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::Result;
use e2e::api::{Api, text};
use serde_json::Value;

use crate::cast::now_ns;
use crate::schedule::Who;
use crate::stage::DRIVER;
use crate::stale::Held;

const PERIOD: Duration = Duration::from_millis(250);

/// The changes so far.
#[derive(Debug, Default)]
pub(crate) struct Leases {
    held: Mutex<Vec<Held>>,
}

impl Leases {
    fn with<T>(&self, look: impl FnOnce(&mut Vec<Held>) -> T) -> T {
        look(&mut self.held.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// All changes, by time.
    pub(crate) fn all(&self) -> Vec<Held> {
        self.with(|held| held.clone())
    }

    /// The current holder of the lease, if there is one.
    pub(crate) fn holder(&self, of: Who) -> Option<String> {
        let last = self.with(|held| held.iter().rfind(|it| it.of == of).cloned());
        last.map(|it| it.holder).filter(|it| !it.is_empty())
    }

    /// Polls until `stop`. An API server that does not respond changes nothing.
    pub(crate) fn watch(&self, api: &Api, namespace: &str, stop: &AtomicBool) {
        while !stop.load(Ordering::Relaxed) {
            // Taken before the request: the change happened then or later.
            let from_ns = now_ns();
            for of in Who::ALL {
                if let Ok(Some(holder)) = holder(api, namespace, of) {
                    self.note(Held {
                        of,
                        from_ns,
                        holder,
                    });
                }
            }
            thread::sleep(PERIOD);
        }
    }

    fn note(&self, new: Held) {
        self.with(|held| {
            let last = held.iter().rfind(|it| it.of == new.of);
            if last.is_none_or(|last| last.holder != new.holder) {
                held.push(new);
            }
        });
    }
}

/// Name of the Lease.
pub(crate) fn name(of: Who) -> String {
    let driver = DRIVER.replace('.', "-");
    match of {
        Who::Provisioner => driver,
        Who::Attacher => format!("external-attacher-leader-{driver}"),
        Who::Resizer => format!("external-resizer-{driver}"),
        Who::Snapshotter => format!("external-snapshotter-leader-{driver}"),
        Who::SnapshotController => "snapshot-controller-leader".to_owned(),
    }
}

/// Path of the Leases of a namespace.
pub(crate) fn path(namespace: &str) -> String {
    format!("/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases")
}

fn holder(api: &Api, namespace: &str, of: Who) -> Result<Option<String>> {
    let lease: Option<Value> = api.find(&format!("{}/{}", path(namespace), name(of)))?;
    let holder = |lease: Value| {
        text(&lease, "/spec/holderIdentity")
            .unwrap_or_default()
            .to_owned()
    };
    Ok(lease.map(holder))
}
