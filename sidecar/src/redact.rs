//! Removes secrets from texts of drivers and users before they are shown.

use std::borrow::Cow;

use crate::text::truncated;
use crate::visible::visible;

/// Maximum length of a text in bytes.
const LONGEST: usize = 1024;
/// A run of this many base64 or hexadecimal characters counts as a secret.
const RUN: usize = 40;
/// Names whose values are secret.
const NAMES: &[&str] = &[
    "password",
    "passwd",
    "pwd",
    "token",
    "secret",
    "key",
    "sig",
    "signature",
    "credential",
    "credentials",
    "pass",
    "passphrase",
    "authorization",
];
/// After these, a colon alone makes a pair: `secret: not found` is a sentence, `password: x` is not.
const PLAIN: &[&str] = &["password", "passwd", "pwd", "passphrase", "authorization"];
/// Words between `Authorization` and the secret.
const SCHEMES: &[&str] = &["bearer", "basic", "digest", "token"];
const HIDDEN: &str = "***";

/// `text` on one line, without control characters.
#[must_use]
pub fn plain(text: &str) -> String {
    visible(text).replace(['\n', '\t'], " ")
}

/// Text of a driver or a user: on one line, at most 1 KiB, without anything that looks like a secret.
#[must_use]
pub fn words(text: &str) -> String {
    let cut = truncated(text, LONGEST);
    let escaped = told(cut);
    // An escaped character is longer than the character.
    let shown = truncated(&escaped, LONGEST);
    let is_cut = cut.len() < text.len() || shown.len() < escaped.len();
    let end = if is_cut { "…" } else { "" };
    format!("{shown}{end}")
}

/// A message of this program that may quote others' text.
#[must_use]
pub fn told(text: &str) -> String {
    plain(&runs(&values(&flags(&users(text)))))
}

/// The value of a flag: hidden if the flag's name says that it is secret. Otherwise without the user of an address, and as
/// [`told`], except that long names of files stay whole.
#[must_use]
pub fn of_flag(name: &str, value: &str) -> String {
    if secret_of(name).is_some() && !value.is_empty() {
        return HIDDEN.to_owned();
    }
    if value.starts_with('/') || value.starts_with("unix://") {
        return plain(&values(&flags(value)));
    }
    told(&without_user(value))
}

/// Hides user and password of an address, which need not have a scheme.
fn without_user(value: &str) -> Cow<'_, str> {
    let start = value.find("://").map_or(0, |at| at + "://".len());
    let (scheme, rest) = value.split_at(start);
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    match authority.rsplit_once('@') {
        Some((_, host)) => Cow::Owned(format!("{scheme}{HIDDEN}@{host}{path}")),
        None => Cow::Borrowed(value),
    }
}

/// The entry of `NAMES` with which a name ends.
fn secret_of(name: &str) -> Option<&'static str> {
    NAMES.iter().copied().find(|secret| name.ends_with(secret))
}

/// Hides the value in `--password x`.
fn flags(text: &str) -> Cow<'_, str> {
    if !text.contains('-') {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len());
    let (mut hides, mut quote) = (false, None);
    for part in text.split_inclusive(char::is_whitespace) {
        let word = part.trim_end();
        if let Some(end) = quote {
            quote = quote.filter(|_| !word.ends_with(end));
            continue;
        }
        if !hides || word.is_empty() {
            shown.push_str(part);
            let name = word.trim_start_matches('-').to_ascii_lowercase();
            hides =
                (word.is_empty() && hides) || (word.starts_with('-') && secret_of(&name).is_some());
            continue;
        }
        hides = false;
        shown.push_str(HIDDEN);
        shown.push_str(part.get(word.len()..).unwrap_or_default());
        quote = { word.chars().next() }.filter(|first| {
            matches!(first, '"' | '\'') && (word.len() == 1 || !word.ends_with(*first))
        });
    }
    Cow::Owned(shown)
}

/// Hides the password in `https://user:password@host`.
fn users(text: &str) -> String {
    let mut parts = text.split("://");
    let mut shown = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        shown.push_str("://");
        let end = part
            .find(|c: char| c.is_whitespace() || "/?#\"'<>".contains(c))
            .unwrap_or(part.len());
        let host = part.get(..end).unwrap_or_default();
        match host.rfind('@') {
            Some(at) => {
                shown.push_str(HIDDEN);
                shown.push_str(part.get(at..).unwrap_or_default());
            }
            None => shown.push_str(part),
        }
    }
    shown
}

/// Hides the value in `password=…` and `"token": "…"`.
fn values(text: &str) -> Cow<'_, str> {
    if !text.contains(['=', ':']) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(['=', ':']) {
        let (front, behind) = rest.split_at(at);
        let mark = behind.get(..1).unwrap_or_default();
        let behind = behind.get(1..).unwrap_or_default();
        shown.push_str(front);
        shown.push_str(mark);
        rest = behind;
        let quoted = |c: char| c == '"' || c == '\'' || c == '\\';
        let front = front.trim_end();
        let name = front.trim_end_matches(quoted);
        let start = name
            .rfind(|c: char| !(c.is_alphanumeric() || c == '_' || c == '-'))
            .map_or(0, |at| {
                at + name
                    .get(at..)
                    .and_then(|c| c.chars().next())
                    .map_or(1, char::len_utf8)
            });
        let name = name.get(start..).unwrap_or_default().to_ascii_lowercase();
        let is_pair = mark == "=" || front.ends_with(quoted);
        let secret = secret_of(&name);
        // `client_secret: x` is a pair, `secret: not found` is not.
        let named = |secret: &str| is_pair || name.len() > secret.len() || PLAIN.contains(&secret);
        if !secret.is_some_and(named) {
            continue;
        }
        let value = rest.trim_start_matches(|c: char| c == ' ' || quoted(c));
        let (lead, value) = rest.split_at(rest.len() - value.len());
        shown.push_str(lead);
        let end = |text: &str| {
            let end = text.find(|c: char| c.is_whitespace() || quoted(c) || ",;&)}]".contains(c));
            end.unwrap_or(text.len())
        };
        let hidden = match lead
            .chars()
            .next_back()
            .filter(|last| "\"'".contains(*last))
        {
            // In quotes, blanks belong to the value.
            Some(quote) => {
                let inside = value.find(quote).unwrap_or(value.len());
                let inside = value.get(..inside).unwrap_or_default();
                inside.trim_end_matches('\\').len()
            }
            None => {
                let first = end(value);
                let (word, behind) = value.split_at(first);
                let scheme = SCHEMES.contains(&&*word.to_ascii_lowercase());
                let token = behind.trim_start();
                match scheme && secret == Some("authorization") {
                    true => value.len() - token.len() + end(token),
                    false => first,
                }
            }
        };
        if hidden > 0 {
            shown.push_str(HIDDEN);
        }
        rest = value.get(hidden..).unwrap_or_default();
    }
    shown.push_str(rest);
    Cow::Owned(shown)
}

/// Hides long runs of base64, and of hexadecimal digits except attachment names.
fn runs(text: &str) -> String {
    let of_run = |c: char| c.is_ascii_alphanumeric() || "+/=_-".contains(c);
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !of_run(c)).unwrap_or(rest.len());
        let (run, behind) = rest.split_at(end);
        if is_secret(run) {
            shown.push_str(HIDDEN)
        } else {
            shown.push_str(run)
        }
        let next = behind.find(of_run).unwrap_or(behind.len());
        let (between, behind) = behind.split_at(next);
        shown.push_str(between);
        rest = behind;
    }
    shown
}

fn is_secret(run: &str) -> bool {
    if run.len() < RUN {
        return false;
    }
    let has = |fits: fn(&char) -> bool| run.chars().any(|c| fits(&c));
    let mixed =
        has(char::is_ascii_uppercase) && has(char::is_ascii_lowercase) && has(char::is_ascii_digit);
    let digits = |part: &str| part.len() >= RUN && part.chars().all(|c| c.is_ascii_hexdigit());
    let of_attachment = run.strip_prefix("csi-").is_some_and(digits);
    mixed || (!of_attachment && run.split(['/', '-', '_']).any(digits))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn w_17_nothing_that_looks_like_a_secret_is_shown() {
        let base64 = "QWxhZGRpbjpvcGVuIHNlc2FtZUFsYWRkaW46b3BlbiBzZXNhbWU4";
        for (text, shown) in [
            (
                "get https://u:p@host/x failed",
                "get https://***@host/x failed",
            ),
            ("https://host/a@b is fine", "https://host/a@b is fine"),
            (
                "mount -o user=a,password=b,vers=3",
                "mount -o user=a,password=***,vers=3",
            ),
            ("url?sig=abc&se=1", "url?sig=***&se=1"),
            (
                r#"{"token": "abc", "name": "x"}"#,
                r#"{"token": "***", "name": "x"}"#,
            ),
            (r#"{\"accessKey\":\"abc\"}"#, r#"{\"accessKey\":\"***\"}"#),
            ("secret \"a\" not found", "secret \"a\" not found"),
            (
                "login with password: x1 failed",
                "login with password: *** failed",
            ),
            ("password = x1, vers=3", "password = ***, vers=3"),
            (
                r#"{"password" : "two words", "name" : "x"}"#,
                r#"{"password" : "***", "name" : "x"}"#,
            ),
            (r#"{\"pass\": \"two words\"}"#, r#"{\"pass\": \"***\"}"#),
            ("client_secret: x1", "client_secret: ***"),
            ("secretKey: x1, user: a", "secretKey: ***, user: a"),
            (
                "Authorization: Bearer x1 was refused",
                "Authorization: *** was refused",
            ),
            ("passphrase: x1", "passphrase: ***"),
            ("user=a pass=x1 vers=3", "user=a pass=*** vers=3"),
            (
                "rbd map --password x1 --id a",
                "rbd map --password *** --id a",
            ),
            (
                "rbd map --key 'two words' --id a",
                "rbd map --key *** --id a",
            ),
            ("password='two words' now", "password='***' now"),
            ("ü password: x1", "ü password: ***"),
            (
                "failed to get secret: not found",
                "failed to get secret: not found",
            ),
        ] {
            assert_eq!(words(text), shown);
        }
        assert_eq!(words(&format!("said {base64}.")), "said ***.");
        let hash = "0123456789abcdef".repeat(4);
        assert_eq!(words(&hash), "***");
        assert_eq!(words(&format!("csi-{hash}")), format!("csi-{hash}"));
        let path =
            "/var/lib/kubelet/pods/9a7c1f0e-1111-2222-3333-444455556666/volumes/kubernetes.io~csi";
        assert_eq!(words(path), path);
    }

    #[test]
    fn o_72_o_73_values_of_flags_hold_no_secret() {
        for (name, value, shown) in [
            ("master", "https://me:x1@host:6443", "https://***@host:6443"),
            (
                "master",
                "https://me:x'1@host:6443/a@b",
                "https://***@host:6443/a@b",
            ),
            ("master", "me:x1@host:6443", "***@host:6443"),
            ("master", "https://host:6443", "https://host:6443"),
            (
                "tls-cert-file",
                "/etc/Kubernetes/pki/csi-sidecars-1/metrics/tls.crt",
                "/etc/Kubernetes/pki/csi-sidecars-1/metrics/tls.crt",
            ),
            ("vmodule", "password=7,queue=5", "password=***,queue=5"),
            ("driver-token", "x1", "***"),
            ("driver-token", "", ""),
            ("tls-private-key-file", "/tls/tls.key", "/tls/tls.key"),
            (
                "csi-address",
                "unix:///run/csi/socket",
                "unix:///run/csi/socket",
            ),
            ("leader-election-labels", "a:b,c:d", "a:b,c:d"),
            ("default-fstype", "ext4\nx=1\u{1b}[2J", "ext4 x=1\\x1b[2J"),
        ] {
            assert_eq!(of_flag(name, value), shown, "{name}");
        }
    }

    #[test]
    fn w_18_w_39_texts_are_short_and_repaint_no_terminal() {
        let long = "ab ".repeat(400_000);
        assert!(words(&long).chars().count() <= LONGEST + 1);
        assert_eq!(
            words("a\u{1b}[2Jb\r\nc\u{202e}"),
            "a\\x1b[2Jb\\x0d c\\u202e"
        );
    }
}
