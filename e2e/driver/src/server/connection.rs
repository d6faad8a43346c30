//! One connection, which a rule may close.

use std::sync::Arc;

use tokio::sync::Notify;

/// A connection as its calls see it.
#[derive(Debug, Clone)]
pub struct Connection {
    number: u64,
    caller: Option<u32>,
    close: Arc<Notify>,
}

impl Connection {
    /// A connection with this number from the process `caller`.
    pub fn new(number: u64, caller: Option<u32>) -> Self {
        Self {
            number,
            caller,
            close: Arc::default(),
        }
    }

    /// Counted from 1 in one process.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Process ID of the client, if the system knows it.
    pub fn caller(&self) -> Option<u32> {
        self.caller
    }

    /// Closes it abruptly.
    pub fn close(&self) {
        self.close.notify_one();
    }

    /// Waits until it is closed.
    pub async fn closed(&self) {
        self.close.notified().await;
    }
}
