//! Frames: the start and end of a header block, however the reads cut it.

use bytes::BytesMut;

use super::super::Rewriter;
use super::wire::{Coding, Kind, Layout, Name, PREFACE, frame, literal};
use super::{KUBELET, call};

fn rewrite(input: &[u8], read: usize) -> Vec<u8> {
    let mut rewriter = Rewriter::default();
    let mut out = BytesMut::new();
    for chunk in input.chunks(read) {
        rewriter.feed(chunk, &mut out);
    }
    rewriter.finish(&mut out);
    out.to_vec()
}

/// The connection up to its first call: preface, SETTINGS, WINDOW_UPDATE, and then `frames`.
fn connection(frames: &[u8]) -> Vec<u8> {
    let mut bytes = PREFACE.to_vec();
    bytes.extend(frame(4, 0, 0, &[]));
    bytes.extend(frame(8, 0, 0, &[0, 0, 0x10, 0]));
    bytes.extend_from_slice(frames);
    bytes
}

fn authority(value: &str) -> Vec<u8> {
    let mut block = vec![0x83, 0x86];
    literal(
        &mut block,
        Kind::Incremental,
        &Name::Index(1),
        Coding::Plain,
        value,
    );
    literal(
        &mut block,
        Kind::Without,
        &Name::Index(58),
        Coding::Plain,
        "agent",
    );
    block
}

fn layouts() -> Vec<Layout> {
    let mut layouts = Vec::new();
    for padding in [None, Some(0), Some(1), Some(255)] {
        for priority in [false, true] {
            for fragments in [
                vec![],
                vec![0],
                vec![1, 1, 1],
                vec![0, 5, 0, 7],
                vec![20],
                vec![500],
            ] {
                layouts.push(Layout {
                    padding,
                    priority,
                    fragments,
                });
            }
        }
    }
    layouts
}

#[test]
fn replaces_the_value_in_every_layout_and_for_every_size_of_read() {
    for layout in layouts() {
        let after = frame(0, 1, 1, b"data") /* DATA */;
        let input = [
            connection(&layout.frames(1, &authority(KUBELET))),
            after.clone(),
        ]
        .concat();
        let whole = rewrite(&input, usize::MAX);
        assert!(whole.ends_with(&after), "{layout:?}");
        assert!(
            !String::from_utf8_lossy(&whole).contains("%2F"),
            "{layout:?}"
        );
        for read in [1, 2, 3, 7, 9, 10, 64] {
            assert_eq!(rewrite(&input, read), whole, "{layout:?} read {read}");
        }
        assert_eq!(
            rewrite(&whole, 1),
            whole,
            "{layout:?}: nothing is left to do"
        );
        let again = layout.frames(1, &authority("x"));
        if layout.fragments.is_empty() {
            assert_eq!(whole, [connection(&again), after].concat(), "{layout:?}");
        }
    }
}

#[test]
fn a_shorter_block_keeps_its_frames_and_their_flags() {
    let fragments = vec![3, 20, 10, 30];
    let layout = Layout {
        padding: Some(4),
        priority: true,
        fragments,
    };
    let new = authority("x");
    // Fragments fill up from the front: 3, the remaining ten, and twice nothing.
    assert_eq!(new.len(), 13);
    let expected = Layout {
        fragments: vec![3, 10, 0, 0],
        ..layout.clone()
    };
    assert_eq!(
        rewrite(&connection(&layout.frames(1, &authority(KUBELET))), 5),
        connection(&expected.frames(1, &new)),
    );
}

#[test]
fn a_valid_authority_and_other_frames_pass_byte_for_byte() {
    for layout in layouts() {
        let mut frames = layout.frames(1, &authority("localhost"));
        frames.extend(layout.frames(3, &call("localhost")));
        frames.extend(frame(0, 9, 1, &[7; 20_000]));
        frames.extend(frame(0xfa, 0xff, 77, b"unknown type"));
        frames.extend(frame(3, 0, 1, &[0, 0, 0, 8]));
        frames.extend(frame(6, 0, 0, b"pingpong"));
        let input = connection(&frames);
        for read in [1, 1_000, usize::MAX] {
            assert_eq!(rewrite(&input, read), input, "{layout:?}");
        }
    }
}

#[test]
fn several_streams_each_get_theirs() {
    let frames = |value| {
        let mut frames = Vec::new();
        for stream in [1, 3, 5, 7] {
            frames.extend(Layout::plain().frames(stream, &authority(value)));
            frames.extend(frame(0, 1, stream, &[0; 5]));
        }
        connection(&frames)
    };
    assert_eq!(rewrite(&frames(KUBELET), 1), frames("x"));
}

#[test]
fn the_reserved_bit_of_a_stream_is_ignored_as_the_protocol_asks() {
    let block = authority(KUBELET);
    let frames = |first| [frame(1, 1, 3, first), frame(9, 4, 3 | 1 << 31, &block[1..])].concat();
    let out = rewrite(&connection(&frames(&block[..1])), 1);
    assert!(!String::from_utf8_lossy(&out).contains("%2F"));
}

/// Broken frames, and everything after them, arrive unchanged.
#[test]
fn what_is_not_understood_passes_unchanged_for_good() {
    let block = authority(KUBELET);
    let good = Layout::plain().frames(9, &block);
    let mut half_value = authority(KUBELET);
    half_value.truncate(10);
    let cases: Vec<(&str, Vec<u8>)> = vec![
        ("HTTP/1", b"GET / HTTP/1.1\r\nhost: x\r\n\r\n".to_vec()),
        (
            "preface broken late",
            [&PREFACE[..23], b"x", &good].concat(),
        ),
        (
            "padding longer than the frame",
            connection(&frame(1, 0xc, 1, &[200, 1, 2])),
        ),
        (
            "padding without its length",
            connection(&frame(1, 0xc, 1, &[])),
        ),
        (
            "priority cut off",
            connection(&frame(1, 0x24, 1, &[0, 0, 0])),
        ),
        (
            "header field cut off",
            connection(&frame(1, 4, 1, &half_value)),
        ),
        (
            "frame between HEADERS and CONTINUATION",
            connection(
                &[
                    frame(1, 0, 1, &block[..4]),
                    frame(6, 0, 0, &[0; 8]),
                    frame(9, 4, 1, &block[4..]),
                ]
                .concat(),
            ),
        ),
        (
            "CONTINUATION of another stream",
            connection(&[frame(1, 0, 1, &block[..4]), frame(9, 4, 3, &block[4..])].concat()),
        ),
        (
            "HEADERS too long to hold",
            connection(&frame(1, 4, 1, &block.repeat(2_000))),
        ),
        (
            "CONTINUATION without end",
            connection(
                &[
                    frame(1, 0, 1, &block),
                    frame(9, 0, 1, &[0x82; 10_000]).repeat(7),
                ]
                .concat(),
            ),
        ),
    ];
    for (case, input) in cases {
        let input = [input, good.clone()].concat();
        for read in [1, 77, usize::MAX] {
            assert!(rewrite(&input, read) == input, "{case}, read {read}");
        }
    }
}

#[test]
fn a_lone_continuation_is_nothing_special() {
    let lone = frame(9, 4, 1, &authority(KUBELET));
    let input = connection(&[lone.clone(), Layout::plain().frames(3, &authority("/"))].concat());
    let expected = connection(&[lone, Layout::plain().frames(3, &authority("x"))].concat());
    assert_eq!(rewrite(&input, 4), expected);
}

#[test]
fn a_connection_cut_anywhere_still_delivers_every_byte() {
    let input = connection(&Layout::plain().frames(1, &authority("localhost")));
    for end in 0..input.len() {
        assert_eq!(rewrite(&input[..end], 3), &input[..end]);
    }
}

#[test]
fn holds_back_nothing_but_an_unfinished_head_or_block() {
    let mut rewriter = Rewriter::default();
    let mut out = BytesMut::new();
    let data = frame(0, 0, 1, &[5; 100]);
    let input = connection(&data[..50]);
    rewriter.feed(&input, &mut out);
    assert_eq!(out, &input[..]);
    rewriter.feed(&data[50..], &mut out);
    rewriter.feed(&[0; 8], &mut out);
    assert_eq!(out, connection(&data)[..]);
}

proptest::proptest! {
    /// The invariants of the fuzz target, on streams that at least begin correctly.
    #[test]
    fn any_stream_of_frames_survives(
        frames in proptest::collection::vec(
            (0_u8..11, proptest::num::u8::ANY, 0_u32..4,
             proptest::collection::vec(proptest::num::u8::ANY, 0..60)),
            0..8,
        ),
        read in 1_usize..40,
    ) {
        let bytes: Vec<u8> =
            frames.iter().flat_map(|(kind, flags, stream, payload)| {
                frame(*kind, *flags, *stream, payload)
            }).collect();
        let input = connection(&bytes);
        let whole = rewrite(&input, usize::MAX);
        assert_eq!(rewrite(&input, read), whole);
        assert!(whole.len() <= input.len());
        assert_eq!(rewrite(&whole, read), whole);
    }
}
