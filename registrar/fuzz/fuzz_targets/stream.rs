//! Arbitrary bytes from a client: nothing panics, no byte is lost, and the cuts of the stream into reads make no
//! difference.
#![no_main]

use bytes::BytesMut;
use libfuzzer_sys::fuzz_target;
use registrar::authority::Rewriter;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

fn rewrite(input: &[u8], mut read: impl FnMut() -> usize) -> Vec<u8> {
    let mut rewriter = Rewriter::default();
    let mut out = BytesMut::new();
    let mut rest = input;
    while !rest.is_empty() {
        let (chunk, later) = rest.split_at(read().clamp(1, rest.len()));
        rewriter.feed(chunk, &mut out);
        rest = later;
    }
    rewriter.finish(&mut out);
    out.to_vec()
}

fuzz_target!(|data: &[u8]| {
    let Some((&seed, data)) = data.split_first() else { return };
    // Half of the inputs begin correctly, or none would get beyond the preface.
    let input = if seed & 1 == 0 { [PREFACE, data].concat() } else { data.to_vec() };
    let whole = rewrite(&input, || usize::MAX);
    assert!(whole.len() <= input.len());
    assert_eq!(rewrite(&input, || 1), whole);
    let mut state = u32::from(seed);
    let uneven = rewrite(&input, || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 27) as usize
    });
    assert_eq!(uneven, whole);
    assert_eq!(rewrite(&whole, || usize::MAX), whole, "there is nothing left to replace");
});
