//! The API server's address, and the flag or variable that names it.
//!
//! Pure: flags and environment in, one address out.

use std::fmt;
use std::path::PathBuf;

use crate::in_cluster::{self, Nowhere};

/// The flags and variables that name an API server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Given<'a> {
    /// `--kubeconfig`, empty if not given.
    pub kubeconfig: &'a str,
    /// `--master`, empty if not given; only some programs have it.
    pub master: &'a str,
    /// `$KUBECONFIG`, for the one program that reads it (the provisioner).
    pub variable: Option<&'a str>,
    /// `$KUBERNETES_SERVICE_HOST`.
    pub host: Option<&'a str>,
    /// `$KUBERNETES_SERVICE_PORT`.
    pub port: Option<&'a str>,
}

/// The API server's address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// A kubeconfig file.
    File {
        /// The file.
        path: PathBuf,
        /// The flag or variable that names it.
        named_by: NamedBy,
        /// A URL that replaces the file's.
        server: Option<String>,
    },
    /// A URL without credentials.
    Server(String),
    /// The cluster that the pod runs in.
    Cluster {
        /// The API server's URL.
        server: String,
    },
}

/// The flag or variable that names a kubeconfig file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NamedBy {
    /// `--kubeconfig`.
    Flag,
    /// `$KUBECONFIG`.
    Variable,
    /// Neither: the default path of kubectl and similar tools.
    Home,
}

impl fmt::Display for NamedBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Flag => "--kubeconfig",
            Self::Variable => "KUBECONFIG",
            Self::Home => "kubeconfig",
        })
    }
}

/// Chooses the API server.
///
/// # Errors
/// Neither a file nor a URL was named, and this is not a pod, or a pod whose variables belong to
/// another Service.
pub fn resolve(given: Given<'_>) -> Result<Source, Nowhere> {
    let server = given.master;
    let variable = given.variable.unwrap_or_default();
    let (path, named_by) = if variable.is_empty() {
        (given.kubeconfig, NamedBy::Flag)
    } else {
        (variable, NamedBy::Variable)
    };
    if !path.is_empty() {
        return Ok(Source::File {
            path: path.into(),
            named_by,
            server: (!server.is_empty()).then(|| server.to_owned()),
        });
    }
    if !server.is_empty() {
        return Ok(Source::Server(server.to_owned()));
    }
    let [host, port] = [given.host, given.port].map(Option::unwrap_or_default);
    let server = in_cluster::server(host, port)?;
    Ok(Source::Cluster { server })
}

/// The API server of this process's pod. `read` returns an environment variable.
///
/// # Errors
/// This is not a pod, or the variables belong to another Service.
pub fn in_cluster(read: impl Fn(&str) -> Option<String>) -> Result<Source, Nowhere> {
    let (host, port) = (
        read("KUBERNETES_SERVICE_HOST"),
        read("KUBERNETES_SERVICE_PORT"),
    );
    resolve(Given {
        host: host.as_deref(),
        port: port.as_deref(),
        ..Given::default()
    })
}

/// A URL as client-go reads it: without a scheme it is https if there is a certificate authority, else
/// http.
pub(super) fn with_scheme(server: &str, has_authority: bool) -> String {
    if server.contains("://") {
        return server.to_owned();
    }
    let scheme = if has_authority { "https" } else { "http" };
    format!("{scheme}://{server}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, named_by: NamedBy, server: Option<&str>) -> Result<Source, Nowhere> {
        Ok(Source::File {
            path: path.into(),
            named_by,
            server: server.map(str::to_owned),
        })
    }

    /// `--kubeconfig`, `--master`, `$KUBECONFIG`, host and port.
    fn resolved(given: [&str; 5]) -> Result<Source, Nowhere> {
        let [kubeconfig, master, variable, host, port] = given;
        resolve(Given {
            kubeconfig,
            master,
            variable: Some(variable),
            host: Some(host),
            port: Some(port),
        })
    }

    #[test]
    fn row_12_nothing_names_a_server() {
        assert_eq!(resolve(Given::default()), Err(Nowhere::NotInCluster));
        assert_eq!(
            resolved(["", "", "", "10.0.0.1", ""]),
            Err(Nowhere::NotInCluster)
        );
        assert_eq!(
            resolved(["", "", "", "", "443"]),
            Err(Nowhere::NotInCluster)
        );
        let text = Nowhere::NotInCluster.to_string();
        assert!(text.starts_with("unable to load in-cluster configuration"));
    }

    #[test]
    fn row_98_a_port_that_service_links_have_overwritten_is_named_with_the_way_out() {
        for port in ["tcp://10.96.91.200:6443", "https", "0x1", "65536"] {
            let error = resolved(["", "", "", "10.0.0.1", port]).unwrap_err();
            let text = error.to_string();
            assert_eq!(error, Nowhere::Port(port.to_owned()));
            assert!(
                text.contains(&format!("KUBERNETES_SERVICE_PORT={port} ")),
                "{text}"
            );
            assert!(text.contains("enableServiceLinks: false"), "{text}");
        }
    }

    #[test]
    fn a_pod_uses_its_cluster() {
        for (host, want) in [
            ("10.0.0.1", "https://10.0.0.1:443"),
            ("fd00::1", "https://[fd00::1]:443"),
            ("api.example", "https://api.example:443"),
        ] {
            let server = want.to_owned();
            assert_eq!(
                resolved(["", "", "", host, "443"]),
                Ok(Source::Cluster { server })
            );
        }
    }

    #[test]
    fn rows_86_and_87_a_file_wins_over_the_pod_and_the_variable_over_the_flag() {
        let pod = ["10.0.0.1", "443"];
        let with =
            |kubeconfig, master, variable| resolved([kubeconfig, master, variable, pod[0], pod[1]]);
        assert_eq!(with("/b", "", ""), file("/b", NamedBy::Flag, None));
        assert_eq!(with("/b", "", "/a"), file("/a", NamedBy::Variable, None));
        assert_eq!(
            with("/b", "https://x", ""),
            file("/b", NamedBy::Flag, Some("https://x"))
        );
        let url = "http://127.0.0.1:8080";
        assert_eq!(with("", url, ""), Ok(Source::Server(url.to_owned())));
    }

    #[test]
    fn a_url_without_scheme_is_https_with_an_authority() {
        assert_eq!(with_scheme("10.0.0.1:6443", true), "https://10.0.0.1:6443");
        assert_eq!(
            with_scheme("localhost:8080", false),
            "http://localhost:8080"
        );
        assert_eq!(with_scheme("https://x/y", false), "https://x/y");
    }
}
