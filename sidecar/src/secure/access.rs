//! Who may read which path of an HTTP server, by the API server's word.
//!
//! That word counts for a while, so that a scraper costs one review in some minutes. What strangers can cause is
//! bounded: the reviews at the same time and within a second, of all and of one address, and what is remembered. Of a
//! token only a hash is. Addresses have their turns one after the other, and whoever was let in during the last
//! minutes has a share of the reviews that no stranger can use up.

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
    /// Whoever was accepted is no stranger for so long: several scrapes.
    pub(super) const KNOWN: Duration = Duration::from_secs(900);
}

/// How many answers of each of the four sorts are remembered.
const MOST: usize = 250;
/// Longer paths are not remembered.
const LONGEST: usize = 256;
/// For a review's turn.
const PATIENCE: Duration = Duration::from_secs(2);
/// For the answer to the same question, which another client has asked: as long as a review may take.
const SAME: Duration = Duration::from_secs(10);

/// How many reviews there may be, of all clients and of one address.
struct Limits {
    at_once: (usize, usize),
    per_second: (usize, usize),
}

const STRANGERS: Limits = Limits {
    at_once: (7, 5),
    per_second: (15, 10),
};
/// Of those who were accepted before.
const KNOWN: Limits = Limits {
    at_once: (3, 3),
    per_second: (5, 5),
};

/// A hash of a token.
type Hash = Vec<u8>;
/// A user and what it asks for.
type Question = (User, String, String);

/// Decides about requests.
#[derive(Debug)]
pub struct Access {
    api: Api,
    /// `--authorization-always-allow-paths`
    open: Vec<String>,
    strangers: Share,
    known: Share,
    /// One review at a time of the same token, and of the same question.
    tokens: ConcurrencyLimit<Hash>,
    questions: ConcurrencyLimit<Question>,
    memory: Mutex<Memory>,
}

/// The reviews that some clients may cause.
#[derive(Debug)]
struct Share {
    /// One of an address waits for those of all.
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

    /// Waits for an address' turn to cause a review.
    async fn enter(&self, peer: IpAddr) -> Result<Permit, Busy> {
        let waiting = async {
            let _turn = self.turns.enter(&peer, PATIENCE).await?;
            let begun = self.per_second.enter(&peer, PATIENCE).await?;
            let under_way = self.at_once.enter(&peer, PATIENCE).await?;
            tokio::spawn(async move {
                sleep(Duration::from_secs(1)).await;
                drop(begun);
            });
            Ok(under_way)
        };
        timeout(PATIENCE, waiting).await.unwrap_or(Err(Busy))
    }
}

#[derive(Debug)]
struct Memory {
    accepted: Cache<Hash, User>,
    refused: Cache<Hash, ()>,
    allowed: Cache<Question, ()>,
    denied: Cache<Question, ()>,
}

/// Who is at the other end of a connection.
#[derive(Clone, Debug)]
pub struct Client {
    /// Its address.
    pub peer: IpAddr,
    /// Whom its certificate stands for, if it has shown one.
    pub user: Option<User>,
}

impl Client {
    /// Who has this address and these certificates.
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
    /// Asks `api`; the paths in `open` are for everybody.
    #[must_use]
    pub fn new(api: Api, open: Vec<String>) -> Self {
        Self {
            api,
            open,
            strangers: Share::new(&STRANGERS),
            known: Share::new(&KNOWN),
            tokens: ConcurrencyLimit::new(usize::MAX, 1),
            questions: ConcurrencyLimit::new(usize::MAX, 1),
            memory: Mutex::new(Memory {
                accepted: Cache::new(MOST, life::TOKEN).known_for(life::KNOWN),
                refused: Cache::new(MOST, life::TOKEN),
                allowed: Cache::new(MOST, life::ALLOWED).known_for(life::KNOWN),
                denied: Cache::new(MOST, life::DENIED),
            }),
        }
    }

    /// Whether everybody may read this path; one that ends in an asterisk stands for everything that begins so.
    pub fn is_open(&self, path: &str) -> bool {
        let mut open = self.open.iter();
        open.any(|open| match open.strip_suffix('*') {
            Some(beginning) => path.starts_with(beginning),
            None => open == path,
        })
    }

    /// Whether a client may do what it asks for.
    ///
    /// # Errors
    /// What it is told.
    pub async fn admit(&self, client: &Client, request: &Parts) -> Result<(), Reply> {
        let user = match &client.user {
            Some(user) => user.clone(),
            None => self.authenticate(client.peer, &request.headers).await?,
        };
        // Any other could be a word of thousands of letters, which would be remembered.
        if ![Method::GET, Method::HEAD].contains(&request.method) {
            return Err(not_allowed());
        }
        let verb = request.method.as_str().to_ascii_lowercase();
        let question = (user, verb, request.uri.path().to_owned());
        self.authorize(client.peer, question).await
    }

    async fn authenticate(&self, peer: IpAddr, headers: &HeaderMap) -> Result<User, Reply> {
        let token = token(headers).ok_or_else(|| unauthorized("a bearer token is needed"))?;
        let hash = hash(token);
        if let Some(answer) = self.recall_token(&hash) {
            return answer;
        }
        let asked = self.tokens.enter(&hash, SAME).await;
        let _asked = asked.map_err(|Busy| busy())?;
        // Whoever waited may find that the one before has asked the same.
        if let Some(answer) = self.recall_token(&hash) {
            return answer;
        }
        let is_known = self.memory().accepted.knows(&hash, now());
        let _turn = self.turn(peer, is_known).await?;
        let review = review_token(&self.api, token, &[]).await;
        let [rule, _] = &RULES;
        let review = review.map_err(|error| unreviewed(&error, rule))?;
        if !review.authenticated {
            self.memory().refused.put(hash, (), now());
            return Err(refused_token());
        }
        let user = review.user;
        self.memory().accepted.put(hash, user.clone(), now());
        Ok(user)
    }

    fn recall_token(&self, hash: &Hash) -> Option<Result<User, Reply>> {
        let (memory, now) = (self.memory(), now());
        if memory.refused.get(hash, now).is_some() {
            return Some(Err(refused_token()));
        }
        memory.accepted.get(hash, now).map(Ok)
    }

    async fn authorize(&self, peer: IpAddr, question: Question) -> Result<(), Reply> {
        if let Some(answer) = self.recall_right(&question) {
            return answer;
        }
        let asked = self.questions.enter(&question, SAME).await;
        let _asked = asked.map_err(|Busy| busy())?;
        if let Some(answer) = self.recall_right(&question) {
            return answer;
        }
        let is_known = self.memory().allowed.knows(&question, now());
        let _turn = self.turn(peer, is_known).await?;
        let (user, verb, path) = &question;
        let about = json!({"path": path, "verb": verb});
        let review = review_access(&self.api, user, ("nonResourceAttributes", about)).await;
        let [_, rule] = &RULES;
        let review = review.map_err(|error| unreviewed(&error, rule))?;
        let is_short = path.len() <= LONGEST;
        let mut memory = self.memory();
        match (review.allowed, is_short) {
            (true, true) => memory.allowed.put(question, (), now()),
            (true, false) => {}
            (false, _) => {
                let reply = forbidden(&question);
                if is_short {
                    memory.denied.put(question, (), now());
                }
                return Err(reply);
            }
        }
        Ok(())
    }

    fn recall_right(&self, question: &Question) -> Option<Result<(), Reply>> {
        let (memory, now) = (self.memory(), now());
        if memory.allowed.get(question, now).is_some() {
            return Some(Ok(()));
        }
        let is_denied = memory.denied.get(question, now).is_some();
        is_denied.then(|| Err(forbidden(question)))
    }

    async fn turn(&self, peer: IpAddr, is_known: bool) -> Result<Permit, Reply> {
        // A known one beside strangers at the same address, too.
        let share = if is_known {
            &self.known
        } else {
            &self.strangers
        };
        share.enter(peer).await.map_err(|Busy| busy())
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
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

fn refused_token() -> Reply {
    unauthorized("the token is not accepted")
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

/// A review that could not be made.
fn unreviewed(error: &ApiError, rule: &Rule) -> Reply {
    // The check of permissions and the probe of the API server log it once.
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
