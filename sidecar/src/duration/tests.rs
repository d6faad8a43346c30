use super::*;

/// Text, and Go's answer: nanoseconds or the error. Taken from Go 1.26.
const PARSED: &[(&str, Result<i64, &str>)] = &[("0", Ok(0)), ("15s", Ok(15_000_000_000))];

#[test]
fn parses_as_go_does() {
    for (text, expected) in PARSED {
        let got = text.parse::<GoDuration>();
        let got = got.map(GoDuration::as_nanos).map_err(|e| e.to_string());
        assert_eq!(got, expected.map_err(str::to_owned), "{text}");
    }
}
