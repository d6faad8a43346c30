//! The few parts of gRPC over HTTP/2 that are handled by hand. Pure.

use bytes::Bytes;

/// Length of a message's header: compression flag and length.
const HEADER: usize = 5;

/// The message in a body with one frame.
pub fn message(body: &[u8]) -> &[u8] {
    body.get(HEADER..).unwrap_or_default()
}

/// A message with its frame header.
pub fn frame(message: &[u8]) -> Bytes {
    let length = u32::try_from(message.len()).unwrap_or(u32::MAX);
    let mut framed = vec![0];
    framed.extend(length.to_be_bytes());
    framed.extend_from_slice(message);
    framed.into()
}

/// Value of the `grpc-timeout` header (gRPC over HTTP/2: up to 8 digits and a unit).
pub fn timeout_ms(text: &str) -> Option<u64> {
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let number: u64 = digits.parse().ok()?;
    match unit {
        "H" => number.checked_mul(3_600_000),
        "M" => number.checked_mul(60_000),
        "S" => number.checked_mul(1_000),
        "m" => Some(number),
        "u" => Some(number / 1_000),
        "n" => Some(number / 1_000_000),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deadlines_have_units() {
        for (text, ms) in [
            ("15S", Some(15_000)),
            ("120000m", Some(120_000)),
            ("2M", Some(120_000)),
            ("1H", Some(3_600_000)),
            ("1500u", Some(1)),
            ("99999999n", Some(99)),
            ("", None),
            ("S", None),
            ("5x", None),
        ] {
            assert_eq!(timeout_ms(text), ms, "{text:?}");
        }
    }

    #[test]
    fn frames_hold_their_message() {
        assert_eq!(frame(b"abc").as_ref(), b"\0\0\0\0\x03abc");
        assert_eq!(message(&frame(b"abc")), b"abc");
        assert_eq!(message(b"\0\0"), b"");
    }
}
