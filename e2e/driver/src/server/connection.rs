//! One connection, which a rule may close.

use std::sync::Arc;

use tokio::sync::Notify;

/// A connection as its calls see it.
#[derive(Debug, Clone)]
pub struct Connection {
    number: u64,
    close: Arc<Notify>,
}

impl Connection {
    /// The connection of that number.
    pub fn new(number: u64) -> Self {
        Self {
            number,
            close: Arc::default(),
        }
    }

    /// Counted from 1 in one process.
    pub fn number(&self) -> u64 {
        self.number
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
