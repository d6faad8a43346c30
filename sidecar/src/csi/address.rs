//! The syntax of `--csi-address`.

use std::fmt;
use std::path::{Path, PathBuf};

use super::connection::OnLoss;

/// The address of the driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// A unix socket.
    Unix(PathBuf),
    /// `host:port`, which the Go sidecars without loss handling accept; useful for tests only.
    Tcp(String),
}

/// `--csi-address` has an unusable form.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// Only unix sockets report that the driver went away.
    #[error(
        "--csi-address={0}: OnConnectionLoss callback only supported for unix:// addresses; \
         use an absolute path or unix:// and a path"
    )]
    NotUnix(String),
    /// The address has no path.
    #[error("--csi-address={0}: no path to a socket; use an absolute path or unix:// and a path")]
    Empty(String),
}

impl Address {
    /// Parses `--csi-address`.
    ///
    /// # Errors
    /// With [`OnLoss::Stop`], everything but an absolute path or `unix://` is refused. Otherwise
    /// other forms resolve as in the Go sidecars.
    pub fn parse(text: &str, on_loss: OnLoss) -> Result<Self, AddressError> {
        let path = if text.starts_with('/') {
            Some(text)
        } else {
            text.strip_prefix("unix://")
        };
        if let Some(path) = path {
            return Self::unix(text, path);
        }
        if on_loss == OnLoss::Stop {
            return Err(AddressError::NotUnix(text.to_owned()));
        }
        if let Some(path) = text.strip_prefix("unix:") {
            return Self::unix(text, path);
        }
        let host = text
            .strip_prefix("dns:///")
            .or(text.strip_prefix("passthrough:///"))
            .unwrap_or(text);
        if host.is_empty() {
            return Err(AddressError::Empty(text.to_owned()));
        }
        // gRPC reads a bare word as a host and adds this port.
        let has_port = host.rsplit_once(':').is_some_and(|(_, port)| {
            !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit())
        });
        let port = if has_port { "" } else { ":443" };
        Ok(Self::Tcp(format!("{host}{port}")))
    }

    fn unix(text: &str, path: &str) -> Result<Self, AddressError> {
        if path.is_empty() {
            return Err(AddressError::Empty(text.to_owned()));
        }
        Ok(Self::Unix(PathBuf::from(path)))
    }

    /// The path of a unix socket.
    pub fn path(&self) -> Option<&Path> {
        match self {
            Self::Unix(path) => Some(path),
            Self::Tcp(_) => None,
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix://{}", path.display()),
            Self::Tcp(host) => f.write_str(host),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unix(path: &str) -> Address {
        Address::Unix(PathBuf::from(path))
    }

    #[test]
    fn rows_1_2_absolute_paths_and_unix_urls() {
        for on_loss in [OnLoss::Stop, OnLoss::Reconnect] {
            for (text, path) in [
                ("/x/csi.sock", "/x/csi.sock"),
                ("unix:///x/csi.sock", "/x/csi.sock"),
                ("unix:////x/csi.sock", "//x/csi.sock"),
            ] {
                assert_eq!(Address::parse(text, on_loss), Ok(unix(path)), "{text}");
            }
        }
    }

    #[test]
    fn row_3_other_forms_are_refused_where_a_loss_must_be_noticed() {
        for text in ["unix:/x/csi.sock", "x/csi.sock", "dns:///h:1", "h:1", ""] {
            let error = Address::parse(text, OnLoss::Stop).unwrap_err();
            assert!(error.to_string().contains("unix://"), "{error}");
        }
    }

    #[test]
    fn other_forms_are_taken_as_by_grpc_otherwise() {
        let tcp = |host: &str| Address::Tcp(host.to_owned());
        for (text, expected) in [
            ("unix:/x/csi.sock", unix("/x/csi.sock")),
            ("unix:csi.sock", unix("csi.sock")),
            ("dns:///h:1", tcp("h:1")),
            ("passthrough:///h:1", tcp("h:1")),
            ("127.0.0.1:10000", tcp("127.0.0.1:10000")),
            ("csi.sock", tcp("csi.sock:443")),
        ] {
            assert_eq!(
                Address::parse(text, OnLoss::Reconnect),
                Ok(expected),
                "{text}"
            );
        }
        assert!(Address::parse("", OnLoss::Reconnect).is_err());
        assert!(Address::parse("unix://", OnLoss::Reconnect).is_err());
    }
}
