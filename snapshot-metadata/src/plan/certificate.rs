//! Until when a certificate is valid. No library here says so: rustls leaves a server's own certificate alone.

use jiff::civil::DateTime;
use jiff::tz::TimeZone;

const SEQUENCE: u8 = 0x30;
const VERSION: u8 = 0xa0;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;

/// `notAfter` of a certificate in DER, in seconds since 1970; `None` if it is no certificate.
#[must_use]
pub fn not_after(der: &[u8]) -> Option<i64> {
    let (certificate, _) = element(der, SEQUENCE)?;
    let (signed, _) = element(certificate, SEQUENCE)?;
    let rest = element(signed, VERSION).map_or(signed, |(_, rest)| rest);
    // Serial number, algorithm, issuer.
    let rest = (0..3).try_fold(rest, |rest, _| Some(any(rest)?.2))?;
    let (validity, _) = element(rest, SEQUENCE)?;
    let (_, _, end) = any(validity)?;
    let (kind, text, _) = any(end)?;
    let text = std::str::from_utf8(text).ok()?.strip_suffix('Z')?;
    let text = match (kind, text.len()) {
        // Two digits of the year stand for 1950 to 2049.
        (UTC_TIME, 12) if text < "5" => format!("20{text}"),
        (UTC_TIME, 12) => format!("19{text}"),
        (GENERALIZED_TIME, 14) => text.to_owned(),
        _ => return None,
    };
    let time = DateTime::strptime("%Y%m%d%H%M%S", text).ok()?;
    let time = TimeZone::UTC.to_timestamp(time).ok()?;
    Some(time.as_second())
}

/// Content of the first element, which must be of this kind, and what follows it.
fn element(bytes: &[u8], kind: u8) -> Option<(&[u8], &[u8])> {
    let (found, content, rest) = any(bytes)?;
    (found == kind).then_some((content, rest))
}

/// Kind and content of the first element, and what follows it.
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
    fn what_is_no_certificate_has_no_end() {
        let whole = made(2031);
        for length in 0..whole.len() {
            let _any_of_them = not_after(&whole[..length]);
        }
        for (at, byte) in [(0, 0x31), (1, 0x84), (1, 0xff), (4, 0)] {
            let mut broken = whole.clone();
            broken[at] = byte;
            assert_eq!(not_after(&broken), None, "{at} {byte}");
        }
        assert_eq!(not_after(&[]), None);
    }
}
