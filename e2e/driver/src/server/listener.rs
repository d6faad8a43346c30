//! Accepts connections; stops, starts or removes its socket on request.

use std::fs;
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::connection::Connection;
use super::dispatch::Dispatch;
use crate::instrument::call::Instrument;

/// Cancelled calls that a connection tolerates.
const RESETS: usize = 100_000;

/// The driver's socket.
#[derive(Debug)]
pub struct Listener {
    path: PathBuf,
    instrument: Arc<Instrument>,
    dispatch: Dispatch,
    connections: AtomicU64,
    /// Number of times that all connections were closed.
    hang_up: watch::Sender<u64>,
    accepting: Mutex<Option<JoinHandle<()>>>,
}

/// Why the driver cannot listen.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Another kind of file has the socket's path.
    #[error("{} exists and is not a socket, remove it or choose another --endpoint", .0.display())]
    Occupied(PathBuf),
    /// A system call failed.
    #[error("cannot listen on {} (--endpoint)", path.display())]
    Bind {
        /// The socket.
        path: PathBuf,
        /// The system's error.
        #[source]
        source: io::Error,
    },
}

impl Listener {
    /// A listener whose socket does not exist yet.
    pub fn new(path: PathBuf, instrument: Arc<Instrument>, dispatch: Dispatch) -> Arc<Self> {
        Arc::new(Self {
            path,
            instrument,
            dispatch,
            connections: AtomicU64::new(0),
            hang_up: watch::Sender::new(0),
            accepting: Mutex::default(),
        })
    }

    /// Creates the socket, replacing a leftover one, and accepts connections.
    pub fn start(self: &Arc<Self>) -> Result<(), Error> {
        let listener = bind(&self.path)?;
        let this = Arc::clone(self);
        let task = tokio::spawn(async move { this.accept(listener).await });
        let mut accepting = self
            .accepting
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(previous) = accepting.replace(task) {
            previous.abort();
        }
        Ok(())
    }

    /// Stops accepting connections, closes the existing ones and removes the socket.
    pub fn stop(&self) {
        let mut accepting = self
            .accepting
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(task) = accepting.take() {
            task.abort();
        }
        drop(accepting);
        self.remove();
        self.hang_up();
    }

    /// Removes the socket, but continues to serve connected clients.
    pub fn remove(&self) {
        if let Err(error) = fs::remove_file(&self.path)
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::warn!("cannot remove {}: {error}", self.path.display());
        }
    }

    /// Closes all connections.
    pub fn hang_up(&self) {
        self.hang_up.send_modify(|times| *times += 1);
    }

    async fn accept(self: Arc<Self>, listener: UnixListener) {
        loop {
            match listener.accept().await {
                Ok((stream, _)) => drop(tokio::spawn(Arc::clone(&self).serve(stream))),
                Err(error) => {
                    // Most likely out of file descriptors; either this passes, or the test fails
                    // anyway.
                    tracing::error!("cannot accept a connection: {error}");
                    tokio::time::sleep(std::time::Duration::from_millis(50)).await;
                }
            }
        }
    }

    async fn serve(self: Arc<Self>, stream: UnixStream) {
        let number = self.connections.fetch_add(1, Ordering::Relaxed) + 1;
        let caller = stream.peer_cred().ok().and_then(|peer| peer.pid());
        let caller = caller.and_then(|pid| u32::try_from(pid).ok());
        let connection = Connection::new(number, caller);
        let mut hang_up = self.hang_up.subscribe();
        let service = service_fn(|request| {
            let answer = Arc::clone(&self.instrument).handle(
                self.dispatch.clone(),
                connection.clone(),
                request,
            );
            async { Ok::<_, std::convert::Infallible>(answer.await) }
        });
        let mut server = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
        server
            // As many as in Go; with hyper's 200, a few hundred hanging calls would block the rest.
            .max_concurrent_streams(u32::MAX)
            // Tests cancel hundreds of calls, which is no attack here.
            .max_pending_accept_reset_streams(RESETS)
            .max_local_error_reset_streams(RESETS);
        let serving = server.serve_connection(TokioIo::new(stream), service);
        tokio::select! {
            ended = serving => {
                if let Err(error) = ended {
                    tracing::debug!(number, "connection ended: {error}");
                }
            }
            () = connection.closed() => tracing::debug!(number, "connection closed by a rule"),
            _ = hang_up.changed() => tracing::debug!(number, "connection closed"),
        }
    }
}

/// Listens on a unix socket; replaces a dead process's.
pub fn bind(path: &Path) -> Result<UnixListener, Error> {
    match fs::symlink_metadata(path) {
        Ok(meta) if !meta.file_type().is_socket() => return Err(Error::Occupied(path.to_owned())),
        Ok(_) => {
            fs::remove_file(path).map_err(|source| Error::Bind {
                path: path.to_owned(),
                source,
            })?;
        }
        Err(_) => {}
    }
    if let Some(folder) = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty())
    {
        fs::create_dir_all(folder).map_err(|source| Error::Bind {
            path: path.to_owned(),
            source,
        })?;
    }
    UnixListener::bind(path).map_err(|source| Error::Bind {
        path: path.to_owned(),
        source,
    })
}
