//! The stream: rows CB-31 to CB-35, CB-39 to CB-45 and CB-59.

use std::time::Duration;

use csi_proto::snapshot_metadata::{GetMetadataAllocatedRequest, GetMetadataDeltaRequest};
use sidecar_testkit::driver::Part;
use tonic::{Code, Request};

use crate::stage::{BLOCK, Stage, begin, blocks, collected, delta, request, took, until};

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test]
async fn cb_31_cb_32_the_driver_s_status_is_passed_on() {
    let stage = Stage::new().await;
    let running = stage.started(&[]).await;
    let boom = "failed to get response from CSI driver: rpc error: code = Unknown desc = boom";
    for (code, text, expected) in [
        (
            Code::FailedPrecondition,
            "no changed blocks",
            (Code::FailedPrecondition, "no changed blocks"),
        ),
        (Code::OutOfRange, "offset", (Code::OutOfRange, "offset")),
        (Code::NotFound, "snap-1", (Code::NotFound, "snap-1")),
        (Code::Unknown, "boom", (Code::Internal, boom)),
    ] {
        stage.streams([
            Part::Blocks(2),
            Part::Blocks(3),
            Part::Fail(code, text.to_owned()),
        ]);
        let (messages, end) = running.allocated(request()).await;
        assert_eq!(messages, [blocks(0, 2), blocks(2, 3)]);
        let status = end.unwrap_err();
        assert_eq!((status.code(), status.message()), expected);
        stage.streams([Part::Fail(code, text.to_owned())]);
        let refused = running.refused(request()).await;
        assert_eq!(refused, (expected.0, expected.1.to_owned()));
    }
}

/// A request with a `grpc-timeout` of so many seconds.
fn within(seconds: u64) -> Request<GetMetadataAllocatedRequest> {
    let mut request = Request::new(request());
    let value = format!("{seconds}S").parse().unwrap();
    request.metadata_mut().insert("grpc-timeout", value);
    request
}

#[tokio::test]
async fn cb_33_a_driver_that_never_answers() {
    let stage = Stage::streaming([Part::Hang]).await;
    let running = stage.started(&["--max-streaming-duration-min=1"]).await;
    let (began, mut client) = (begin(), running.client().await);
    let (_, end) = collected(client.get_metadata_allocated(request()).await).await;
    assert_eq!(end.unwrap_err().code(), Code::DeadlineExceeded);
    took(began, 59 * SECOND, 70 * SECOND);
    until("the end of the driver's call", async || {
        !stage.driver.calls_to("GetMetadataAllocated")[0].is_running()
    })
    .await;
}

#[tokio::test]
async fn cb_34_a_client_that_does_not_read_is_ended_in_time() {
    let stage = Stage::streaming([Part::Endless(20_000)]).await;
    let running = stage.started(&[]).await;
    let mut client = running.client().await;
    let began = begin();
    // The deadline is sent as a header alone, since tonic would enforce its own on the client's side as well.
    let answer = client.get_metadata_allocated(within(10)).await;
    let mut stream = answer.unwrap().into_inner();
    stream.message().await.unwrap().unwrap();
    until("the end of the driver's call", async || {
        stage.driver.calls_to("GetMetadataAllocated")[0].is_cancelled()
    })
    .await;
    took(began, 9 * SECOND, 13 * SECOND);
    running.process.says("DeadlineExceeded").await;
    // The client loses the messages it has not read by then: the stream was reset.
    let mut rest = 0;
    let status = loop {
        match stream.message().await {
            Ok(Some(_)) => rest += 1,
            Ok(None) => panic!("a stream that was cut ended as a whole one"),
            Err(status) => break status,
        }
    };
    assert!(rest < 3, "{rest}: {status:?}");
}

#[tokio::test]
async fn cb_35_an_end_because_time_is_over_is_none() {
    // The driver ends its stream without error just before the deadline, and just after it.
    for wait in [5_960, 6_300] {
        let stage =
            Stage::streaming([Part::Blocks(1), Part::Wait(Duration::from_millis(wait))]).await;
        let running = stage.started(&[]).await;
        let answer = running
            .client()
            .await
            .get_metadata_allocated(within(6))
            .await;
        let (messages, end) = collected(answer).await;
        assert_eq!(messages, [blocks(0, 1)]);
        assert_eq!(end.unwrap_err().code(), Code::DeadlineExceeded, "{wait}");
    }
}

#[tokio::test]
async fn cb_39_a_client_that_goes_away() {
    let stage = Stage::streaming([Part::Blocks(1), Part::Hang]).await;
    let running = stage.started(&[]).await;
    for (number, leaves_whole) in [(0, false), (1, true)] {
        let mut client = running.client().await;
        let answer = client.get_metadata_allocated(request()).await;
        let mut stream = answer.unwrap().into_inner();
        stream.message().await.unwrap().unwrap();
        let began = begin();
        drop(stream);
        if leaves_whole {
            drop(client);
        }
        until("the end of the driver's call", async || {
            stage.driver.calls_to("GetMetadataAllocated")[number].is_cancelled()
        })
        .await;
        took(began, Duration::ZERO, SECOND);
    }
}

#[tokio::test]
async fn cb_40_to_43_numbers_of_the_client() {
    let stage = Stage::new().await;
    let running = stage.started(&[]).await;
    let with = |starting_offset, max_results| GetMetadataAllocatedRequest {
        starting_offset,
        max_results,
        ..request()
    };
    // CB-40
    let (messages, end) = running.allocated(with(0, 10)).await;
    assert!(end.is_ok() && messages.iter().all(|message| message.len() <= 10));
    assert_eq!(
        (messages.concat(), stage.asked().max_results),
        (blocks(0, 768), 10)
    );
    // CB-42
    stage.driver.clear_calls();
    assert_eq!(running.refused(with(-7, 0)).await.0, Code::OutOfRange);
    assert_eq!(running.refused(with(0, -5)).await.0, Code::InvalidArgument);
    assert_eq!(stage.driver.calls_to("GetMetadataAllocated").len(), 0);
    // CB-43
    let (messages, _) = running.allocated(with(2 * BLOCK, 0)).await;
    assert_eq!(
        (messages.concat(), stage.asked().starting_offset),
        (blocks(2, 766), 2 * BLOCK)
    );
    // CB-41
    stage.streams([Part::Blocks(400_000)]);
    let (messages, end) = running.allocated(request()).await;
    assert!(end.is_ok() && messages.len() >= 4, "{end:?}");
    assert!(
        messages
            .iter()
            .all(|message| message.len() <= (1 << 20) / 8)
    );
    assert_eq!(messages.concat(), blocks(0, 400_000));
    // More than the program accepts from a driver in one message.
    stage.streams([Part::Blocks(1), Part::Blocks(1_600_000)]);
    let (messages, end) = running.allocated(request()).await;
    assert_eq!(
        (messages, end.unwrap_err().code()),
        (vec![blocks(0, 1)], Code::ResourceExhausted)
    );
}

#[tokio::test]
async fn cb_44_streams_that_contradict_themselves() {
    let stage = Stage::new().await;
    let running = stage.started(&[]).await;
    let first = || Part::Ranges(vec![(0, 10), (10, 10)]);
    for (second, delivered, words) in [
        (
            vec![Part::Ranges(vec![(20, 5), (5, 5)])],
            vec![vec![(0, 10), (10, 10)], vec![(20, 5)]],
            &["5 bytes at 20", "5 bytes at 5"][..],
        ),
        (
            vec![Part::Ranges(vec![(19, 5)])],
            vec![vec![(0, 10), (10, 10)]],
            &["10 bytes at 10", "5 bytes at 19"],
        ),
        (
            vec![Part::Ranges(vec![(20, 0)])],
            vec![vec![(0, 10), (10, 10)]],
            &["0 bytes at 20"],
        ),
        (
            vec![Part::Shape(2, 1 << 40), Part::Ranges(vec![(20, 1)])],
            vec![vec![(0, 10), (10, 10)]],
            &["type 1"],
        ),
    ] {
        stage.streams(std::iter::once(first()).chain(second));
        let (messages, end) = running.allocated(request()).await;
        let status = end.unwrap_err();
        assert_eq!((messages, status.code()), (delivered, Code::Internal));
        for word in words {
            assert!(status.message().contains(word), "{status:?}");
        }
    }
}

#[tokio::test]
async fn cb_45_a_client_goes_on_where_it_was_cut_off() {
    let stage = Stage::streaming([
        Part::Blocks(256),
        Part::Blocks(256),
        Part::Fail(Code::Unavailable, "cut".to_owned()),
    ])
    .await;
    let running = stage.started(&[]).await;
    let (first, end) = running.allocated(request()).await;
    assert_eq!(end.unwrap_err().code(), Code::Unavailable);
    let mut all = first.concat();
    let (offset, size) = *all.last().unwrap();
    stage.streams([Part::Blocks(256), Part::Blocks(256), Part::Blocks(256)]);
    let again = GetMetadataAllocatedRequest {
        starting_offset: offset + size,
        ..request()
    };
    let (rest, end) = running.allocated(again).await;
    assert!(end.is_ok());
    all.extend(rest.concat());
    assert_eq!(all, blocks(0, 768));
}

/// As the verifier in Kubernetes' end-to-end tests does with two block devices, with ten ranges in a message: it copies
/// the ranges of the source to the target, and compares them.
#[tokio::test]
async fn cb_59_a_device_that_is_copied_by_the_ranges_equals_its_source() {
    // The content of each block; those that are 0 were never written.
    let earlier: Vec<usize> = (0..700).map(|block| block % 3).collect();
    let source = earlier.iter().enumerate();
    let source: Vec<usize> = source
        .map(|(at, is)| if at % 7 == 0 { 9 } else { *is })
        .collect();
    let of_blocks = |is_in: &dyn Fn(usize) -> bool| {
        let blocks = (0_i64..).zip(0..700).filter(|(_, block)| is_in(*block));
        Part::Ranges(blocks.map(|(at, _)| (at * BLOCK, BLOCK)).collect())
    };
    let copy = |target: &mut [usize], ranges: &[(i64, i64)]| {
        assert!(ranges.len() <= 10);
        for (offset, size) in ranges {
            assert_eq!((offset % BLOCK, *size), (0, BLOCK));
            let block = usize::try_from(offset / BLOCK).unwrap();
            target[block] = source[block];
        }
    };
    let stage = Stage::streaming([of_blocks(&|block| source[block] != 0)]).await;
    let running = stage.started(&[]).await;
    let mut target = vec![0; 700];
    let (messages, end) = running
        .allocated(GetMetadataAllocatedRequest {
            max_results: 10,
            ..request()
        })
        .await;
    assert!(end.is_ok(), "{end:?}");
    messages.iter().for_each(|ranges| copy(&mut target, ranges));
    assert_eq!(target, source, "allocated");

    stage.streams([of_blocks(&|block| source[block] != earlier[block])]);
    let mut target = earlier.clone();
    let asked = GetMetadataDeltaRequest {
        max_results: 10,
        ..delta()
    };
    let answer = running.client().await.get_metadata_delta(asked).await;
    let mut stream = answer.unwrap().into_inner();
    while let Some(message) = stream.message().await.unwrap() {
        let ranges = message.block_metadata.iter();
        let ranges: Vec<_> = ranges.map(|it| (it.byte_offset, it.size_bytes)).collect();
        copy(&mut target, &ranges);
    }
    assert_eq!(target, source, "delta");
}

#[tokio::test]
async fn messages_without_ranges_are_passed_on() {
    let stage = Stage::streaming([Part::Ranges(vec![]), Part::Blocks(1), Part::Blocks(0)]).await;
    let running = stage.started(&[]).await;
    let (messages, end) = running.allocated(request()).await;
    assert!(end.is_ok());
    assert_eq!(messages, [vec![], blocks(0, 1), vec![]]);
    stage.streams([]);
    let (messages, end) = running.allocated(request()).await;
    assert!(messages.is_empty() && end.is_ok());
}
