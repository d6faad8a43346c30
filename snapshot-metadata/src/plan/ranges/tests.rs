use csi_proto::csi::{BlockMetadata, GetMetadataAllocatedResponse as Answer};
use prost::Message as _;

use super::*;

const CAPACITY: i64 = 1 << 30;

fn answer(ranges: &[(i64, i64)]) -> Answer {
    let ranges = ranges
        .iter()
        .map(|&(byte_offset, size_bytes)| BlockMetadata {
            byte_offset,
            size_bytes,
        });
    Answer {
        block_metadata_type: 1,
        volume_capacity_bytes: CAPACITY,
        block_metadata: ranges.collect(),
    }
}

fn encoded(ranges: &[(i64, i64)]) -> Bytes {
    answer(ranges).encode_to_vec().into()
}

/// The ranges of one message: offset and size.
type Ranges = Vec<(i64, i64)>;

/// Passes the driver's messages through a stream: the ranges of each message to the client, and how
/// the stream ends.
fn passed(from: i64, most: i32, messages: &[Bytes]) -> (Vec<Ranges>, Result<(), Fault>) {
    let mut stream = Stream::new(from, most);
    let mut got = Vec::new();
    for message in messages {
        let mut message = match stream.begin(message.clone()) {
            Ok(message) => message,
            Err(fault) => return (got, Err(fault)),
        };
        loop {
            match stream.cut(&mut message) {
                Ok(None) => break,
                Ok(Some(piece)) => {
                    let whole = [&piece.head[..], &piece.ranges[..]].concat();
                    assert!(whole.len() <= LONGEST && whole.len() == piece.len());
                    let answer = Answer::decode(&whole[..]).unwrap();
                    assert_eq!(answer.block_metadata.len() as u64, piece.count);
                    assert_eq!(answer.volume_capacity_bytes, CAPACITY);
                    let ranges = answer.block_metadata.iter();
                    got.push(ranges.map(|it| (it.byte_offset, it.size_bytes)).collect());
                }
                Err(fault) => return (got, Err(fault)),
            }
        }
    }
    (got, Ok(()))
}

fn blocks(count: i64) -> Vec<(i64, i64)> {
    (0..count).map(|n| (n * 4096, 4096)).collect()
}

#[test]
fn cb_40_more_ranges_than_asked_for_are_split() {
    let message = encoded(&blocks(256));
    let messages = [message.clone(), encoded(&[(256 * 4096, 1)])];
    let (got, end) = passed(0, 10, &messages);
    assert_eq!((got.len(), end), (27, Ok(())));
    assert!(got.iter().all(|message| message.len() <= 10));
    let (got, _) = passed(0, 0, &[message]);
    assert_eq!(got, [blocks(256)]);
}

#[test]
fn cb_41_a_large_message_is_split() {
    let all = blocks(400_000);
    let message = encoded(&all);
    assert!(message.len() > 4 << 20);
    let (got, end) = passed(0, 0, &[message]);
    assert_eq!(end, Ok(()));
    assert!(got.len() >= 5, "{}", got.len());
    assert_eq!(got.concat(), all);
}

#[test]
fn cb_43_what_ends_before_the_offset_is_left_out() {
    for (from, first) in [
        (0, 0),
        (1, 0),
        (4096, 4096),
        (8191, 4096),
        (8192, 8192),
        (9000, 8192),
    ] {
        let (got, end) = passed(from, 2, &[encoded(&blocks(5))]);
        assert_eq!((got[0][0].0, end), (first, Ok(())), "{from}");
        assert!(got.iter().all(|message| message.len() <= 2));
    }
    // A message that loses all its ranges is dropped; one that had none from the start is passed
    // on.
    assert_eq!(passed(1 << 20, 0, &[encoded(&blocks(5))]), (vec![], Ok(())));
    assert_eq!(passed(1 << 20, 0, &[encoded(&[])]), (vec![vec![]], Ok(())));
}

#[test]
fn cb_44_what_contradicts_itself_ends_the_stream() {
    let range = |offset, size| Range { offset, size };
    let shape = |kind, capacity| Shape { kind, capacity };
    let mut other_type = answer(&[(4096, 1)]);
    other_type.block_metadata_type = 2;
    let mut other_size = answer(&[(4096, 1)]);
    other_size.volume_capacity_bytes = 7;
    let other = |answer: &Answer| Bytes::from(answer.encode_to_vec());
    let first = encoded(&[(0, 4096)]);
    for (second, delivered, fault) in [
        (
            encoded(&[(4096, 10), (4100, 1)]),
            vec![vec![(0, 4096)], vec![(4096, 10)]],
            Fault::Disordered(range(4096, 10), range(4100, 1)),
        ),
        (
            encoded(&[(0, 4096)]),
            vec![vec![(0, 4096)]],
            Fault::Disordered(range(0, 4096), range(0, 4096)),
        ),
        (
            encoded(&[(5000, 0)]),
            vec![vec![(0, 4096)]],
            Fault::Impossible(range(5000, 0)),
        ),
        (
            encoded(&[(-5, 1)]),
            vec![vec![(0, 4096)]],
            Fault::Impossible(range(-5, 1)),
        ),
        (
            encoded(&[(i64::MAX, 1)]),
            vec![vec![(0, 4096)]],
            Fault::Impossible(range(i64::MAX, 1)),
        ),
        (
            other(&other_type),
            vec![vec![(0, 4096)]],
            Fault::Changed(shape(1, CAPACITY), shape(2, CAPACITY)),
        ),
        (
            other(&other_size),
            vec![vec![(0, 4096)]],
            Fault::Changed(shape(1, CAPACITY), shape(1, 7)),
        ),
        (
            Bytes::from_static(b"\x1a\xff\x01"),
            vec![vec![(0, 4096)]],
            Fault::Malformed,
        ),
    ] {
        let (got, end) = passed(0, 0, &[first.clone(), second]);
        assert_eq!((got, end), (delivered, Err(fault)));
        // The text names both ranges.
        if let Fault::Disordered(a, b) = fault {
            let text = fault.to_string();
            assert!(
                text.contains(&a.to_string()) && text.contains(&b.to_string()),
                "{text}"
            );
        }
    }
    // Ranges out of order fail the stream even before the client's offset.
    let (got, end) = passed(1 << 20, 0, &[encoded(&[(4096, 1), (0, 1)])]);
    assert_eq!(got, Vec::<Vec<_>>::new());
    assert!(matches!(end, Err(Fault::Disordered(_, _))));
}

#[test]
fn fields_in_any_order_and_of_any_version() {
    // Ranges first, an unknown field between them, type and capacity at the end.
    let range = |offset| [&[0x1a, 4, 0x08, offset, 0x10, 1][..]].concat();
    let unknown = [
        &[0x22, 1, 9][..],
        &[0x28, 0x80, 1],
        &[0x31, 0, 0, 0, 0, 0, 0, 0, 0],
        &[0x3d, 0, 0, 0, 0],
    ];
    let mut tail = BytesMut::new();
    tail.put_slice(&head(Shape {
        kind: 1,
        capacity: CAPACITY,
    }));
    let message = [range(1), unknown.concat(), range(5), tail.to_vec()].concat();
    let (got, end) = passed(0, 0, &[message.into()]);
    assert_eq!((got, end), (vec![vec![(1, 1)], vec![(5, 1)]], Ok(())));
}

#[test]
fn bytes_of_any_kind_are_answered() {
    let whole = encoded(&blocks(3));
    for length in 0..whole.len() {
        let bent = [0, 0x7f, 0x80, 0xff].map(|byte| {
            let mut bent = whole.to_vec();
            bent[length] = byte;
            Bytes::from(bent)
        });
        for bytes in std::iter::once(whole.slice(..length)).chain(bent) {
            let mut stream = Stream::new(0, 1);
            if let Ok(mut message) = stream.begin(bytes) {
                while let Ok(Some(_)) = stream.cut(&mut message) {}
            }
        }
    }
}

#[test]
fn a_message_is_not_copied() {
    let message = encoded(&blocks(1000));
    let mut stream = Stream::new(0, 0);
    let mut begun = stream.begin(message.clone()).unwrap();
    let piece = stream.cut(&mut begun).unwrap().unwrap();
    let (within, at) = (message.as_ptr_range(), piece.ranges.as_ptr());
    assert!(within.contains(&at));
}
