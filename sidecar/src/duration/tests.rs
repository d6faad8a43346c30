//! Compared with Go 1.26.

use super::*;
use proptest::prelude::*;

/// Text, then its nanoseconds and Go's printed form, or Go's error.
const GO: &str = include_str!("testdata/go.tsv");

#[test]
fn parses_and_prints_as_go_does() {
    let mut checked = 0;
    for line in GO.lines() {
        let columns: Vec<&str> = line.split('\t').collect();
        let text = columns[0];
        let got = text.parse::<GoDuration>();
        match columns[..] {
            [_, nanos, printed] => {
                let duration = got.unwrap_or_else(|error| panic!("{text}: {error}"));
                assert_eq!(duration.as_nanos().to_string(), nanos, "{text}");
                assert_eq!(duration.to_string(), printed, "{text}");
            }
            _ => assert_eq!(got.unwrap_err().to_string(), columns[1], "{text}"),
        }
        checked += 1;
    }
    assert!(checked > 400);
}

#[test]
fn as_standard_duration() {
    assert_eq!(
        GoDuration::from_secs(3).to_std(),
        Some(Duration::from_secs(3))
    );
    assert_eq!(GoDuration::from_nanos(-1).to_std(), None);
    assert_eq!(GoDuration::from_nanos(-1).to_timeout(), Duration::ZERO);
    assert_eq!(GoDuration::from_std(Duration::MAX).as_nanos(), i64::MAX);
    assert_eq!(GoDuration::from_secs(i64::MIN).as_nanos(), i64::MIN);
    assert!((GoDuration::from_nanos(1_500_000_000).as_secs_f64() - 1.5).abs() < 1e-9);
}

proptest! {
    #[test]
    fn what_is_printed_reads_back(nanos: i64) {
        let duration = GoDuration::from_nanos(nanos);
        prop_assert_eq!(duration.to_string().parse(), Ok(duration));
    }

    #[test]
    fn small_ones_read_back_too(nanos in -5_000_000_000_i64..5_000_000_000) {
        let duration = GoDuration::from_nanos(nanos);
        prop_assert_eq!(duration.to_string().parse(), Ok(duration));
    }

    #[test]
    fn no_text_panics(text in "\\PC{0,40}") {
        let _ = text.parse::<GoDuration>();
    }

    #[test]
    fn nothing_that_looks_like_a_duration_panics(text in "[-+]?([0-9]{0,25}\\.?[0-9]{0,25}(h|m|s|ms|us|µs|ns|d)?){0,4}") {
        let _ = text.parse::<GoDuration>();
    }
}
