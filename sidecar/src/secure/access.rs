//! Authorizes requests to an HTTP server, by asking the API server.
//!
//! An answer of the API server counts for a while, so that a scraper costs one review in some minutes. The load that
//! strangers can cause is bounded: concurrent reviews and reviews per second, of all and of one address, and the
//! memory of answers. Only a hash of a token is kept. Addresses take turns, and clients accepted during the last
//! minutes have a share of the reviews that no stranger can use up.

use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http::header::AUTHORIZATION;
use http::request::Parts;
use http::{HeaderMap, Method, StatusCode};
use serde_json::json;
use tokio::time::{Instant, sleep, timeout};

use super::cache::Cache;
use super::concurrency::{Busy, ConcurrencyLimit, Permit};
use super::der;
use super::reviews::{RULES, User, review_access, review_token};
use crate::http::Reply;
use crate::in_cluster::sha256;
use crate::kube::access::{Missing, Rule};
use crate::kube::api::{Api, ApiError};

/// How long an answer of the API server counts, as in Kubernetes' own components.
mod life {
    use std::time::Duration;

    pub(super) const TOKEN: Duration = Duration::from_secs(60);
    pub(super) const ALLOWED: Duration = Duration::from_secs(300);
    pub(super) const DENIED: Duration = Duration::from_secs(30);
    /// How long an accepted client stays known: several scrapes.
    pub(super) const KNOWN: Duration = Duration::from_secs(900);
}

/// Number of remembered answers of each of the four sorts.
const MOST: usize = 250;
/// Longer paths are not remembered.
const LONGEST: usize = 256;
/// Time limit of waiting for a review's turn.
const REVIEW_WAIT: Duration = Duration::from_secs(2);
/// Time limit of waiting for another client's review of the same key: as long as a review may take.
const SAME: Duration = Duration::from_secs(10);

/// Limits of reviews, for all clients and for one address.
struct Limits {
    at_once: (usize, usize),
    per_second: (usize, usize),
}

const STRANGERS: Limits = Limits {
    at_once: (7, 5),
    per_second: (15, 10),
};
/// Limits of clients that were accepted before.
const KNOWN: Limits = Limits {
    at_once: (3, 3),
    per_second: (5, 5),
};

/// A hash of a token.
type Hash = Vec<u8>;
/// A user, and the verb and path that it requests.
type Question = (User, String, String);

/// Authorizes requests.
#[derive(Debug)]
pub struct Access {
    api: Api,
    /// `--authorization-always-allow-paths`
    open: Vec<String>,
    strangers: Share,
    known: Share,
    /// The users of tokens.
    tokens: Verdicts<Hash, User>,
    /// The answers to whether a user may do what it requests.
    questions: Verdicts<Question, ()>,
}

/// The API server's answers, and at most one review of a key at a time.
#[derive(Debug)]
struct Verdicts<K, V> {
    memory: Mutex<Memory<K, V>>,
    reviews: ConcurrencyLimit<K>,
}

#[derive(Debug)]
struct Memory<K, V> {
    accepted: Cache<K, V>,
    refused: Cache<K, ()>,
}

impl<K: Ord + Clone, V: Clone> Verdicts<K, V> {
    fn new(accepted: Duration, refused: Duration) -> Self {
        Self {
            memory: Mutex::new(Memory {
                accepted: Cache::new(MOST, accepted).known_for(life::KNOWN),
                refused: Cache::new(MOST, refused),
            }),
            reviews: ConcurrencyLimit::new(usize::MAX, 1),
        }
    }

    fn memory(&self) -> MutexGuard<'_, Memory<K, V>> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The remembered answer, if it is still valid: `Some(None)` is a refusal.
    fn recall(&self, key: &K) -> Option<Option<V>> {
        let (memory, now) = (self.memory(), now());
        if memory.refused.get(key, now).is_some() {
            return Some(None);
        }
        memory.accepted.get(key, now).map(Some)
    }

    /// The remembered answer, or that of `review`, whose argument tells whether the key was accepted during the last
    /// minutes. `None` is a refusal.
    async fn of(
        &self,
        key: &K,
        is_kept: bool,
        review: impl AsyncFnOnce(bool) -> Result<Option<V>, Reply>,
    ) -> Result<Option<V>, Reply> {
        if let Some(answer) = self.recall(key) {
            return Ok(answer);
        }
        let alone = self.reviews.enter(key, SAME).await;
        let _alone = alone.map_err(|Busy| busy())?;
        // The request for which this one waited may have asked the same.
        if let Some(answer) = self.recall(key) {
            return Ok(answer);
        }
        let is_known = self.memory().accepted.knows(key, now());
        let answer = review(is_known).await?;
        if is_kept {
            let mut memory = self.memory();
            match answer.clone() {
                Some(value) => memory.accepted.put(key.clone(), value, now()),
                None => memory.refused.put(key.clone(), (), now()),
            }
        }
        Ok(answer)
    }
}

/// The reviews that one group of clients may cause.
#[derive(Debug)]
struct Share {
    /// Lets one request per address wait for the limits that all share.
    turns: ConcurrencyLimit<IpAddr>,
    at_once: ConcurrencyLimit<IpAddr>,
    per_second: ConcurrencyLimit<IpAddr>,
}

impl Share {
    fn new(limits: &Limits) -> Self {
        let limit = |(all, each)| ConcurrencyLimit::new(all, each);
        Self {
            turns: limit((usize::MAX, 1)),
            at_once: limit(limits.at_once),
            per_second: limit(limits.per_second),
        }
    }

    /// Waits for an address's turn to cause a review.
    async fn enter(&self, peer: IpAddr) -> Result<Permit, Busy> {
        let waiting = async {
            let _turn = self.turns.enter(&peer, REVIEW_WAIT).await?;
            let begun = self.per_second.enter(&peer, REVIEW_WAIT).await?;
            let under_way = self.at_once.enter(&peer, REVIEW_WAIT).await?;
            tokio::spawn(async move {
                sleep(Duration::from_secs(1)).await;
                drop(begun);
            });
            Ok(under_way)
        };
        timeout(REVIEW_WAIT, waiting).await.unwrap_or(Err(Busy))
    }
}

/// The client of a connection.
#[derive(Clone, Debug)]
pub struct Client {
    /// The client's address.
    pub peer: IpAddr,
    /// The user in its certificate, if it has sent one.
    pub user: Option<User>,
}

impl Client {
    /// The client with this address and these certificates.
    #[must_use]
    pub fn new(peer: IpAddr, certificate: Option<&[u8]>) -> Self {
        let subject = certificate.and_then(der::subject);
        let subject = subject.filter(|subject| !subject.common_name.is_empty());
        let user = subject.map(|subject| User {
            username: subject.common_name,
            groups: { subject.organizations.into_iter() }
                .chain(["system:authenticated".to_owned()])
                .collect(),
            ..User::default()
        });
        let peer = peer.to_canonical();
        Self { peer, user }
    }
}

impl Access {
    /// Authorizes with `api`; the paths in `open` need no authorization.
    #[must_use]
    pub fn new(api: Api, open: Vec<String>) -> Self {
        Self {
            api,
            open,
            strangers: Share::new(&STRANGERS),
            known: Share::new(&KNOWN),
            tokens: Verdicts::new(life::TOKEN, life::TOKEN),
            questions: Verdicts::new(life::ALLOWED, life::DENIED),
        }
    }

    /// Whether this path needs no authorization; an entry that ends in an asterisk matches by prefix.
    pub fn is_open(&self, path: &str) -> bool {
        let mut open = self.open.iter();
        open.any(|open| match open.strip_suffix('*') {
            Some(beginning) => path.starts_with(beginning),
            None => open == path,
        })
    }

    /// Authorizes a client's request.
    ///
    /// # Errors
    /// The response to a client that is not authorized.
    pub async fn admit(&self, client: &Client, request: &Parts) -> Result<(), Reply> {
        let user = match &client.user {
            Some(user) => user.clone(),
            None => self.authenticate(client.peer, &request.headers).await?,
        };
        // Another method could be a word of thousands of letters, which would be remembered.
        if ![Method::GET, Method::HEAD].contains(&request.method) {
            return Err(not_allowed());
        }
        let verb = request.method.as_str().to_ascii_lowercase();
        let question = (user, verb, request.uri.path().to_owned());
        self.authorize(client.peer, question).await
    }

    async fn authenticate(&self, peer: IpAddr, headers: &HeaderMap) -> Result<User, Reply> {
        let token = token(headers).ok_or_else(|| unauthorized("a bearer token is needed"))?;
        let review = async |is_known| {
            let _turn = self.turn(peer, is_known).await?;
            let review = review_token(&self.api, token, &[]).await;
            let [rule, _] = &RULES;
            let review = review.map_err(|error| unreviewed(&error, rule))?;
            Ok(review.authenticated.then_some(review.user))
        };
        let user = self.tokens.of(&hash(token), true, review).await?;
        user.ok_or_else(|| unauthorized("the token is not accepted"))
    }

    async fn authorize(&self, peer: IpAddr, question: Question) -> Result<(), Reply> {
        let (user, verb, path) = &question;
        let review = async |is_known| {
            let _turn = self.turn(peer, is_known).await?;
            let about = json!({"path": path, "verb": verb});
            let review = review_access(&self.api, user, ("nonResourceAttributes", about)).await;
            let [_, rule] = &RULES;
            let review = review.map_err(|error| unreviewed(&error, rule))?;
            Ok(review.allowed.then_some(()))
        };
        let is_kept = path.len() <= LONGEST;
        let right = self.questions.of(&question, is_kept, review).await?;
        right.ok_or_else(|| forbidden(&question))
    }

    async fn turn(&self, peer: IpAddr, is_known: bool) -> Result<Permit, Reply> {
        // Also for a known client beside strangers at the same address.
        let share = if is_known {
            &self.known
        } else {
            &self.strangers
        };
        share.enter(peer).await.map_err(|Busy| busy())
    }
}

fn now() -> std::time::Instant {
    Instant::now().into_std()
}

/// The bearer token of a request.
fn token(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

fn hash(token: &str) -> Hash {
    let hash = sha256().map(|sha256| sha256.hash(token.as_bytes()).as_ref().to_vec());
    hash.unwrap_or_else(|| token.as_bytes().to_vec())
}

fn unauthorized(why: &str) -> Reply {
    Reply::text(StatusCode::UNAUTHORIZED, format!("{why}\n"))
}

fn forbidden((user, verb, path): &Question) -> Reply {
    let user = &user.username;
    let text = format!(
        "user {user:?} may not {verb} nonResourceURLs {path}; add the rule \
         - {{nonResourceURLs: [{path:?}], verbs: [{verb:?}]}} to a ClusterRole of that user\n"
    );
    Reply::text(StatusCode::FORBIDDEN, text)
}

fn busy() -> Reply {
    let text = "too many clients have to be looked up, try again\n";
    Reply::text(StatusCode::TOO_MANY_REQUESTS, text)
}

fn not_allowed() -> Reply {
    Reply::text(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD\n")
}

/// The response when a review failed.
fn unreviewed(error: &ApiError, rule: &Rule) -> Reply {
    // The permission check and the probe of the API server log it once.
    crate::verbose!(4, %error, "Cannot look up who sent an HTTP request");
    let text = if error.is_forbidden() {
        let missing = Missing {
            rule: rule.clone(),
            verbs: rule.verbs.to_vec(),
        };
        let text = missing.to_string();
        format!("this program may not look up who you are, add the rule {text}\n")
    } else {
        "the API server does not say who you are and what you may do\n".to_owned()
    };
    Reply::text(StatusCode::SERVICE_UNAVAILABLE, text)
}

#[cfg(test)]
mod tests;
