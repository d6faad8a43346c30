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
    /// The connection of that number, made by the process `caller`.
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

    /// Process id of whoever made it, if the system says so.
    pub fn caller(&self) -> Option<u32> {
        self.caller
    }

    /// Closes it without a word.
    pub fn close(&self) {
        self.close.notify_one();
    }

    /// Until someone closes it.
    pub async fn closed(&self) {
        self.close.notified().await;
    }
}
