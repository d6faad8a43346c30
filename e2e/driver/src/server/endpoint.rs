//! Parses the endpoint.

use std::path::PathBuf;

/// Accepts csi-driver-host-path's forms, but only for unix sockets: `unix:///path`, `unix:path`,
/// `unix://relative/path`, `/path`.
pub fn parse(text: &str) -> Result<PathBuf, Error> {
    let path = match text.split_once(':') {
        Some(("unix", rest)) => rest.strip_prefix("//").unwrap_or(rest),
        Some((scheme, _)) if !text.starts_with('/') => {
            return Err(Error::Scheme(scheme.to_owned()));
        }
        _ => text,
    };
    if path.is_empty() {
        return Err(Error::Empty);
    }
    Ok(PathBuf::from(path))
}

/// Why an endpoint is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The scheme is not that of a unix socket.
    #[error("scheme {0:?} is not supported, use unix:///path/to/csi.sock")]
    Scheme(String),
    /// The path is empty.
    #[error("the path of the socket is empty, use unix:///path/to/csi.sock")]
    Empty,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_of_unix_sockets() {
        for (text, path) in [
            ("unix:///a/csi.sock", Some("/a/csi.sock")),
            ("unix:/a/csi.sock", Some("/a/csi.sock")),
            ("unix://tmp/csi.sock", Some("tmp/csi.sock")),
            ("/a/csi.sock", Some("/a/csi.sock")),
            ("/a:b/csi.sock", Some("/a:b/csi.sock")),
            ("csi.sock", Some("csi.sock")),
            ("tcp://127.0.0.1:1", None),
            ("unix://", None),
            ("", None),
        ] {
            assert_eq!(parse(text).ok(), path.map(PathBuf::from), "{text:?}");
        }
    }
}
