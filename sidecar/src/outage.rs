//! Whether something that work depends on does not answer, and when it answers again.
//!
//! Whoever asks it says what became of that; whoever waits out a back-off because of it is told.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

/// One lost answer is no outage: what failed with it keeps its back-off.
const LEAST: Duration = Duration::from_secs(1);

/// The state of one server; clones share it.
#[derive(Clone, Debug, Default)]
pub struct Outage {
    state: Arc<watch::Sender<State>>,
}

#[derive(Clone, Copy, Debug, Default)]
struct State {
    since: Option<Instant>,
    ended: u64,
}

impl Outage {
    /// A request got no answer.
    pub fn unanswered(&self) {
        self.state.send_if_modified(|state| {
            let news = state.since.is_none();
            state.since = state.since.or_else(|| Some(Instant::now()));
            news
        });
    }

    /// A request was served. Whether an outage ended with that.
    pub fn served(&self) -> bool {
        if !self.is_on() {
            return false;
        }
        let mut over = false;
        self.state.send_modify(|state| {
            over = state
                .since
                .take()
                .is_some_and(|since| since.elapsed() >= LEAST);
            state.ended += u64::from(over);
        });
        over
    }

    /// Whether the last request got no answer.
    pub fn is_on(&self) -> bool {
        self.state.borrow().since.is_some()
    }

    /// How many outages have ended.
    pub fn ended(&self) -> u64 {
        self.state.borrow().ended
    }

    /// Waits until a request got no answer.
    pub async fn begins(&self) {
        let mut state = self.state.subscribe();
        // Cannot fail: the sender lives in `self`.
        let _on = state.wait_for(|state| state.since.is_some()).await;
    }

    /// Waits until more than `ended` outages have ended.
    pub async fn ends(&self, ended: u64) {
        let mut state = self.state.subscribe();
        let _over = state.wait_for(|state| state.ended > ended).await;
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::{advance, timeout};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_outage_ends_with_the_first_answer_and_one_lost_answer_is_none() {
        let outage = Outage::default();
        assert!(!outage.served() && !outage.is_on());
        outage.unanswered();
        advance(LEAST / 2).await;
        outage.unanswered();
        assert!(outage.is_on());
        assert!(!outage.served(), "too short");
        assert!(!outage.is_on() && outage.ended() == 0);
        outage.unanswered();
        outage.begins().await;
        advance(LEAST).await;
        outage.unanswered();
        assert!(timeout(LEAST, outage.ends(0)).await.is_err());
        assert!(outage.clone().served());
        outage.ends(0).await;
        assert!(!outage.served() && outage.ended() == 1);
    }
}
