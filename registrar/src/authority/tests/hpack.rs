//! Finding the value of `:authority` in a header block.

use super::super::hpack::{Malformed, REPLACEMENT, unacceptable};
use super::wire::{Coding, Kind, Name, huffman, indexed, integer, literal, size_update, string};
use super::{KUBELET, OLD_KUBELET, call};

const KINDS: [Kind; 3] = [Kind::Incremental, Kind::Without, Kind::Never];
const CODINGS: [Coding; 3] = [Coding::Plain, Coding::Huffman, Coding::Padded];

fn names() -> Vec<Name> {
    let text = |coding| Name::Text(coding, ":authority".into());
    vec![
        Name::Index(1),
        text(Coding::Plain),
        text(Coding::Huffman),
        text(Coding::Padded),
    ]
}

#[test]
fn finds_the_value_in_every_form_a_literal_can_take() {
    for kind in KINDS {
        for name in names() {
            for coding in CODINGS {
                for value in [KUBELET, OLD_KUBELET, "%", &"/".repeat(300)] {
                    let mut block = vec![0x83];
                    literal(&mut block, kind, &name, coding, value);
                    let mut text = Vec::new();
                    string(&mut text, coding, value);
                    let expected = block.len() - text.len()..block.len();
                    literal(&mut block, kind, &Name::Index(58), coding, "agent");
                    indexed(&mut block, 62);
                    let case = format!("{kind:?} {name:?} {coding:?} {value}");
                    assert_eq!(unacceptable(&block), Ok(vec![expected]), "{case}");
                }
            }
        }
    }
}

#[test]
fn finds_it_in_the_call_of_a_kubelet() {
    for authority in [KUBELET, OLD_KUBELET] {
        let block = call(authority);
        let found = unacceptable(&block).unwrap();
        let mut value = Vec::new();
        string(&mut value, Coding::Huffman, authority);
        assert_eq!(found.len(), 1);
        assert_eq!(block[found[0].clone()], value);
    }
}

#[test]
fn leaves_alone_what_needs_no_replacement() {
    let mut cases = vec![call("localhost")];
    for value in ["localhost", "10.0.0.1", "a-b.C", "x", ""] {
        for name in names() {
            let mut block = Vec::new();
            literal(&mut block, Kind::Incremental, &name, Coding::Plain, value);
            cases.push(block);
        }
    }
    for other in [
        Name::Index(2),
        Name::Index(38),
        Name::Text(Coding::Plain, "authority".into()),
    ] {
        let mut block = Vec::new();
        literal(
            &mut block,
            Kind::Incremental,
            &other,
            Coding::Huffman,
            KUBELET,
        );
        cases.push(block);
    }
    let mut dynamic = Vec::new();
    literal(
        &mut dynamic,
        Kind::Without,
        &Name::Index(62),
        Coding::Plain,
        KUBELET,
    );
    indexed(&mut dynamic, 1);
    indexed(&mut dynamic, 1_000);
    cases.push(dynamic);
    let mut updates = Vec::new();
    size_update(&mut updates, 0);
    size_update(&mut updates, 4096);
    cases.push(updates);
    cases.push(Vec::new());
    for block in cases {
        assert_eq!(unacceptable(&block), Ok(Vec::new()), "{block:x?}");
    }
}

#[test]
fn the_value_after_a_size_update_and_other_fields_is_found() {
    let mut block = Vec::new();
    size_update(&mut block, 100);
    size_update(&mut block, 4_000);
    indexed(&mut block, 200);
    literal(
        &mut block,
        Kind::Never,
        &Name::Index(300),
        Coding::Plain,
        ":authority",
    );
    let start = block.len() + 1;
    literal(
        &mut block,
        Kind::Never,
        &Name::Index(1),
        Coding::Plain,
        "a/b",
    );
    assert_eq!(unacceptable(&block), Ok(vec![start..block.len()]));
}

#[test]
fn two_authorities_are_both_found_because_refusing_them_is_not_our_business() {
    let mut block = Vec::new();
    literal(
        &mut block,
        Kind::Incremental,
        &Name::Index(1),
        Coding::Plain,
        "/a",
    );
    literal(
        &mut block,
        Kind::Incremental,
        &Name::Index(1),
        Coding::Plain,
        "/b",
    );
    assert_eq!(unacceptable(&block), Ok(vec![1..4, 5..8]));
}

#[test]
fn refuses_what_is_cut_off_or_overflows() {
    let whole = call(KUBELET);
    let ends: Vec<usize> = {
        // Where fields end, a prefix of the block is itself a block.
        let lengths = |block: &[u8]| unacceptable(block).is_ok();
        (0..=whole.len())
            .filter(|end| lengths(&whole[..*end]))
            .collect()
    };
    assert_eq!(ends.len(), 9, "eight fields and the empty block: {ends:?}");

    for overflow in [
        &[0xff, 0xff, 0xff, 0xff, 0xff, 0x01][..],
        &[0xff, 0x80, 0x80, 0x80, 0x80, 0x00],
        &[0x3f, 0xff, 0xff, 0xff, 0xff, 0x0f],
        &[0x41, 0x7f, 0xff, 0xff, 0xff, 0xff, 0x7f, b'/'],
        &[0x41, 0x05, b'/'],
        &[0x41],
        &[0x40, 0x0a],
        &[0x1f],
    ] {
        assert_eq!(unacceptable(overflow), Err(Malformed), "{overflow:x?}");
    }
    // The largest permitted number is accepted.
    let mut large = Vec::new();
    integer(&mut large, 0x80, 7, 127 + (1 << 28) - 1);
    assert_eq!((large.len(), unacceptable(&large)), (5, Ok(Vec::new())));
}

#[test]
fn the_constants_are_what_rfc_7541_says() {
    // Appendix C.4.1 has www.example.com as its example of the string coding.
    let example = [
        0xf1, 0xe3, 0xc2, 0xe5, 0xf2, 0x3a, 0x6b, 0xa0, 0xab, 0x90, 0xf4, 0xff,
    ];
    assert_eq!(huffman("www.example.com"), example);
    let mut block = vec![0x40];
    string(&mut block, Coding::Huffman, ":authority");
    string(&mut block, Coding::Huffman, "localhost");
    assert_eq!(
        unacceptable(&block),
        Ok(Vec::new()),
        "localhost is left alone"
    );
    let value = block.len() - 6..block.len();
    assert_eq!(block[value.start - 1], 0x86);
    block[value.start] ^= 1;
    assert_eq!(
        unacceptable(&block),
        Ok(vec![value.start - 1..value.end]),
        "anything else is not"
    );

    let mut replacement = Vec::new();
    string(&mut replacement, Coding::Plain, "x");
    assert_eq!(replacement, REPLACEMENT);
}

proptest::proptest! {
    #[test]
    fn arbitrary_bytes_give_ascending_ranges_inside_the_block(
        block in proptest::collection::vec(proptest::num::u8::ANY, 0..200),
    ) {
        let mut end = 0;
        for range in unacceptable(&block).unwrap_or_default() {
            assert!(end < range.start && range.start + 2 <= range.end && range.end <= block.len());
            end = range.end;
        }
    }

    #[test]
    fn every_plain_value_left_alone_is_an_authority(value in "[a-zA-Z0-9.-]{1,80}") {
        http::uri::Authority::try_from(value.as_str()).unwrap();
    }
}
