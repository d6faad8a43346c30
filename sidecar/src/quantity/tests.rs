//! Compared with `k8s.io/apimachinery` 0.36.1.

use super::*;
use proptest::prelude::*;

/// Text, then the value rounded up and the canonical form, or `error`.
///
/// Omitted: magnitudes beyond 2^63-1, which overflow there (`1e19` has the value 0) and are clamped
/// here; negative ones with a wrong value there (`-9223372036854775807` has the value 1); and texts
/// without any digit (`Gi`, `.`), which are zero there and refused here.
const GO: &str = include_str!("testdata/go.tsv");

#[test]
fn parses_rounds_and_prints_as_kubernetes_does() {
    let mut checked = 0;
    for line in GO.lines() {
        let columns: Vec<&str> = line.split('\t').collect();
        let text = columns[0];
        let got = text.parse::<Quantity>();
        match columns[..] {
            [_, value, canonical] => {
                let quantity = got.unwrap_or_else(|error| panic!("{error}"));
                assert_eq!(quantity.value().to_string(), value, "{text}");
                assert_eq!(quantity.to_string(), canonical, "{text}");
            }
            _ => assert!(got.is_err(), "{text}"),
        }
        checked += 1;
    }
    assert!(checked > 400);
}

#[test]
fn beyond_the_largest() {
    for text in [
        "9223372036854775808",
        "8Ei",
        "10Ei",
        "1e19",
        "1e100",
        "1e2147483647",
        "99999999999999999999999999999999999999999999Gi",
        "0.1e30",
    ] {
        let quantity: Quantity = text.parse().unwrap();
        assert_eq!(quantity.value(), i64::MAX, "{text}");
        let quantity: Quantity = format!("-{text}").parse().unwrap();
        assert_eq!(quantity.value(), -i64::MAX, "-{text}");
    }
    let smallest: Quantity = "-9223372036854775807".parse().unwrap();
    assert_eq!(smallest.value(), -i64::MAX);
    assert_eq!("0e2147483647".parse::<Quantity>().unwrap().value(), 0);
    assert_eq!(
        "1e-2147483648".parse::<Quantity>().unwrap().to_string(),
        "1e-9"
    );
    assert!("1e2147483648".parse::<Quantity>().is_err());
}

#[test]
fn no_digits_no_quantity() {
    for text in ["", "Gi", ".", "-", "+", "-.", "e3", ".e3"] {
        assert!(text.parse::<Quantity>().is_err(), "{text}");
    }
}

#[test]
fn equal_if_the_value_is() {
    let quantity = |text: &str| text.parse::<Quantity>().unwrap();
    assert_eq!(quantity("1Gi"), quantity("1073741824"));
    assert!(quantity("1Gi") > quantity("1G"));
    assert!(quantity("0Gi").is_zero());
    assert_eq!(Quantity::from_bytes(1_610_612_736).to_string(), "1536Mi");
    assert_eq!(Quantity::new(3000, Format::DecimalSi).to_string(), "3k");
    assert_eq!(quantity("1e3").format(), Format::DecimalExponent);
}

#[test]
fn without_a_suffix_bytes_are_read_as_a_decimal_number() {
    let bytes = Quantity::from_bytes(131_359_005_242_719_000);
    assert_eq!(bytes.to_string(), "131359005242719000");
    let again: Quantity = bytes.to_string().parse().unwrap();
    assert_eq!(again, bytes);
    assert_eq!(again.to_string(), "131359005242719k");
}

proptest! {
    #[test]
    fn the_canonical_form_reads_back(
        bytes in -i64::MAX..i64::MAX,
        format in prop::sample::select(vec![
            Format::BinarySi, Format::DecimalSi, Format::DecimalExponent,
        ]),
    ) {
        let quantity = Quantity::new(bytes, format);
        let again: Quantity = quantity.to_string().parse().unwrap();
        prop_assert_eq!(again, quantity);
        prop_assert_eq!(again.value(), bytes);
        if quantity.to_string().ends_with(|c: char| c.is_ascii_digit()) && format == Format::BinarySi {
            prop_assert_eq!(again.format(), Format::DecimalSi);
        } else {
            prop_assert_eq!(again.to_string(), quantity.to_string());
        }
    }

    #[test]
    fn more_is_not_less(a in "[0-9]{1,9}(\\.[0-9]{1,12})?(Ki|Mi|Gi|k|M|m|u)?", b in "[0-9]{1,9}Mi") {
        let (a, b): (Quantity, Quantity) = (a.parse().unwrap(), b.parse().unwrap());
        prop_assert_eq!(a < b, a.value() < b.value() || (a.value() == b.value() && a < b));
        if a < b {
            prop_assert!(a.value() <= b.value());
        }
    }

    #[test]
    fn no_text_panics(text in "\\PC{0,40}") {
        let _ = text.parse::<Quantity>();
    }

    #[test]
    fn nothing_that_looks_like_a_quantity_panics(
        text in "[-+]?[0-9]{0,60}\\.?[0-9]{0,60}(Ki|Ei|E|n|m|e[-+]?[0-9]{0,12})?"
    ) {
        if let Ok(quantity) = text.parse::<Quantity>() {
            let again: Quantity = quantity.to_string().parse().unwrap();
            prop_assert_eq!(again, quantity);
        }
    }
}
