//! A client's connection, as its calls know it, and the bound on the number of connections.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use sidecar::http::{Limits, Member, OpenConnections, Phase};

/// Every pod of the cluster can reach the port. A limit at which new connections are refused would let two addresses
/// that hold all of them lock out the rest, so a new connection closes another one instead: first one without an
/// authenticated call, then the oldest of the address that has the most.
const LIMITS: Limits = Limits {
    all: 1024,
    per_peer: 512,
};
const CLOSED: &str = "Too many connections to --port: ones without an authenticated call were closed, or the oldest ones \
                      of the address with the most";

/// No client is connected.
pub(super) fn open_connections() -> OpenConnections {
    OpenConnections::new(LIMITS, CLOSED)
}

/// One connection.
#[derive(Debug)]
pub struct Connection {
    /// The client's address.
    pub peer: IpAddr,
    member: Arc<Member>,
    /// Running calls whose client is authenticated.
    calls: AtomicUsize,
}

impl Connection {
    pub(super) fn new(peer: IpAddr, member: Arc<Member>) -> Arc<Self> {
        Arc::new(Self {
            peer,
            member,
            calls: AtomicUsize::new(0),
        })
    }

    /// The API server has vouched for the client of a call. Until the result is dropped, this connection is not among
    /// the first to be closed for a new one.
    #[must_use]
    pub fn authenticated(self: &Arc<Self>) -> Authenticated {
        self.calls.fetch_add(1, Ordering::Relaxed);
        self.member.enter(Phase::Answering);
        Authenticated(Arc::clone(self))
    }
}

/// An authenticated call that runs.
#[derive(Debug)]
pub struct Authenticated(Arc<Connection>);

impl Drop for Authenticated {
    fn drop(&mut self) {
        if self.0.calls.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.0.member.enter(Phase::Idle);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::time::Duration;

    use tokio::sync::oneshot::Receiver;
    use tokio::sync::oneshot::error::TryRecvError;
    use tokio::time::sleep;

    use super::*;

    struct Client {
        connection: Arc<Connection>,
        closed: Receiver<Infallible>,
    }

    impl Client {
        fn is_open(&mut self) -> bool {
            self.closed.try_recv() == Err(TryRecvError::Empty)
        }
    }

    fn connect(open: &OpenConnections, last: u8) -> Client {
        let peer = IpAddr::from([10, 0, 0, last]);
        let admitted = open.admit(peer);
        Client {
            connection: Connection::new(peer, admitted.member),
            closed: admitted.closed,
        }
    }

    fn count_open(clients: &mut [Client]) -> usize {
        let open = clients.iter_mut().map(|one| usize::from(one.is_open()));
        open.sum()
    }

    /// Two addresses hold every connection, with calls that never end or without any.
    #[tokio::test(start_paused = true)]
    async fn two_addresses_lock_nobody_out() {
        for are_authenticated in [false, true] {
            let open = open_connections();
            let mut good = connect(&open, 1);
            let reading = good.connection.authenticated();
            let mut hostile: Vec<_> = (0..LIMITS.all - 1)
                .map(|number| connect(&open, if number % 2 == 0 { 2 } else { 3 }))
                .collect();
            let _calls: Vec<_> = { hostile.iter() }
                .filter(|_| are_authenticated)
                .map(|one| one.connection.authenticated())
                .collect();
            sleep(Duration::from_secs(3)).await;
            let mut others: Vec<_> = (4..14).map(|last| connect(&open, last)).collect();
            assert_eq!(count_open(&mut others), 10);
            assert_eq!(count_open(&mut hostile), LIMITS.all - 1 - 10);
            // More of the hostile ones close each other.
            let mut more: Vec<_> = (0..2000).map(|_| connect(&open, 2)).collect();
            assert_eq!(
                count_open(&mut others),
                10,
                "they have had no time for a call"
            );
            assert!(good.is_open());
            let hostile = count_open(&mut hostile) + count_open(&mut more);
            assert_eq!(hostile, LIMITS.all - 11, "the bound holds");
            drop(reading);
        }
    }

    /// As behind a node's address, from which all its pods come.
    #[tokio::test(start_paused = true)]
    async fn a_running_call_outlives_a_flood_from_its_own_address() {
        let open = open_connections();
        let mut good = connect(&open, 1);
        let _reading = good.connection.authenticated();
        let _flood: Vec<_> = (0..2000).map(|_| connect(&open, 1)).collect();
        assert!(good.is_open());
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_is_spared_while_its_last_authenticated_call_runs() {
        let open = open_connections();
        let mut good = connect(&open, 1);
        let calls = [
            good.connection.authenticated(),
            good.connection.authenticated(),
        ];
        let [first, second] = calls;
        let _others: Vec<_> = (1..LIMITS.all).map(|_| connect(&open, 2)).collect();
        drop(first);
        sleep(Duration::from_secs(3)).await;
        let _new = connect(&open, 3);
        assert!(good.is_open());
        drop(second);
        sleep(Duration::from_secs(3)).await;
        // Now it is one of those without a call, and the others have waited for longer.
        let _more: Vec<_> = (0..LIMITS.all - 2).map(|_| connect(&open, 2)).collect();
        assert!(good.is_open());
        let _last = connect(&open, 2);
        assert!(!good.is_open());
    }
}
