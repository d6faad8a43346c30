//! Chooses the proxy to the API server, by the rules of Go's `net/http`, so that environments
//! written for upstream's programs mean the same.
//!
//! Pure: flags, environment and URL in, a proxy out.

use std::net::IpAddr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::uri::Scheme;
use http::{HeaderValue, Uri};
use percent_encoding::percent_decode_str;

/// The proxy variables of the environment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Environment {
    /// `HTTP_PROXY`, for a server without TLS.
    pub http: String,
    /// `HTTPS_PROXY`.
    pub https: String,
    /// `NO_PROXY`: names, addresses and networks, separated by commas.
    pub none: String,
}

impl Environment {
    /// Reads the variables; upper case takes precedence.
    pub fn read(variable: impl Fn(&str) -> Option<String>) -> Self {
        let read = |name: &str| {
            let found = [name.to_owned(), name.to_lowercase()]
                .iter()
                .filter_map(|name| variable(name))
                .find(|value| !value.is_empty());
            found.unwrap_or_default()
        };
        Self {
            http: read("HTTP_PROXY"),
            https: read("HTTPS_PROXY"),
            none: read("NO_PROXY"),
        }
    }
}

/// A proxy that opens tunnels (`CONNECT`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Proxy {
    /// The proxy's address, with a port.
    pub(super) address: Uri,
    /// `Proxy-Authorization`, if the URL has a user.
    pub(super) authorization: Option<HeaderValue>,
}

/// Chooses the proxy for the one server. `named` is the kubeconfig's `proxy-url`, which `NO_PROXY`
/// does not override.
///
/// # Errors
/// The source of an unusable proxy URL, and the problem; never the URL, which may have a password.
pub(super) fn choose(
    named: Option<&str>,
    environment: &Environment,
    server: &Uri,
) -> Result<Option<Proxy>, String> {
    if let Some(url) = named.filter(|url| !url.is_empty()) {
        let proxy = read(url).map_err(|problem| format!("proxy-url: {problem}"))?;
        return Ok(Some(proxy));
    }
    let (variable, url) = if server.scheme() == Some(&Scheme::HTTP) {
        ("HTTP_PROXY", &environment.http)
    } else {
        ("HTTPS_PROXY", &environment.https)
    };
    if url.is_empty() || is_direct(&environment.none, server) {
        return Ok(None);
    }
    let proxy = read(url).map_err(|problem| format!("{variable}: {problem}"))?;
    Ok(Some(proxy))
}

fn read(url: &str) -> Result<Proxy, &'static str> {
    let (scheme, rest) = url.split_once("://").unwrap_or(("http", url));
    if !scheme.eq_ignore_ascii_case("http") {
        return Err("only proxies with http:// are supported");
    }
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let (user, place) = match authority.rsplit_once('@') {
        Some((user, place)) => (Some(user), place),
        None => (None, authority),
    };
    let mut address = format!("http://{place}");
    // An IPv6 address has its colons in brackets.
    if !place.rsplit(']').next().unwrap_or_default().contains(':') {
        address.push_str(":80");
    }
    let address: Uri = address.parse().map_err(|_| "this is not a URL")?;
    if address.host().is_none_or(str::is_empty) || address.port_u16().is_none() {
        return Err("this is not a URL");
    }
    Ok(Proxy {
        address,
        authorization: user.and_then(basic),
    })
}

fn basic(user: &str) -> Option<HeaderValue> {
    let (name, password) = user.split_once(':').unwrap_or((user, ""));
    let mut pair: Vec<u8> = percent_decode_str(name).collect();
    pair.push(b':');
    pair.extend(percent_decode_str(password));
    let mut header = HeaderValue::from_str(&format!("Basic {}", STANDARD.encode(pair))).ok()?;
    header.set_sensitive(true);
    Some(header)
}

/// The server's port, or its scheme's default.
pub(super) fn port(server: &Uri) -> u16 {
    let usual = if server.scheme() == Some(&Scheme::HTTP) {
        80
    } else {
        443
    };
    server.port_u16().unwrap_or(usual)
}

/// Whether `NO_PROXY` names the server; this machine is always reached directly.
fn is_direct(none: &str, server: &Uri) -> bool {
    let host = server.host().unwrap_or_default();
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let (host, port) = (host.to_lowercase(), port(server).to_string());
    let address = host.parse::<IpAddr>().ok();
    if host == "localhost" || address.is_some_and(|address| address.is_loopback()) {
        return true;
    }
    let none = none.to_lowercase();
    none.split(',').map(str::trim).any(|entry| {
        if entry.is_empty() || entry == "*" {
            return entry == "*";
        }
        if let Some((network, bits)) = entry.split_once('/') {
            return address.is_some_and(|address| within(address, network, bits));
        }
        let (name, only) = without_port(entry);
        if only.is_some_and(|only| only != port) {
            return false;
        }
        match name.parse::<IpAddr>() {
            Ok(named) => address == Some(named),
            Err(_) => is_domain(&host, name),
        }
    })
}

/// The name or address of a `NO_PROXY` entry, and its port, if any.
fn without_port(entry: &str) -> (&str, Option<&str>) {
    if let Some(rest) = entry.strip_prefix('[')
        && let Some((address, rest)) = rest.split_once(']')
    {
        return (address, rest.strip_prefix(':'));
    }
    match entry.split_once(':') {
        // More than one colon: an IPv6 address without brackets.
        Some((name, port)) if !port.contains(':') => (name, Some(port)),
        _ => (entry, None),
    }
}

/// `example.com` matches the domain and all below it, `.example.com` and `*.example.com` only names
/// below.
fn is_domain(host: &str, name: &str) -> bool {
    let name = name.strip_prefix('*').unwrap_or(name);
    match name.strip_prefix('.') {
        Some("") => false,
        Some(_) => host.ends_with(name),
        None if name.is_empty() => false,
        None => host
            .strip_suffix(name)
            .is_some_and(|rest| rest.is_empty() || rest.ends_with('.')),
    }
}

fn within(address: IpAddr, network: &str, bits: &str) -> bool {
    let Ok(bits) = bits.parse::<u32>() else {
        return false;
    };
    match (address, network.parse::<IpAddr>()) {
        (IpAddr::V4(address), Ok(IpAddr::V4(network))) if bits <= 32 => {
            let mask = u32::MAX.checked_shl(32 - bits).unwrap_or(0);
            u32::from(address) & mask == u32::from(network) & mask
        }
        (IpAddr::V6(address), Ok(IpAddr::V6(network))) if bits <= 128 => {
            let mask = u128::MAX.checked_shl(128 - bits).unwrap_or(0);
            u128::from(address) & mask == u128::from(network) & mask
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(none: &str) -> Environment {
        Environment {
            http: "plain:1".to_owned(),
            https: "http://secure:2".to_owned(),
            none: none.to_owned(),
        }
    }

    fn through(named: Option<&str>, none: &str, server: &str) -> String {
        let proxy = choose(named, &environment(none), &server.parse().unwrap()).unwrap();
        proxy.map_or_else(String::new, |proxy| proxy.address.to_string())
    }

    #[test]
    fn fs_17_scheme_and_kubeconfig_choose_the_proxy() {
        for (named, server, want) in [
            (None, "https://api:6443", "http://secure:2/"),
            (None, "http://api:8080", "http://plain:1/"),
            (Some("http://named"), "https://api:6443", "http://named:80/"),
            (Some(""), "https://api:6443", "http://secure:2/"),
            (
                Some("http://[fd00::1]"),
                "https://api",
                "http://[fd00::1]:80/",
            ),
            (
                Some("HTTP://named:3128/x"),
                "https://api",
                "http://named:3128/",
            ),
            (None, "https://localhost:6443", ""),
            (None, "https://127.0.0.2:6443", ""),
            (None, "https://[::1]:6443", ""),
            (Some("named"), "https://127.0.0.1", "http://named:80/"),
        ] {
            assert_eq!(through(named, "", server), want, "{named:?} {server}");
        }
        assert_eq!(
            through(Some("named"), "*", "https://api"),
            "http://named:80/"
        );
        let none = Environment::default();
        assert_eq!(
            choose(None, &none, &"https://api".parse().unwrap()),
            Ok(None)
        );
    }

    #[test]
    fn fs_17_no_proxy_is_read_as_go_reads_it() {
        for (none, server, direct) in [
            ("*", "https://api", true),
            ("", "https://api", false),
            (
                "other, API.example.com ",
                "https://api.example.com:6443",
                true,
            ),
            ("example.com", "https://api.example.com", true),
            ("example.com", "https://example.com", true),
            ("example.com", "https://badexample.com", false),
            (".example.com", "https://api.example.com", true),
            (".example.com", "https://example.com", false),
            ("*.example.com", "https://api.example.com", true),
            ("*.example.com", "https://example.com", false),
            ("example.com:6443", "https://example.com:6443", true),
            ("example.com:443", "https://example.com", true),
            ("example.com:80", "https://example.com:6443", false),
            ("10.0.0.0/8", "https://10.96.0.1:443", true),
            ("10.0.0.0/8", "https://11.96.0.1:443", false),
            ("0.0.0.0/0", "https://11.96.0.1:443", true),
            ("10.0.0.0/33", "https://10.96.0.1:443", false),
            ("10.0.0.0/8", "https://api", false),
            ("10.96.0.1", "https://10.96.0.1", true),
            ("10.96.0.1:443", "https://10.96.0.1", true),
            ("10.96.0.1:80", "https://10.96.0.1", false),
            ("fd00::/8", "https://[fd00::1]:443", true),
            ("fd00::1", "https://[fd00::1]:443", true),
            ("[fd00::1]:443", "https://[fd00::1]:443", true),
            ("[fd00::1]:80", "https://[fd00::1]:443", false),
            (",.,*.,:443,/", "https://api", false),
        ] {
            assert_eq!(
                through(None, none, server).is_empty(),
                direct,
                "{none} {server}"
            );
        }
    }

    #[test]
    fn fs_17_what_cannot_be_used_is_named_and_not_quoted() {
        let server = "https://api".parse().unwrap();
        for (url, want) in [
            (
                "socks5://u:secret@p",
                "proxy-url: only proxies with http://",
            ),
            ("https://u:secret@p", "proxy-url: only proxies with http://"),
            ("http://secret ", "proxy-url: this is not a URL"),
            ("http://u:secret@", "proxy-url: this is not a URL"),
            ("http://secret:port", "proxy-url: this is not a URL"),
        ] {
            let problem = choose(Some(url), &Environment::default(), &server).unwrap_err();
            assert!(problem.starts_with(want), "{problem}");
            assert!(!problem.contains("secret"), "{problem}");
        }
    }

    #[test]
    fn users_and_passwords_are_sent_as_they_are_meant() {
        let proxy = read("http://us%40er:p%3Aw@proxy:3128").unwrap();
        // us@er:p:w
        assert_eq!(proxy.authorization.unwrap(), "Basic dXNAZXI6cDp3");
        assert_eq!(read("proxy:3128").unwrap().authorization, None);
    }

    #[test]
    fn capitals_count_first() {
        let variable = |name: &str| match name {
            "HTTPS_PROXY" => Some("capital".to_owned()),
            "https_proxy" => Some("small".to_owned()),
            "NO_PROXY" => Some(String::new()),
            "no_proxy" => Some("none".to_owned()),
            _ => None,
        };
        let read = Environment::read(variable);
        assert_eq!(
            (&*read.http, &*read.https, &*read.none),
            ("", "capital", "none")
        );
    }
}
