//! Finds the PersistentVolume of a volume, whatever its name. Caches keep no handles: all objects are listed, once for
//! all callers that wait.
//!
//! Where a namespace with many calls of unknown outcome is deleted, many callers wait at once, and a list takes as many
//! pages as there are PersistentVolumes. A list that has begun is too old for a caller that comes later, and does not
//! answer it.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use serde::Deserialize;
use sidecar::kube::objects;
use tokio::sync::oneshot::{self, error::TryRecvError};
use tokio::time::{Instant, sleep_until};

use super::api::page;
use super::executor::Executor;
use super::record::read_volume;
use super::step::wire;
use crate::model::VolumeDetail;
use crate::plan::identity::Identity;
use crate::plan::outcome::ApiError;

const PATH: &str = "/api/v1/persistentvolumes";
/// PersistentVolumes per page.
const PAGE: u32 = 500;
/// The pause between two lists is this many times the duration of the first one, ...
const PAUSE: u32 = 9;
/// ... but at most this long: a worker waits for it.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// Callers that wait for a list of all PersistentVolumes.
#[derive(Default)]
pub(super) struct Holders {
    waiting: Mutex<Vec<Question>>,
    /// Start of the next list. Whoever holds the lock makes the list.
    turn: tokio::sync::Mutex<Option<Instant>>,
}

struct Question {
    volume: Identity,
    answer: oneshot::Sender<Result<Option<VolumeDetail>, ApiError>>,
}

impl Holders {
    fn waiting(&self) -> std::sync::MutexGuard<'_, Vec<Question>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Executor {
    /// The PersistentVolume that refers to `volume`, whatever its name.
    pub(super) async fn holder(&self, volume: &Identity) -> Result<Option<VolumeDetail>, ApiError> {
        loop {
            let (sender, mut answer) = oneshot::channel();
            self.holders.waiting().push(Question {
                volume: volume.clone(),
                answer: sender,
            });
            let mut turn = self.holders.turn.lock().await;
            let mut found = answer.try_recv();
            if matches!(found, Err(TryRecvError::Empty)) {
                self.answer_all(&mut turn).await;
                found = answer.try_recv();
            }
            // Otherwise the caller that was listing was cancelled.
            if let Ok(found) = found {
                return found;
            }
        }
    }

    /// Answers all callers that wait by now with one list.
    async fn answer_all(&self, turn: &mut Option<Instant>) {
        if let Some(next) = *turn {
            sleep_until(next).await;
        }
        let begun = Instant::now();
        let mut open = std::mem::take(&mut *self.holders.waiting());
        let listed = self.look_through(&mut open).await;
        for Question { answer, .. } in open {
            // The caller may have been cancelled.
            drop(answer.send(listed.clone().map(|()| None)));
        }
        *turn = Some(Instant::now() + (begun.elapsed() * PAUSE).min(LONGEST_PAUSE));
    }

    /// Answers the callers whose volume has an object, and leaves the others in `open`.
    async fn look_through(&self, open: &mut Vec<Question>) -> Result<(), ApiError> {
        #[derive(Deserialize)]
        struct List<'a> {
            #[serde(default)]
            metadata: ListMeta,
            #[serde(borrow)]
            items: Vec<objects::volume::Volume<'a>>,
        }
        #[derive(Default, Deserialize)]
        struct ListMeta {
            #[serde(default, rename = "continue")]
            token: Option<String>,
        }
        let mut path = page(PATH, PAGE, None);
        loop {
            let json = self.api.read(&path).await?;
            let List { metadata, items } = wire(&json)?;
            for item in items {
                let found = read_volume(item, &self.informers.strings);
                for Question { answer, .. } in open.extract_if(.., |open| open.volume.is_of(&found))
                {
                    drop(answer.send(Ok(Some(found.clone()))));
                }
            }
            match metadata.token.filter(|token| !token.is_empty()) {
                Some(token) if !open.is_empty() => path = page(PATH, PAGE, Some(&token)),
                Some(_) | None => return Ok(()),
            }
        }
    }
}
