//! Starts the operations of a pass once a second, and tracks the running ones.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use sidecar::error::Chain;
use sidecar::verbose;
use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::{Instant, sleep};
use tracing::error;

use super::plugin::Handlers;
use super::register::{OperationError, World, register, unregister};
use crate::kubelet::plan::operation::Operations;
use crate::kubelet::plan::pass::{Operation, plan_pass};
use crate::kubelet::plan::schedule::RECONCILE_PERIOD;

/// The reconciler's loop.
pub struct Reconciler {
    world: Arc<World>,
    handlers: Arc<Handlers>,
    operations: Operations,
    running: JoinSet<Result<(), OperationError>>,
    sockets: HashMap<Id, PathBuf>,
}

impl Reconciler {
    /// A loop that has not started.
    #[must_use]
    pub fn new(world: Arc<World>, handlers: Handlers) -> Self {
        Self {
            world,
            handlers: Arc::new(handlers),
            operations: Operations::default(),
            running: JoinSet::new(),
            sockets: HashMap::new(),
        }
    }

    /// Runs until dropped, which also drops the operations that are under way.
    pub async fn run(mut self) {
        loop {
            self.pass();
            let pause = sleep(RECONCILE_PERIOD);
            tokio::pin!(pause);
            loop {
                tokio::select! {
                    biased;
                    Some(ended) = self.running.join_next_with_id() => self.finish(ended),
                    () = &mut pause => break,
                }
            }
        }
    }

    fn pass(&mut self) {
        let now = Instant::now().into_std();
        let plan = plan_pass(&self.world.desired(), &self.world.actual());
        for operation in plan {
            // The next pass repeats refused operations.
            if self.operations.start(operation.socket(), now).is_ok() {
                self.spawn(operation);
            }
        }
        let desired = self.world.desired();
        self.operations
            .forget(now, |socket| desired.incarnation(socket).is_some());
    }

    fn spawn(&mut self, operation: Operation) {
        verbose!(4, ?operation, "operation started");
        let socket = operation.socket().clone();
        let (world, handlers) = (Arc::clone(&self.world), Arc::clone(&self.handlers));
        let task = self.running.spawn(async move {
            match operation {
                Operation::Register(socket, incarnation) => {
                    register(&world, &handlers, &socket, incarnation).await
                }
                Operation::Unregister(socket) => unregister(&world, &handlers, &socket).await,
            }
        });
        self.sockets.insert(task.id(), socket);
    }

    fn finish(&mut self, ended: Result<(Id, Result<(), OperationError>), JoinError>) {
        let (id, result) = match ended {
            Ok((id, Ok(()))) => (id, Ok(())),
            Ok((id, Err(error))) => (id, Err(Chain(&error).to_string())),
            Err(error) => (error.id(), Err(error.to_string())),
        };
        let Some(socket) = self.sockets.remove(&id) else {
            return;
        };
        let now = Instant::now().into_std();
        let pause = self.operations.finish(&socket, result.is_ok(), now);
        if let Err(error) = result {
            error!(
                socket = %socket.display(),
                next_attempt_after = ?pause.unwrap_or_default(),
                error,
                "operation failed"
            );
        }
    }
}
