//! A model of a CSI driver: volumes with state, capability sets, faults and a record of every call.
//!
//! It listens on a unix socket, or is called in process through [`FakeDriver::channel`], with which paused time
//! works.

pub mod fault;
mod group;
mod health;
mod listen;
mod metadata;
mod model;
mod node;
pub mod record;
pub mod scripted;
mod service;
mod snapshot;
mod volume;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fault::{CallFault, CallFaultHandle, CallFaults};
pub use model::{ControllerRpc, GroupRpc, Model, NodeRpc, Part, PluginService, Probe, Volume};
use record::Call;

/// The model driver; clones share one state.
#[derive(Clone)]
pub struct FakeDriver {
    shared: Arc<Shared>,
}

struct Shared {
    state: Mutex<State>,
    /// Grows with every call, response and change.
    changes: tokio::sync::watch::Sender<u64>,
    /// Number of connections ever accepted.
    accepted: AtomicUsize,
    /// Number of open connections.
    open: AtomicUsize,
    directory: tempfile::TempDir,
    listening: Mutex<Option<listen::Listening>>,
}

struct Weak(std::sync::Weak<Shared>);

impl Weak {
    fn upgrade(&self) -> Option<FakeDriver> {
        let shared = self.0.upgrade()?;
        Some(FakeDriver { shared })
    }
}

struct State {
    model: Model,
    faults: CallFaults,
    calls: Vec<Call>,
    /// Number of calls ever received.
    arrived: usize,
    in_flight: BTreeMap<(&'static str, Vec<String>), usize>,
    peaks: BTreeMap<&'static str, usize>,
    overlaps: Vec<String>,
}

impl fmt::Debug for FakeDriver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FakeDriver").finish_non_exhaustive()
    }
}

/// The state that a driver keeps across a restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Memory {
    /// Volumes and attachments, like a driver in front of a storage system.
    Kept,
    /// Only its configuration.
    Lost,
}

impl FakeDriver {
    /// A driver with the controller service that publishes volumes; it does not listen yet.
    ///
    /// # Panics
    ///
    /// If no temporary directory can be made.
    #[must_use]
    pub fn new(name: &str) -> Self {
        let state = State {
            model: Model::new(name),
            faults: CallFaults::default(),
            calls: Vec::new(),
            arrived: 0,
            in_flight: BTreeMap::new(),
            peaks: BTreeMap::new(),
            overlaps: Vec::new(),
        };
        let shared = Shared {
            state: Mutex::new(state),
            changes: tokio::sync::watch::Sender::new(0),
            accepted: AtomicUsize::new(0),
            open: AtomicUsize::new(0),
            directory: tempfile::tempdir().expect("make a temporary directory"),
            listening: Mutex::new(None),
        };
        Self {
            shared: Arc::new(shared),
        }
    }

    /// A handle for the listening task, which must not keep the driver alive.
    fn weak(&self) -> Weak {
        Weak(Arc::downgrade(&self.shared))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        let state = self.shared.state.lock();
        state.unwrap_or_else(PoisonError::into_inner)
    }

    fn changed(&self) {
        self.shared.changes.send_modify(|count| *count += 1);
    }

    /// Changes the driver's configuration and state.
    pub fn configure(&self, change: impl FnOnce(&mut Model)) {
        change(&mut self.state().model);
        self.changed();
    }

    /// Path of the socket, which exists while the driver listens.
    #[must_use]
    pub fn socket(&self) -> PathBuf {
        self.directory().join("csi.sock")
    }

    /// The private directory of the socket.
    #[must_use]
    pub fn directory(&self) -> &Path {
        self.shared.directory.path()
    }

    /// The socket in the form of `--csi-address`.
    #[must_use]
    pub fn address(&self) -> String {
        format!("unix://{}", self.socket().display())
    }

    /// Listens on the socket. Must be called within a tokio runtime.
    pub fn start(&self) {
        let listening = listen::listen(self, &self.socket());
        *self.listening() = Some(listening);
    }

    /// Leaves new connections waiting and keeps the existing ones, like a process without free file descriptors.
    pub fn stop_accepting(&self) {
        if let Some(listening) = &*self.listening() {
            listening.stop_accepting();
        }
    }

    /// Ends every connection gracefully (GOAWAY) and keeps listening, as gRPC servers do with idle or old
    /// connections.
    pub fn end_connections(&self) {
        if let Some(listening) = &*self.listening() {
            listening.end_connections();
        }
    }

    /// Closes the listener and every connection, and removes the socket. Calls in flight are lost.
    pub fn stop(&self) {
        *self.listening() = None;
        // Absent if the driver was not listening.
        let _ = std::fs::remove_file(self.socket());
    }

    /// Stops and starts again at once.
    pub fn restart(&self, memory: Memory) {
        self.stop();
        if memory == Memory::Lost {
            self.configure(Model::forget);
        }
        self.start();
    }

    /// Number of connections to the socket so far.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.shared.accepted.load(Ordering::SeqCst)
    }

    /// Number of connections to the socket that have not ended; those that [`stop`](Self::stop) ends still count.
    #[must_use]
    pub fn open_connections(&self) -> usize {
        self.shared.open.load(Ordering::SeqCst)
    }

    fn listening(&self) -> MutexGuard<'_, Option<listen::Listening>> {
        let listening = self.shared.listening.lock();
        listening.unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a fault to the calls.
    pub fn fault(&self, fault: CallFault) -> CallFaultHandle {
        self.state().faults.add(fault)
    }

    /// Removes all faults.
    pub fn clear_faults(&self) {
        self.state().faults.clear();
    }

    /// Adds an existing volume.
    pub fn volume(&self, handle: &str) {
        self.configure(|model| model.add(handle));
    }

    /// The currently published pairs of volume and node.
    #[must_use]
    pub fn published(&self) -> BTreeSet<(String, String)> {
        self.state().model.published()
    }

    /// All calls since the start, in order of arrival.
    #[must_use]
    pub fn calls(&self) -> Vec<Call> {
        self.state().calls.clone()
    }

    /// The calls of one method.
    #[must_use]
    pub fn calls_to(&self, method: &str) -> Vec<Call> {
        let state = self.state();
        let calls = state.calls.iter().filter(|call| call.method == method);
        calls.cloned().collect()
    }

    /// Clears the finished calls.
    pub fn clear_calls(&self) {
        self.state().calls.retain(Call::is_running);
    }

    /// The maximum number of concurrent calls of a method so far.
    #[must_use]
    pub fn peak(&self, method: &str) -> usize {
        self.state().peaks.get(method).copied().unwrap_or(0)
    }

    /// Controller calls that arrived while another one for the same volume and node was running.
    #[must_use]
    pub fn overlaps(&self) -> Vec<String> {
        self.state().overlaps.clone()
    }

    /// Waits until `condition` holds, checked after every call, response and change.
    ///
    /// There is no built-in time limit: a test wraps it in `tokio::time::timeout`.
    pub async fn until(&self, mut condition: impl FnMut(&Self) -> bool) {
        let mut changes = self.shared.changes.subscribe();
        while !condition(self) {
            // The sender lives in `self`, so waiting cannot fail.
            let _ = changes.changed().await;
        }
    }
}
