//! Version rules, K-26 to K-30 as tables.

use proptest::prelude::*;
use registrar::kubelet::plan::driver::{Driver, Drivers, Rejected};
use registrar::kubelet::plan::version::{Unsupported, Version, highest_supported};

fn highest(offered: &[&str]) -> Result<String, Unsupported> {
    let offered: Vec<String> = offered.iter().map(|&text| text.to_owned()).collect();
    highest_supported(&offered).map(|version| version.to_string())
}

#[test]
fn k_26_27_28_lists_without_a_usable_version_are_rejected() {
    let rows: [(u32, &[&str]); 6] = [
        (26, &["0.3.0"]),
        (26, &["0.2.0", "v0.3.0"]),
        (27, &["2.0.1", "4.9.12"]),
        (28, &["var", "boo"]),
        (28, &["1"]),
        (28, &["", "v", ".", "1.", "01.0", "-1.0", "vv1.0", "v 1.0"]),
    ];
    for (row, offered) in rows {
        assert_eq!(
            highest(offered),
            Err(Unsupported::NoneSupported),
            "K-{row} {offered:?}"
        );
    }
}

#[test]
fn k_29_the_highest_of_major_one_wins() {
    assert_eq!(
        highest(&["v1.2.3", "boo", "v0.3.0", "2.0.1"]).as_deref(),
        Ok("1.2.3")
    );
    assert_eq!(
        highest(&["1.10.0", "1.9.9"]).as_deref(),
        Ok("1.10.0"),
        "numbers, not text"
    );
}

#[test]
fn k_30_prefix_space_and_tail_are_accepted() {
    let rows = [
        ("1.0.0", "1.0.0"),
        ("v1.0", "1.0"),
        (" 1.0-rc1", "1.0"),
        ("1.2.x", "1.2"),
        ("1.00", "1.0"),
    ];
    for (offered, expected) in rows {
        assert_eq!(highest(&[offered]).as_deref(), Ok(expected), "{offered:?}");
    }
}

#[test]
fn nothing_offered_and_nothing_that_fits_in_64_bits() {
    assert_eq!(highest(&[]), Err(Unsupported::NoneOffered));
    assert_eq!(
        highest(&["1.99999999999999999999"]),
        Err(Unsupported::NoneSupported)
    );
    let endless = "1.1".repeat(1 << 20);
    assert_eq!(highest(&[&endless]), Err(Unsupported::NoneSupported));
}

#[test]
fn a_name_is_taken_unless_the_new_version_is_higher() {
    let mut drivers = Drivers::default();
    let version = drivers
        .check("d.example.com", &["1.0.0".to_owned()])
        .unwrap();
    drivers.set(
        "d.example.com".to_owned(),
        Driver {
            endpoint: "/a".to_owned(),
            version,
        },
    );
    let rows = [
        ("1.0.0", false),
        ("1.0", false),
        ("0.9.0", false),
        ("1.0.1", true),
        ("1.1", true),
    ];
    for (offered, accepted) in rows {
        let answer = drivers.check("d.example.com", &[offered.to_owned()]);
        assert_eq!(answer.is_ok(), accepted, "{offered}");
    }
    assert_eq!(
        drivers.check("", &["1.0.0".to_owned()]),
        Err(Rejected::NoName)
    );
    for name in [
        "a/b",
        "../x",
        "a b",
        "-a",
        "a.",
        "a..b",
        "\u{e9}",
        &"a".repeat(64),
        &"n/".repeat(1 << 20),
    ] {
        let answer = drivers.check(name, &["1.0.0".to_owned()]);
        assert!(
            matches!(answer, Err(Rejected::BadName { .. })),
            "{answer:?}"
        );
    }
    assert!(drivers.check("Upper.Case", &["1.0.0".to_owned()]).is_ok());
    assert!(drivers.check("other", &["1.0.0".to_owned()]).is_ok());
}

proptest! {
    #[test]
    fn any_text_is_read_without_a_panic(text in any::<String>()) {
        let _ = Version::parse(&text);
    }

    #[test]
    fn printing_and_reading_a_version_agree(numbers in proptest::collection::vec(any::<u64>(), 2..6)) {
        let text = numbers.iter().map(u64::to_string).collect::<Vec<_>>().join(".");
        prop_assert_eq!(Version::parse(&text).unwrap().to_string(), text);
    }

    #[test]
    fn order_is_that_of_the_padded_numbers(
        a in proptest::collection::vec(0_u64..4, 2..5),
        b in proptest::collection::vec(0_u64..4, 2..5),
    ) {
        let version = |numbers: &[u64]| {
            Version::parse(&numbers.iter().map(u64::to_string).collect::<Vec<_>>().join(".")).unwrap()
        };
        let pad = |numbers: &[u64]| {
            let mut padded = numbers.to_vec();
            padded.resize(8, 0);
            padded
        };
        prop_assert_eq!(version(&a).cmp(&version(&b)), pad(&a).cmp(&pad(&b)));
    }
}
