//! The state on disk: a journal of changes that several driver processes share.
//!
//! `journal.jsonl` in the state folder has one change per line; `lock` orders the processes. Before
//! each use a process reads the lines that others have appended, so all see the same state: the
//! controller and the nodes of one driver can be separate processes. A line is the unit of
//! atomicity: a writer that dies in the middle leaves an incomplete line, which the next writer
//! cuts off. When the journal has become much longer than the state, a process replaces it by
//! renaming a new file over it; the others notice the new inode and start over.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tonic::Code;

use crate::model::state::{Change, State};
use crate::plan::Refusal;

const JOURNAL: &str = "journal.jsonl";
const LOCK: &str = "lock";
/// The journal is rewritten once it exceeds twice its last rewritten length by this many bytes.
const SLACK_BYTES: u64 = 8 << 20;

/// Why the state is unusable.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file operation failed.
    #[error("cannot {action} {path}")]
    Io {
        /// The attempted action.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// A line of the journal is no change.
    #[error(
        "line at byte {at} of {path} is not a change of state; use another --statedir or remove it"
    )]
    Corrupt {
        /// The journal.
        path: PathBuf,
        /// Offset of the line in bytes.
        at: u64,
        /// The parser's error.
        #[source]
        source: serde_json::Error,
    },
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        Self::new(Code::Internal, format!("{}", sidecar::error::Chain(&error)))
    }
}

/// The state folder of a driver.
#[derive(Debug)]
pub struct Store {
    folder: PathBuf,
    sync: bool,
    view: Mutex<View>,
}

/// The part of the journal that this process has read.
#[derive(Debug)]
struct View {
    lock: File,
    journal: File,
    inode: u64,
    offset: u64,
    /// Length of the journal right after its last rewriting.
    base: u64,
    state: State,
}

impl Store {
    /// Opens or creates the state folder; `sync` waits for the disk after each change, which
    /// matters if the machine crashes, not if the driver does.
    pub fn open(folder: &Path, sync: bool) -> Result<Self, Error> {
        fs::create_dir_all(folder).map_err(wrap("create", folder))?;
        let lock_path = folder.join(LOCK);
        let mut options = OpenOptions::new();
        let lock = options
            .create(true)
            .truncate(false)
            .write(true)
            .open(&lock_path);
        let lock = lock.map_err(wrap("open", &lock_path))?;
        let (journal, inode) = open_journal(folder)?;
        let state = State::default();
        let view = View {
            lock,
            journal,
            inode,
            offset: 0,
            base: 0,
            state,
        };
        let store = Self {
            folder: folder.to_owned(),
            sync,
            view: Mutex::new(view),
        };
        // Reports an unreadable journal now instead of in the first call.
        store.read(|_| ())?;
        Ok(store)
    }

    /// The state folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    fn view(&self) -> MutexGuard<'_, View> {
        // A panic under the lock leaves at worst an outdated view.
        self.view.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the current state.
    pub fn read<T>(&self, look: impl FnOnce(&State) -> T) -> Result<T, Error> {
        let mut view = self.view();
        let _held = Held::shared(&view.lock).map_err(wrap("lock", &self.folder))?;
        self.catch_up(&mut view)?;
        Ok(look(&view.state))
    }

    /// Decides on the current state and performs the changes; no other process comes in between.
    pub fn transact<T, E: From<Error>>(
        &self,
        decide: impl FnOnce(&State) -> Result<(Vec<Change>, T), E>,
    ) -> Result<T, E> {
        let mut view = self.view();
        let _held = Held::exclusive(&view.lock).map_err(wrap("lock", &self.folder))?;
        self.catch_up(&mut view)?;
        let (changes, result) = decide(&view.state)?;
        if !changes.is_empty() {
            self.append(&mut view, changes)?;
            self.rewrite_if_long(&mut view)?;
        }
        Ok(result)
    }

    fn path(&self) -> PathBuf {
        self.folder.join(JOURNAL)
    }

    /// Reads the lines that were appended since the last time.
    fn catch_up(&self, view: &mut View) -> Result<(), Error> {
        let path = self.path();
        let current = fs::metadata(&path).map(|meta| (meta.ino(), meta.len()));
        let (inode, length) = current.unwrap_or((0, 0));
        if inode != view.inode || length < view.offset {
            let (journal, inode) = open_journal(&self.folder)?;
            *view = View {
                lock: view.lock.try_clone().map_err(wrap("open", &path))?,
                journal,
                inode,
                offset: 0,
                base: 0,
                state: State::default(),
            };
        }
        if length == view.offset {
            return Ok(());
        }
        let mut text = Vec::new();
        let mut journal = &view.journal;
        journal
            .seek(SeekFrom::Start(view.offset))
            .map_err(wrap("read", &path))?;
        journal
            .read_to_end(&mut text)
            .map_err(wrap("read", &path))?;
        for line in text.split_inclusive(|byte| *byte == b'\n') {
            if line.last() != Some(&b'\n') {
                break;
            }
            let change = serde_json::from_slice(line).map_err(|source| Error::Corrupt {
                path: path.clone(),
                at: view.offset,
                source,
            })?;
            view.state.apply(change);
            view.offset += line.len() as u64;
        }
        Ok(())
    }

    fn append(&self, view: &mut View, changes: Vec<Change>) -> Result<(), Error> {
        let path = self.path();
        let text = lines(&changes, &path)?;
        let mut journal = &view.journal;
        // No process has acknowledged anything behind the last complete line.
        view.journal
            .set_len(view.offset)
            .map_err(wrap("write", &path))?;
        journal
            .seek(SeekFrom::Start(view.offset))
            .map_err(wrap("write", &path))?;
        journal.write_all(&text).map_err(wrap("write", &path))?;
        if self.sync {
            view.journal.sync_data().map_err(wrap("write", &path))?;
        }
        view.offset += text.len() as u64;
        for change in changes {
            view.state.apply(change);
        }
        Ok(())
    }

    fn rewrite_if_long(&self, view: &mut View) -> Result<(), Error> {
        if view.offset < 2 * view.base + SLACK_BYTES {
            return Ok(());
        }
        let text = lines(&view.state.changes(), &self.path())?;
        let fresh = self.folder.join(format!("{JOURNAL}.new"));
        let mut file = File::create(&fresh).map_err(wrap("create", &fresh))?;
        file.write_all(&text).map_err(wrap("write", &fresh))?;
        file.sync_data().map_err(wrap("write", &fresh))?;
        fs::rename(&fresh, self.path()).map_err(wrap("replace", &fresh))?;
        let (journal, inode) = open_journal(&self.folder)?;
        (view.journal, view.inode) = (journal, inode);
        view.offset = text.len() as u64;
        view.base = view.offset;
        Ok(())
    }
}

fn lines(changes: &[Change], path: &Path) -> Result<Vec<u8>, Error> {
    let mut text = Vec::new();
    for change in changes {
        let encoded = serde_json::to_writer(&mut text, change);
        encoded.map_err(|error| wrap("write", path)(io::Error::from(error)))?;
        text.push(b'\n');
    }
    Ok(text)
}

fn open_journal(folder: &Path) -> Result<(File, u64), Error> {
    let path = folder.join(JOURNAL);
    let mut options = OpenOptions::new();
    let opened = options
        .create(true)
        .truncate(false)
        .read(true)
        .write(true)
        .open(&path);
    let file = opened.map_err(wrap("open", &path))?;
    let inode = file.metadata().map_err(wrap("read", &path))?.ino();
    Ok((file, inode))
}

fn wrap<'a>(action: &'static str, path: &'a Path) -> impl FnOnce(io::Error) -> Error + use<'a> {
    move |source| Error::Io {
        action,
        path: path.to_owned(),
        source,
    }
}

/// Holds the lock file until dropped.
struct Held(File);

impl Held {
    fn shared(file: &File) -> io::Result<Self> {
        let file = file.try_clone()?;
        file.lock_shared()?;
        Ok(Self(file))
    }

    fn exclusive(file: &File) -> io::Result<Self> {
        let file = file.try_clone()?;
        file.lock()?;
        Ok(Self(file))
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // The clone shares the lock with the original, which stays open.
        let _ = self.0.unlock();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::testing::{put, volume};

    fn add(store: &Store, id: &str) {
        let done: Result<(), Error> = store.transact(|state| {
            let volume = volume(id, state.sequence + 1);
            Ok((vec![put(volume)], ()))
        });
        done.unwrap();
    }

    fn ids(store: &Store) -> Vec<String> {
        store
            .read(|state| state.volumes.keys().cloned().collect())
            .unwrap()
    }

    #[test]
    fn state_survives_a_restart_and_is_shared() {
        let dir = tempfile::tempdir().unwrap();
        let one = Store::open(dir.path(), true).unwrap();
        add(&one, "a");
        let two = Store::open(dir.path(), false).unwrap();
        add(&two, "b");
        assert_eq!(ids(&one), ["a", "b"]);
        drop((one, two));
        let again = Store::open(dir.path(), false).unwrap();
        assert_eq!(ids(&again), ["a", "b"]);
        assert_eq!(again.read(|state| state.sequence).unwrap(), 2);
    }

    #[test]
    fn a_half_written_line_is_ignored_and_cut_off() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path(), false).unwrap();
        add(&store, "a");
        let path = dir.path().join(JOURNAL);
        let mut file = OpenOptions::new().append(true).open(&path).unwrap();
        file.write_all(b"{\"put-volume\":{\"id\":\"bro").unwrap();
        assert_eq!(ids(&Store::open(dir.path(), false).unwrap()), ["a"]);
        add(&store, "b");
        assert_eq!(ids(&Store::open(dir.path(), false).unwrap()), ["a", "b"]);
    }

    #[test]
    fn a_line_that_is_no_change_is_an_error_that_names_the_file() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join(JOURNAL), "nonsense\n").unwrap();
        let error = Store::open(dir.path(), false).unwrap_err();
        assert!(error.to_string().contains("journal.jsonl"), "{error}");
    }

    #[test]
    fn a_refused_decision_changes_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path(), false).unwrap();
        let refused: Result<(), Refusal> =
            store.transact(|_| Err(Refusal::new(Code::NotFound, "no")));
        assert_eq!(refused.unwrap_err().code, Code::NotFound);
        assert!(ids(&store).is_empty());
    }

    #[test]
    fn a_rewritten_journal_is_noticed_by_others() {
        let dir = tempfile::tempdir().unwrap();
        let one = Store::open(dir.path(), false).unwrap();
        let two = Store::open(dir.path(), false).unwrap();
        add(&two, "a");
        let long = "x".repeat(100_000);
        for number in 0..100 {
            let grown: Result<(), Error> = one.transact(|state| {
                let mut volume = state.volumes["a"].clone();
                volume
                    .parameters
                    .insert("long".to_owned(), format!("{long}{number}"));
                Ok((vec![put(volume)], ()))
            });
            grown.unwrap();
        }
        assert!(fs::metadata(dir.path().join(JOURNAL)).unwrap().len() < 4 << 20);
        add(&two, "b");
        assert_eq!(ids(&one), ["a", "b"]);
        assert!(
            two.read(|s| s.volumes["a"].parameters["long"].ends_with("99"))
                .unwrap()
        );
    }

    #[test]
    fn a_removed_journal_forgets_everything() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path(), false).unwrap();
        add(&store, "a");
        fs::remove_file(dir.path().join(JOURNAL)).unwrap();
        assert!(ids(&store).is_empty());
        add(&store, "b");
        assert_eq!(ids(&store), ["b"]);
    }
}
