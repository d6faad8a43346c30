use super::*;

const S: Duration = Duration::from_secs(1);

fn refused(code: u16) -> End {
    End::Refused(Refusal {
        code,
        ..Refusal::default()
    })
}

fn watching() -> Progress {
    let mut progress = Progress::new(true);
    assert_eq!(progress.next(), Ask::Stream);
    assert!(progress.initial_events_end("100"));
    assert_eq!(progress.next(), Ask::Watch("100".to_owned()));
    progress
}

fn watch(version: &str) -> Ask {
    Ask::Watch(version.to_owned())
}

#[test]
fn streams_first_then_watches_from_the_last_version_seen() {
    let mut progress = Progress::new(true);
    assert_eq!(progress.next(), Ask::Stream);
    assert!(progress.is_streaming());
    progress.event("7");
    assert!(progress.is_streaming(), "an object is not the end");
    assert!(progress.initial_events_end("100"));
    assert!(!progress.initial_events_end("100"), "only once");
    progress.event("101");
    progress.event("");
    assert_eq!(progress.end(&End::Closed, 300 * S, 0.0), Duration::ZERO);
    assert_eq!(progress.next(), watch("101"));
}

// Row 89
#[test]
fn a_server_without_streaming_lists_is_listed_in_pages() {
    for code in [400, 406, 415, 422] {
        let mut progress = Progress::new(true);
        progress.next();
        assert_eq!(
            progress.end(&refused(code), Duration::ZERO, 0.0),
            Duration::ZERO,
            "{code}"
        );
        assert_eq!(progress.next(), Ask::Page(None));
        assert_eq!(progress.page("50".to_owned(), Some("t1".to_owned())), None);
        assert_eq!(progress.next(), Ask::Page(Some("t1".to_owned())));
        assert_eq!(
            progress.page("60".to_owned(), None),
            Some("50"),
            "as of the first page"
        );
        assert_eq!(progress.next(), watch("50"));
    }
}

#[test]
fn fs_3_streaming_is_tried_again_in_later_lists_that_become_rarer() {
    let mut progress = Progress::new(true);
    let mut streamed = Vec::new();
    for list in 0..200 {
        if progress.next() == Ask::Stream {
            streamed.push(list);
            progress.end(&refused(422), Duration::ZERO, 0.0);
            assert_eq!(progress.next(), Ask::Page(None), "this list is paged");
        }
        // A list that starts again counts as the same list.
        progress.page("50".to_owned(), Some("t".to_owned()));
        progress.end(&refused(410), Duration::ZERO, 0.0);
        assert_eq!(progress.next(), Ask::Page(None));
        progress.page("50".to_owned(), None);
        progress.end(&refused(410), 100 * S, 0.0);
    }
    assert_eq!(streamed, [0, 1, 3, 7, 15, 31, 63, 127, 191]);
    let mut progress = Progress::new(true);
    for _ in 0..2 {
        progress.next();
        progress.end(&refused(422), Duration::ZERO, 0.0);
        progress.page("50".to_owned(), None);
        progress.end(&refused(410), 100 * S, 0.0);
        assert_eq!(progress.next(), Ask::Stream, "after one success once more");
        progress.initial_events_end("60");
        progress.end(&refused(410), 100 * S, 0.0);
    }
}

#[test]
fn fs_12_streaming_that_is_not_wanted_is_never_asked_for() {
    let mut progress = Progress::new(false);
    for _ in 0..3 {
        assert_eq!(progress.next(), Ask::Page(None));
        progress.page("50".to_owned(), None);
        progress.end(&refused(410), 100 * S, 0.0);
    }
}

#[test]
fn fs_3_a_server_that_refuses_the_versions_of_its_own_lists_is_not_hammered() {
    let mut progress = Progress::new(true);
    let mut pauses = Vec::new();
    for list in 0..8 {
        progress.next();
        if list % 2 == 0 {
            progress.initial_events_end("100");
        } else {
            progress.end(&refused(422), Duration::ZERO, 0.0);
            progress.page("100".to_owned(), Some("t".to_owned()));
            progress.page("100".to_owned(), None);
        }
        progress.event("101");
        pauses.push(progress.end(&refused(410), S, 0.0).as_millis());
    }
    assert_eq!(
        pauses,
        [800, 1600, 3200, 6400, 12_800, 25_600, 30_000, 30_000]
    );
    progress.next();
    progress.page("100".to_owned(), None);
    assert_eq!(
        progress.end(&refused(410), 60 * S, 0.0).as_millis(),
        800,
        "the watch held for a minute"
    );
}

#[test]
fn a_streaming_list_that_ends_or_falls_silent_before_its_end_is_read_in_pages() {
    let mut closed = Progress::new(true);
    closed.next();
    closed.end(&End::Closed, 300 * S, 0.0);
    let mut silent = Progress::new(true);
    silent.next();
    silent.stream_has_no_end();
    silent.end(&End::Closed, 30 * S, 0.0);
    for mut progress in [closed, silent] {
        assert_eq!(progress.next(), Ask::Page(None));
    }
}

#[test]
fn a_streaming_list_that_breaks_or_meets_a_busy_server_is_tried_again() {
    for end in [
        End::Broken,
        refused(429),
        refused(500),
        refused(503),
        refused(401),
    ] {
        let mut progress = Progress::new(true);
        progress.next();
        assert!(progress.end(&end, Duration::ZERO, 0.0) > Duration::ZERO);
        assert_eq!(progress.next(), Ask::Stream, "{end:?}");
    }
}

#[test]
fn an_expired_version_or_token_means_a_new_list() {
    let expired = Refusal {
        code: 0,
        reason: "Expired".to_owned(),
        ..Refusal::default()
    };
    let too_large = Refusal {
        code: 504,
        version_too_large: true,
        ..Refusal::default()
    };
    for end in [
        refused(410),
        refused(400),
        End::Refused(expired),
        End::Refused(too_large),
    ] {
        let mut progress = watching();
        progress.end(&end, 100 * S, 0.0);
        assert_eq!(progress.next(), Ask::Stream, "{end:?}");
    }
    let mut paging = Progress::new(true);
    paging.next();
    paging.end(&refused(422), Duration::ZERO, 0.0);
    paging.next();
    paging.page("50".to_owned(), Some("t1".to_owned()));
    paging.next();
    paging.end(&refused(410), Duration::ZERO, 0.0);
    assert_eq!(paging.next(), Ask::Page(None));
}

#[test]
fn a_version_that_expired_in_an_outage_is_listed_anew_without_the_pauses_of_the_outage() {
    let mut progress = watching();
    for _ in 0..8 {
        progress.end(&End::Broken, Duration::ZERO, 0.0);
    }
    assert!(progress.end(&End::Broken, Duration::ZERO, 0.0) > 10 * S);
    assert!(progress.end(&refused(410), Duration::ZERO, 1.0) < 2 * S);
    assert_eq!(progress.next(), Ask::Stream);
    progress.end(&End::Broken, Duration::ZERO, 0.0);
    assert!(
        progress.end(&End::Broken, Duration::ZERO, 0.0) > S,
        "a list that fails is another matter"
    );
}

#[test]
fn other_refusals_and_broken_connections_keep_the_place() {
    for end in [
        End::Broken,
        refused(429),
        refused(500),
        refused(503),
        refused(403),
        refused(504),
    ] {
        let mut progress = watching();
        progress.event("150");
        assert!(progress.end(&end, Duration::ZERO, 0.0) > Duration::ZERO);
        assert_eq!(progress.next(), watch("150"), "{end:?}");
    }
}

#[test]
fn pauses_grow_to_half_a_minute_and_start_anew_after_success() {
    let mut progress = watching();
    let mut pauses = Vec::new();
    for _ in 0..9 {
        pauses.push(progress.end(&End::Broken, Duration::ZERO, 0.0).as_millis());
    }
    assert_eq!(
        pauses,
        [
            800, 1600, 3200, 6400, 12_800, 25_600, 30_000, 30_000, 30_000
        ]
    );
    progress.event("101");
    assert_eq!(
        progress.end(&End::Broken, Duration::ZERO, 0.0).as_millis(),
        800
    );
    progress.end(&End::Broken, Duration::ZERO, 0.0);
    assert_eq!(
        progress.end(&End::Broken, 60 * S, 0.0).as_millis(),
        800,
        "it held for a minute"
    );
}

#[test]
fn a_server_that_closes_each_watch_at_once_is_not_hammered() {
    let mut progress = watching();
    let pauses: Duration = (0..10)
        .map(|_| progress.end(&End::Closed, S / 10, 0.0))
        .sum();
    assert!(pauses > 100 * S, "{pauses:?}");
}

#[test]
fn retry_after_is_obeyed() {
    let mut progress = watching();
    let refusal = Refusal {
        code: 429,
        retry_after: Some(17 * S),
        ..Refusal::default()
    };
    assert_eq!(
        progress.end(&End::Refused(refusal.clone()), Duration::ZERO, 0.0),
        17 * S
    );
    let at_once = Refusal {
        retry_after: Some(Duration::ZERO),
        ..refusal
    };
    assert!(progress.end(&End::Refused(at_once), Duration::ZERO, 0.0) > Duration::ZERO);
}

#[test]
fn fs_8_a_server_that_asks_for_an_hour_is_asked_again_after_five_minutes() {
    let mut progress = watching();
    let refusal = Refusal {
        code: 429,
        retry_after: Some(3600 * S),
        ..Refusal::default()
    };
    let pause = progress.end(&End::Refused(refusal), Duration::ZERO, 0.0);
    assert_eq!(pause, 300 * S);
}

#[test]
fn e_5_pages_grow_while_their_tokens_expire_and_become_small_again() {
    let mut progress = Progress::new(false);
    let mut limits = Vec::new();
    for _ in 0..3 {
        progress.next();
        limits.push(progress.limit());
        progress.page("50".to_owned(), Some("t".to_owned()));
        assert!(progress.end(&refused(410), Duration::ZERO, 0.0) > Duration::ZERO);
    }
    for _ in 0..3 {
        progress.next();
        limits.push(progress.limit());
        progress.page("50".to_owned(), None);
        progress.end(&refused(410), 100 * S, 0.0);
    }
    let (small, large) = (Some(100), Some(2000));
    assert_eq!(limits, [small, large, None, None, large, small]);
}

#[test]
fn e_6_a_watch_that_ends_in_good_order_is_no_failure_unless_it_was_short_and_brought_nothing() {
    let mut progress = watching();
    assert_eq!(progress.end(&End::Closed, 5 * S, 0.0), Duration::ZERO);
    assert_eq!(progress.end(&End::Closed, 5 * S, 0.0), Duration::ZERO);
    assert_eq!(progress.ends_early(), None);
    for _ in 0..2 {
        progress.object("101");
        assert_eq!(progress.end(&End::Closed, S / 10, 0.0), S * 9 / 10);
    }
    assert_eq!(progress.ends_early(), Some(4));
    assert!(progress.end(&End::Closed, S / 10, 0.0) >= S * 8 / 10);
    assert!(progress.end(&End::Closed, S / 10, 0.0) > S);
    progress.end(&End::Closed, 300 * S, 0.0);
    assert_eq!(progress.ends_early(), None);
}

#[test]
fn e_11_whichever_of_list_and_watch_is_granted_is_used() {
    let mut progress = Progress::new(true);
    for _ in 0..3 {
        assert_eq!(progress.next(), Ask::Stream);
        assert!(progress.end(&refused(403), Duration::ZERO, 0.0) > Duration::ZERO);
        assert_eq!(progress.next(), Ask::Page(None));
        assert!(progress.end(&refused(403), Duration::ZERO, 0.0) > Duration::ZERO);
    }
    progress.next();
    progress.end(&refused(403), Duration::ZERO, 0.0);
    progress.page("50".to_owned(), None);
    assert_eq!(progress.next(), watch("50"));
    assert_eq!(progress.end(&refused(403), Duration::ZERO, 0.0), 30 * S);
    assert_eq!(progress.next(), Ask::Page(None), "it is not granted");
}
