//! Authenticates and authorizes clients, by reviews of the API server.
//!
//! A review's result is kept for ten seconds, so that neither a client that calls often nor a flood of
//! one bad token costs two reviews per call. Tokens are kept whole: anything shorter could mistake one
//! for another.

use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sidecar::secure::cache::Cache;
use sidecar::secure::concurrency::{Busy, ConcurrencyLimit};
use sidecar::secure::reviews::User;
use tokio::time::Instant;

use super::objects::Objects;
use crate::plan::refusal::Refusal;
use crate::plan::request::LONGEST_TOKEN;
use crate::plan::resolve;

/// How long a review's result is kept.
const LIFE: Duration = Duration::from_secs(10);
/// How many accepted tokens, and how many rights, are kept.
const MOST: usize = 512;
/// How many refused tokens are kept.
const MOST_REFUSED: usize = 64;
/// Concurrent reviews, of all clients and of one address.
const REVIEWS: (usize, usize) = (16, 12);
/// How long a call waits until it may send a review.
const REVIEW_WAIT: Duration = Duration::from_secs(1);
/// Longest token whose result is kept.
const LONGEST: usize = 4 << 10;

/// Makes reviews.
#[derive(Debug)]
pub struct Reviews {
    objects: Objects,
    driver: String,
    /// `--audience`
    audience: Option<String>,
    limit: ConcurrencyLimit<IpAddr>,
    memory: Mutex<Memory>,
}

/// Cached results about a token.
enum Known {
    Nothing,
    /// The token is valid, and this is its user. Its right is not known.
    User(User),
    /// The token is refused, or the user may read the namespace.
    All(Result<Client, Refusal>),
}

#[derive(Debug)]
struct Memory {
    /// Audience and address of the SnapshotMetadataService.
    service: Cache<(), (String, String)>,
    accepted: Cache<String, User>,
    refused: Cache<String, ()>,
    allowed: Cache<(User, String), ()>,
}

/// A client that may read the VolumeSnapshots it asks for.
#[derive(Clone, Debug)]
pub struct Client {
    /// The authenticated user.
    pub user: User,
    /// `spec.address` of the SnapshotMetadataService; `None` if it was not read.
    pub address: Option<String>,
}

impl Memory {
    fn client(&self, user: User) -> Client {
        let service = self.service.get(&(), now());
        Client {
            user,
            address: service.map(|(_, address)| address),
        }
    }
}

impl Reviews {
    /// Reviews for clients of this driver's metadata.
    #[must_use]
    pub fn new(objects: Objects, driver: &str, audience: Option<String>) -> Self {
        Self {
            objects,
            driver: driver.to_owned(),
            audience,
            limit: ConcurrencyLimit::new(REVIEWS.0, REVIEWS.1),
            memory: Mutex::new(Memory {
                service: Cache::new(1, LIFE),
                accepted: Cache::new(MOST, LIFE),
                refused: Cache::new(MOST_REFUSED, LIFE),
                allowed: Cache::new(MOST, LIFE),
            }),
        }
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Authenticates the token, which came from `peer`, and checks that its user may read the
    /// namespace's VolumeSnapshots.
    ///
    /// # Errors
    /// The client may not, or the API server does not answer.
    pub async fn admit(
        &self,
        token: &str,
        namespace: &str,
        peer: IpAddr,
    ) -> Result<Client, Refusal> {
        if token.len() > LONGEST_TOKEN {
            return Err(resolve::unauthenticated());
        }
        if let Known::All(answer) = self.recall(token, namespace) {
            return answer;
        }
        let permit = self.limit.enter(&peer, REVIEW_WAIT).await;
        let _permit = permit.map_err(|Busy| Refusal::busy())?;
        // While this call waited, another one may have asked the same.
        let user = match self.recall(token, namespace) {
            Known::All(answer) => return answer,
            Known::User(user) => user,
            Known::Nothing => self.authenticate(token).await?,
        };
        let review = self.objects.review_access(&user, namespace).await?;
        resolve::authorized(&review)?;
        let right = (user.clone(), namespace.to_owned());
        let mut memory = self.memory();
        memory.allowed.put(right, (), now());
        Ok(memory.client(user))
    }

    fn recall(&self, token: &str, namespace: &str) -> Known {
        let (memory, now) = (self.memory(), now());
        let token = token.to_owned();
        if memory.refused.get(&token, now).is_some() {
            return Known::All(Err(resolve::unauthenticated()));
        }
        let Some(user) = memory.accepted.get(&token, now) else {
            return Known::Nothing;
        };
        let right = (user, namespace.to_owned());
        let is_allowed = memory.allowed.get(&right, now).is_some();
        let (user, _) = right;
        if is_allowed {
            return Known::All(Ok(memory.client(user)));
        }
        Known::User(user)
    }

    async fn authenticate(&self, token: &str) -> Result<User, Refusal> {
        let audience = self.audience().await?;
        let review = self.objects.review_token(token, &audience).await?;
        let user = resolve::authenticated(review, &audience);
        if token.len() <= LONGEST {
            let mut memory = self.memory();
            match &user {
                Ok(user) => memory.accepted.put(token.to_owned(), user.clone(), now()),
                Err(_) => memory.refused.put(token.to_owned(), (), now()),
            }
        }
        user
    }

    /// The audience that tokens need: `--audience`, else the SnapshotMetadataService's.
    async fn audience(&self) -> Result<String, Refusal> {
        if let Some(audience) = &self.audience {
            return Ok(audience.clone());
        }
        if let Some((audience, _)) = self.memory().service.get(&(), now()) {
            return Ok(audience);
        }
        let service = self.objects.service(&self.driver).await?;
        let known = (service.audience.clone(), service.address);
        self.memory().service.put((), known, now());
        Ok(service.audience)
    }
}

fn now() -> std::time::Instant {
    Instant::now().into_std()
}
