//! Bearer tokens; those in files are replaced while the process runs.

use std::fs;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use ::kube::config::AuthInfo;
use http::HeaderValue;
use secrecy::ExposeSecret as _;
use tokio::time::Instant;

/// As client-go: kubelet replaces tokens when a fifth of their lifetime is left.
const READ_EVERY: Duration = Duration::from_secs(60);

/// A token, or the file that holds it.
pub(super) struct Bearer {
    file: Option<PathBuf>,
    held: Mutex<Held>,
}

struct Held {
    header: HeaderValue,
    read: Instant,
    /// The API server refused the token.
    doubted: bool,
}

impl Bearer {
    /// Takes the token out of `auth`; `None` if the client authenticates without a token. A file
    /// takes precedence over an inline token, as in client-go; kube has it the other way round.
    ///
    /// # Errors
    /// The token cannot be used.
    pub(super) fn take(auth: &mut AuthInfo) -> Result<Option<Self>, String> {
        if auth.auth_provider.is_some() || auth.username.is_some() && auth.password.is_some() {
            return Ok(None);
        }
        let (inline, file) = (auth.token.take(), auth.token_file.take());
        let inline = inline.filter(|token| !token.expose_secret().is_empty());
        let file = file.filter(|path| !path.is_empty()).map(PathBuf::from);
        let from_file = file.as_ref().map(|path| {
            read(path).map_err(|problem| format!("token file {}: {problem}", path.display()))
        });
        let header = match (from_file, inline) {
            (Some(Ok(header)), _) => header,
            (_, Some(token)) => bearer(token.expose_secret())
                .ok_or("the user's token is invalid: it has control characters")?,
            (Some(Err(problem)), None) => return Err(problem),
            (None, None) => return Ok(None),
        };
        Ok(Some(Self {
            file,
            held: Mutex::new(Held {
                header,
                read: Instant::now(),
                doubted: false,
            }),
        }))
    }

    /// The `Authorization` header. Re-reads the file once a minute and after [`doubt`](Self::doubt);
    /// while that fails, the last token counts.
    pub(super) fn header(&self) -> HeaderValue {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(path) = &self.file
            && (held.doubted || held.read.elapsed() >= READ_EVERY)
        {
            held.doubted = false;
            held.read = Instant::now();
            match read(path) {
                Ok(header) => held.header = header,
                Err(problem) => {
                    tracing::warn!(path = %path.display(), problem, "Keeping the last token");
                }
            }
        }
        held.header.clone()
    }

    /// Records that the API server refused the token: the file may have a new one.
    pub(super) fn doubt(&self) {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        held.doubted = true;
    }
}

fn read(path: &PathBuf) -> Result<HeaderValue, String> {
    let text = fs::read_to_string(path).map_err(|error| error.to_string())?;
    if text.trim().is_empty() {
        return Err("the file is empty".to_owned());
    }
    bearer(&text).ok_or_else(|| "not a token: it has control characters".to_owned())
}

/// Builds the header. The writer of the file may have ended it with a line break.
fn bearer(token: &str) -> Option<HeaderValue> {
    let mut header = HeaderValue::from_str(&format!("Bearer {}", token.trim())).ok()?;
    header.set_sensitive(true);
    Some(header)
}
