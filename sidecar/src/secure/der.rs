//! Reads the validity and the subject of a certificate. No library here does: rustls neither exposes the validity of
//! a server's own certificate nor the names in a client's.

use jiff::civil::DateTime;
use jiff::tz::TimeZone;

const SEQUENCE: u8 = 0x30;
const VERSION: u8 = 0xa0;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;

const SET: u8 = 0x31;
const OBJECT_IDENTIFIER: u8 = 0x06;
/// `2.5.4.3`
const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];
/// `2.5.4.10`
const ORGANIZATION: &[u8] = &[0x55, 0x04, 0x0a];

/// The names in a certificate's subject that identify a user.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Subject {
    /// `CN`
    pub common_name: String,
    /// Every `O`
    pub organizations: Vec<String>,
}

/// The subject of a certificate in DER; `None` if it is not a certificate. Omits names that are not in UTF-8 or
/// ASCII.
#[must_use]
pub fn subject(der: &[u8]) -> Option<Subject> {
    let (_, rest) = element(from_validity(der)?, SEQUENCE)?;
    let (mut names, _) = element(rest, SEQUENCE)?;
    let mut subject = Subject::default();
    while !names.is_empty() {
        let (mut set, others) = element(names, SET)?;
        names = others;
        while !set.is_empty() {
            let (name, more) = element(set, SEQUENCE)?;
            set = more;
            let (kind, value) = element(name, OBJECT_IDENTIFIER)?;
            let (notation, value, _) = any(value)?;
            // UTF8String, PrintableString and IA5String.
            let is_text = matches!(notation, 0x0c | 0x13 | 0x16);
            let Some(value) = { is_text.then_some(value) }.and_then(|it| str::from_utf8(it).ok())
            else {
                continue;
            };
            match kind {
                COMMON_NAME => value.clone_into(&mut subject.common_name),
                ORGANIZATION => subject.organizations.push(value.to_owned()),
                _ => {}
            }
        }
    }
    Some(subject)
}

/// The signed part of a certificate, from its validity on.
fn from_validity(der: &[u8]) -> Option<&[u8]> {
    let (certificate, _) = element(der, SEQUENCE)?;
    let (signed, _) = element(certificate, SEQUENCE)?;
    let rest = element(signed, VERSION).map_or(signed, |(_, rest)| rest);
    // Skips serial number, algorithm, issuer.
    (0..3).try_fold(rest, |rest, _| Some(any(rest)?.2))
}

/// `notAfter` of a certificate in DER, in seconds since 1970; `None` if it is not a certificate.
#[must_use]
pub fn not_after(der: &[u8]) -> Option<i64> {
    let (validity, _) = element(from_validity(der)?, SEQUENCE)?;
    let (_, _, end) = any(validity)?;
    let (kind, text, _) = any(end)?;
    let text = std::str::from_utf8(text).ok()?.strip_suffix('Z')?;
    let text = match (kind, text.len()) {
        // A two-digit year means 1950 to 2049.
        (UTC_TIME, 12) if text < "5" => format!("20{text}"),
        (UTC_TIME, 12) => format!("19{text}"),
        (GENERALIZED_TIME, 14) => text.to_owned(),
        _ => return None,
    };
    let time = DateTime::strptime("%Y%m%d%H%M%S", text).ok()?;
    let time = TimeZone::UTC.to_timestamp(time).ok()?;
    Some(time.as_second())
}

/// Content of the first element, which must be of this kind, and the bytes after it.
fn element(bytes: &[u8], kind: u8) -> Option<(&[u8], &[u8])> {
    let (found, content, rest) = any(bytes)?;
    (found == kind).then_some((content, rest))
}

/// Kind and content of the first element, and the bytes after it.
fn any(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&[kind, length], rest) = bytes.split_first_chunk()?;
    let (length, rest) = if length < 0x80 {
        (usize::from(length), rest)
    } else {
        let (digits, rest) = rest.split_at_checked(usize::from(length & 0x7f))?;
        if digits.len() > 4 {
            return None;
        }
        let shift = |sum: usize, digit: &u8| sum << 8 | usize::from(*digit);
        (digits.iter().fold(0, shift), rest)
    };
    let (content, rest) = rest.split_at_checked(length)?;
    Some((kind, content, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(year: i32) -> Vec<u8> {
        let mut parameters = rcgen::CertificateParams::new(vec!["a".to_owned()]).unwrap();
        parameters.not_after = rcgen::date_time_ymd(year, 3, 4);
        let key = rcgen::KeyPair::generate().unwrap();
        parameters.self_signed(&key).unwrap().der().to_vec()
    }

    #[test]
    fn both_notations_of_the_time() {
        for (year, seconds) in [(2031, 1_930_348_800), (2060, 2_845_584_000)] {
            assert_eq!(not_after(&made(year)), Some(seconds), "{year}");
        }
    }

    #[test]
    fn o_49_the_user_and_groups_of_a_certificate() {
        use rcgen::DnType;
        for (common_name, organizations) in [
            ("prometheus", &["monitoring", "größe"][..]),
            ("", &[]),
            ("a", &["b"]),
        ] {
            let mut parameters = rcgen::CertificateParams::new(Vec::new()).unwrap();
            parameters.distinguished_name = rcgen::DistinguishedName::new();
            if !common_name.is_empty() {
                parameters
                    .distinguished_name
                    .push(DnType::CommonName, common_name);
            }
            // The library keeps one name of a kind.
            if let Some(one) = organizations.last() {
                parameters
                    .distinguished_name
                    .push(DnType::OrganizationName, *one);
            }
            parameters
                .distinguished_name
                .push(DnType::CountryName, "DE");
            let key = rcgen::KeyPair::generate().unwrap();
            let made = parameters.self_signed(&key).unwrap();
            let found = subject(made.der()).unwrap();
            let expected: Vec<&str> = organizations.last().copied().into_iter().collect();
            assert_eq!(found.common_name, common_name);
            assert_eq!(found.organizations, expected);
        }
    }

    #[test]
    fn what_is_no_certificate_has_no_end() {
        let whole = made(2031);
        for length in 0..whole.len() {
            let _any_of_them = not_after(&whole[..length]);
            let _any_of_them = subject(&whole[..length]);
        }
        for (at, byte) in [(0, 0x31), (1, 0x84), (1, 0xff), (4, 0)] {
            let mut broken = whole.clone();
            broken[at] = byte;
            assert_eq!(not_after(&broken), None, "{at} {byte}");
        }
        assert_eq!(not_after(&[]), None);
    }
}
