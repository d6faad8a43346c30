//! TLS handshakes that leave CPU time for the rest of the program: each step may cost a signature, and any number of
//! clients may ask for one.

use std::future;
use std::io::{self, ErrorKind};
use std::net::IpAddr;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use tokio::task::yield_now;
use tokio::time::timeout;

use super::concurrency::ConcurrencyLimit;

/// Time limit of a client's handshake, including waits for its turn.
pub(crate) const LONGEST: Duration = Duration::from_secs(10);

/// All handshakes of a server. They advance by one step in each round of the program's tasks, and addresses take turns.
#[derive(Debug)]
pub struct Handshakes {
    turns: ConcurrencyLimit<IpAddr>,
}

impl Default for Handshakes {
    fn default() -> Self {
        Self {
            turns: ConcurrencyLimit::new(1, 1),
        }
    }
}

impl Handshakes {
    /// Performs the handshake of a client at `peer`.
    ///
    /// # Errors
    /// The handshake failed, or took longer than 10 s.
    pub async fn carry_out<T>(
        &self,
        peer: IpAddr,
        handshake: impl Future<Output = io::Result<T>>,
    ) -> io::Result<T> {
        let done = timeout(LONGEST, self.in_turn(peer.to_canonical(), handshake)).await;
        done.map_err(|_elapsed| io::Error::from(ErrorKind::TimedOut))?
    }

    async fn in_turn<T>(
        &self,
        peer: IpAddr,
        handshake: impl Future<Output = io::Result<T>>,
    ) -> io::Result<T> {
        let mut handshake = pin!(handshake);
        loop {
            let turn = self.turns.enter(&peer, LONGEST).await;
            let mut turn = Some(turn.map_err(|_busy| ErrorKind::TimedOut)?);
            let step = future::poll_fn(|context| {
                // Woken after its step.
                let Some(turn) = turn.take() else {
                    return Poll::Ready(None);
                };
                let step = handshake.as_mut().poll(context).map(Some);
                tokio::spawn(async move {
                    yield_now().await;
                    drop(turn);
                });
                step
            });
            if let Some(done) = step.await {
                return done;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    #[tokio::test]
    async fn o_47_the_rest_of_the_program_has_its_turn_between_two_handshakes() {
        let handshakes = Arc::new(Handshakes::default());
        let rounds = Arc::new(Mutex::new((0_u32, Vec::new())));
        let others = tokio::spawn({
            let rounds = Arc::clone(&rounds);
            async move {
                loop {
                    rounds.lock().unwrap().0 += 1;
                    yield_now().await;
                }
            }
        });
        let greetings = (0..50_u8).map(|number| {
            let (handshakes, rounds) = (Arc::clone(&handshakes), Arc::clone(&rounds));
            tokio::spawn(async move {
                let mut steps = 0;
                let handshake = future::poll_fn(move |context| {
                    let mut rounds = rounds.lock().unwrap();
                    let now = rounds.0;
                    rounds.1.push(now);
                    steps += 1;
                    if steps == 3 {
                        return Poll::Ready(Ok(()));
                    }
                    context.waker().wake_by_ref();
                    Poll::Pending
                });
                let peer = IpAddr::from([10, 0, 0, number % 5]);
                handshakes.carry_out(peer, handshake).await.unwrap();
            })
        });
        for greeting in greetings.collect::<Vec<_>>() {
            greeting.await.unwrap();
        }
        others.abort();
        let steps = std::mem::take(&mut rounds.lock().unwrap().1);
        assert_eq!(steps.len(), 150);
        assert!(steps.windows(2).all(|two| two[0] < two[1]), "{steps:?}");
    }
}
