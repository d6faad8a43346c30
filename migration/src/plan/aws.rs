//! IDs of EBS volumes, which may be URLs: `aws://us-east-1a/vol-1`.
//!
//! The parser accepts what Go's does, which no library of ours does: clusters contain IDs that it accepted.

use core::net::Ipv6Addr;

use crate::model::error::{Cause, UrlFault};

const SCHEME: &str = "aws://";

/// The driver's ID of a volume.
pub(super) fn volume_id(id: &str) -> Result<String, Cause> {
    let Some(rest) = id.strip_prefix(SCHEME) else {
        return Ok(id.to_owned());
    };
    let fault = |why| {
        let id = id.to_owned();
        Cause::NotAUrl { id, why }
    };
    let path = path(rest).map_err(fault)?;
    let mut name = path.as_slice();
    while let Some(rest) = name.strip_prefix(b"/") {
        name = rest;
    }
    while let Some(rest) = name.strip_suffix(b"/") {
        name = rest;
    }
    if !name.starts_with(b"vol-") || name.contains(&b'/') {
        return Err(Cause::NotAVolumeId(id.to_owned()));
    }
    String::from_utf8(name.to_vec()).map_err(|_| fault(UrlFault::Text))
}

/// The decoded path of a URL; `rest` is the part after the scheme.
fn path(rest: &str) -> Result<Vec<u8>, UrlFault> {
    let (rest, fragment) = rest.split_once('#').unwrap_or((rest, ""));
    if rest.bytes().any(|byte| byte < 0x20 || byte == 0x7f) {
        return Err(UrlFault::Control);
    }
    let (rest, _query) = rest.split_once('?').unwrap_or((rest, ""));
    let slash = rest.find('/').unwrap_or(rest.len());
    let (authority, path) = rest.split_at_checked(slash).unwrap_or((rest, ""));
    let host = match authority.rsplit_once('@') {
        None => authority,
        Some((user, host)) => {
            user_info(user)?;
            host
        }
    };
    check_host(host)?;
    let path = decoded(path)?;
    decoded(fragment)?;
    Ok(path)
}

fn user_info(user: &str) -> Result<(), UrlFault> {
    let permitted =
        |byte: u8| byte.is_ascii_alphanumeric() || b"-._:~!$&'()*+,;=%@".contains(&byte);
    if !user.bytes().all(permitted) {
        return Err(UrlFault::UserInfo);
    }
    decoded(user).map(|_| ())
}

fn check_host(host: &str) -> Result<(), UrlFault> {
    let (name, port) = if let Some(open) = host.strip_prefix('[') {
        let (address, port) = open.rsplit_once(']').ok_or(UrlFault::Host)?;
        let (address, scope) = address.split_once("%25").unwrap_or((address, "0"));
        address.parse::<Ipv6Addr>().map_err(|_| UrlFault::Host)?;
        if scope.is_empty() {
            return Err(UrlFault::Host);
        }
        // A scope may have escaped blanks.
        host_text(scope, |value| {
            b" [".contains(&value) || value < 0x80 && of_host(value)
        })?;
        if !port.is_empty() && !port.starts_with(':') {
            return Err(UrlFault::Port);
        }
        ("", port.strip_prefix(':').unwrap_or(port))
    } else if host.contains('[') {
        return Err(UrlFault::Host);
    } else {
        host.rsplit_once(':').unwrap_or((host, ""))
    };
    if !port.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(UrlFault::Port);
    }
    host_text(name, |value| value >= 0x80)
}

fn of_host(byte: u8) -> bool {
    byte >= 0x80 || byte.is_ascii_alphanumeric() || b"!\"$&'()*+,-.:;<=>]_~".contains(&byte)
}

/// Fails unless `text` is a valid part of a host; `escaped` tells which bytes may be there as an escape.
fn host_text(text: &str, escaped: impl Fn(u8) -> bool) -> Result<(), UrlFault> {
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        let fits = match byte {
            b'%' => {
                let value = escape(&mut bytes).ok_or(UrlFault::Escape)?;
                value == b'%' || escaped(value)
            }
            _ => of_host(byte),
        };
        if !fits {
            return Err(UrlFault::Host);
        }
    }
    Ok(())
}

/// The byte of the next two hexadecimal digits.
fn escape(bytes: &mut impl Iterator<Item = u8>) -> Option<u8> {
    let mut digit = || char::from(bytes.next()?).to_digit(16);
    let value = digit()? << 4 | digit()?;
    u8::try_from(value).ok()
}

fn decoded(text: &str) -> Result<Vec<u8>, UrlFault> {
    let mut bytes = text.bytes();
    let mut out = Vec::with_capacity(text.len());
    while let Some(byte) = bytes.next() {
        out.push(match byte {
            b'%' => escape(&mut bytes).ok_or(UrlFault::Escape)?,
            _ => byte,
        });
    }
    Ok(out)
}
