//! The last check of the lease before bytes leave the process.
//!
//! A process may be stopped at any instruction, or the machine suspended, and afterwards earlier
//! decisions are carried out as if no time had passed: dozens of tasks run before the first timer.
//! Meanwhile another process may lead. So the age of the lease is checked once more where bytes are
//! handed to the kernel, below every queue and every wait: on the connections to the API server (except
//! the election's own) and to the driver. Once another process may hold the lease, nothing is sent any
//! more and callers get no answer; the process exits, or goes on with other connections under the next
//! lease.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use crate::clock;

/// Whether this process may still act. Clones share one state. Open until a lease is held, and for ever
/// without leader election.
#[derive(Clone, Debug, Default)]
pub struct Fence(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    lease: Lease,
    /// The previous leader's last renewal of the lease, in seconds since 1970.
    predecessor: Option<i64>,
    /// The elector's waker, called when something was blocked.
    elector: Option<Waker>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Lease {
    /// There is no election, or it was not won yet. Standbys read and ask the driver for its identity.
    #[default]
    Unheld,
    /// No other process takes the lease before this time on the clock of [`clock::now`].
    Until(Instant),
    /// The lease was lost or released.
    Over,
}

impl Fence {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that the lease is held until `end`.
    pub fn hold_until(&self, end: Instant) {
        self.state().lease = Lease::Until(end);
    }

    /// Records the previous leader's last renewal, in seconds since 1970, by the API server's clock if the lease
    /// contains that time.
    pub fn follow(&self, renewed: Option<i64>) {
        self.state().predecessor = renewed;
    }

    /// The previous leader's last renewal of the lease, in seconds since 1970; `None` without a previous leader.
    pub fn predecessor(&self) -> Option<i64> {
        self.state().predecessor
    }

    /// A fence that blocks everything until a lease is held.
    #[must_use]
    pub fn closed() -> Self {
        let this = Self::default();
        this.close();
        this
    }

    /// Records that the lease is no longer held.
    pub fn close(&self) {
        self.state().lease = Lease::Over;
    }

    /// Ready if sending is allowed now; otherwise pending for ever, and the elector is woken.
    pub fn poll_send(&self) -> Poll<()> {
        let mut state = self.state();
        if state.lease.is_over() {
            if let Some(elector) = state.elector.take() {
                elector.wake();
            }
            return Poll::Pending;
        }
        Poll::Ready(())
    }

    /// Like [`poll_send`](Self::poll_send), for a connection: once the lease is known to be over, nobody
    /// waits for the blocked bytes, and the connection can end.
    ///
    /// # Errors
    /// The lease is no longer held.
    pub fn poll_write(&self) -> Poll<io::Result<()>> {
        if self.state().lease == Lease::Over {
            return Poll::Ready(Err(io::Error::other(
                "this process no longer holds the lease",
            )));
        }
        self.poll_send().map(Ok)
    }

    /// Ready once the lease is over. Has no timer of its own: the end is noticed when this is polled, or
    /// when something was blocked.
    pub fn poll_over(&self, context: &Context<'_>) -> Poll<()> {
        let mut state = self.state();
        if state.lease.is_over() {
            return Poll::Ready(());
        }
        state.elector = Some(context.waker().clone());
        Poll::Pending
    }
}

impl Lease {
    fn is_over(self) -> bool {
        match self {
            Self::Unheld => false,
            Self::Until(end) => clock::now() >= end,
            Self::Over => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::time::Duration;

    use tokio::time::{advance, sleep, timeout};

    use super::*;

    const S: Duration = Duration::from_secs(1);

    #[test]
    fn without_election_and_before_it_is_won_everything_passes() {
        assert!(Fence::default().poll_send().is_ready());
    }

    #[tokio::test(start_paused = true)]
    async fn fs_9_no_timer_has_to_run_for_the_fence_to_close() {
        let fence = Fence::default();
        fence.hold_until(clock::now() + 10 * S);
        advance(9 * S).await;
        assert!(fence.poll_send().is_ready());
        fence.hold_until(clock::now() + 10 * S);
        advance(9 * S).await;
        assert!(fence.poll_send().is_ready(), "renewed");
        advance(S).await;
        assert!(fence.poll_send().is_pending());
    }

    #[tokio::test(start_paused = true)]
    async fn fs_9_a_suspended_machine_closes_the_fence() {
        let fence = Fence::default();
        fence.hold_until(clock::now() + 10 * S);
        clock::testing::SUSPENDED.set(9 * S);
        assert!(fence.poll_send().is_ready());
        clock::testing::SUSPENDED.set(10 * S);
        assert!(fence.poll_send().is_pending());
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_held_back_wakes_the_elector() {
        let fence = Fence::default();
        fence.hold_until(clock::now() + 10 * S);
        let elector = tokio::spawn({
            let fence = fence.clone();
            async move { poll_fn(|context| fence.poll_over(context)).await }
        });
        tokio::task::yield_now().await;
        // Nothing else would wake it: timers do not notice that the machine was suspended.
        clock::testing::SUSPENDED.set(60 * S);
        sleep(S).await;
        assert!(!elector.is_finished());
        assert!(fence.poll_send().is_pending());
        timeout(S, elector).await.unwrap().unwrap();
    }

    #[test]
    fn a_fence_can_begin_closed_and_opens_with_the_lease() {
        let fence = Fence::closed();
        assert!(fence.poll_send().is_pending());
        fence.hold_until(clock::now() + 10 * S);
        assert!(fence.poll_send().is_ready());
    }

    #[tokio::test(start_paused = true)]
    async fn connections_end_once_it_is_known_that_the_lease_is_over() {
        let fence = Fence::default();
        fence.hold_until(clock::now() + 10 * S);
        assert!(matches!(fence.poll_write(), Poll::Ready(Ok(()))));
        advance(10 * S).await;
        assert!(fence.poll_write().is_pending(), "the elector says so first");
        fence.close();
        assert!(matches!(fence.poll_write(), Poll::Ready(Err(_))));
    }

    #[test]
    fn a_lease_that_was_given_away_closes_it_at_once() {
        let fence = Fence::default();
        fence.hold_until(clock::now() + 10 * S);
        fence.close();
        assert!(fence.poll_send().is_pending());
    }
}
