use super::*;

const S: Duration = Duration::from_secs(1);

fn time(seconds: i64) -> Timestamp {
    Timestamp::from_second(seconds).unwrap()
}

fn fail(attempts: &mut AttemptLog<u32>, key: u32, text: &str, (start, seconds): (Instant, u32)) {
    let begun = start + S * seconds;
    attempts.begins(&key, begun);
    attempts.asks(&key, "GET PersistentVolume v".to_owned(), begun);
    attempts.answered(&key, None, begun + S);
    attempts.asks(&key, "ControllerPublishVolume".to_owned(), begun + S);
    attempts.answered(
        &key,
        Some(("DeadlineExceeded", "late".to_owned())),
        begun + 3 * S,
    );
    let ended = (begun + 3 * S, time(i64::from(seconds) + 3));
    attempts.ends(&key, Outcome::Failed(text.to_owned()), ended);
}

#[test]
fn w_4_the_step_under_way_has_its_start() {
    let (mut attempts, start) = (AttemptLog::default(), Instant::now());
    attempts.begins(&1, start);
    attempts.asks(&1, "CreateVolume".to_owned(), start + S);
    let running = attempts.running(&1).unwrap();
    let current = running.current.as_ref().unwrap();
    assert_eq!((&*current.name, current.since), ("CreateVolume", start + S));
    attempts.answered(&1, None, start + 4 * S);
    let running = attempts.running(&1).unwrap();
    let step = Step {
        name: "CreateVolume".into(),
        took: 3 * S,
        code: "OK",
    };
    assert_eq!((&*running.steps, &running.current), (&[step][..], &None));
    attempts.ends(&1, Outcome::Done, (start + 4 * S, time(4)));
    assert_eq!((attempts.running(&1), attempts.last(&1)), (None, None));
}

#[test]
fn w_5_a_failure_has_its_step_code_and_text_until_a_success() {
    let (mut attempts, start) = (AttemptLog::default(), Instant::now());
    fail(&mut attempts, 1, "rpc error: late", (start, 10));
    fail(&mut attempts, 1, "rpc error: later", (start, 20));
    let last = attempts.last(&1).unwrap();
    assert_eq!(last.step.as_deref(), Some("ControllerPublishVolume"));
    assert_eq!(last.code, Some("DeadlineExceeded"));
    assert_eq!(&*last.text, "rpc error: later");
    assert_eq!((last.first, last.ended), (time(13), time(23)));
    assert_eq!((last.took, last.steps.len()), (3 * S, 2));
    assert_eq!(attempts.codes(), BTreeMap::from([("DeadlineExceeded", 1)]));
    // Asked for after a time: neither a success nor a failure.
    attempts.begins(&1, start);
    attempts.ends(&1, Outcome::Later, (start, time(30)));
    assert!(attempts.last(&1).is_some());
    attempts.begins(&1, start);
    attempts.ends(&1, Outcome::Done, (start, time(31)));
    assert_eq!(attempts.last(&1), None);
}

#[test]
fn a_refusal_without_a_failed_step_has_its_own_text_alone() {
    let (mut attempts, start) = (AttemptLog::default(), Instant::now());
    attempts.begins(&1, start);
    let refused = Outcome::Failed("storageclass \"gold\" not found".to_owned());
    attempts.ends(&1, refused, (start, time(1)));
    let last = attempts.last(&1).unwrap();
    assert_eq!((last.step.as_deref(), last.code), (None, None));
    assert_eq!(&*last.text, "storageclass \"gold\" not found");
    assert_eq!(attempts.codes(), BTreeMap::from([("none", 1)]));
}

/// An attempt with as many steps and as long a text as can be.
fn fail_at_length(attempts: &mut AttemptLog<u32>, key: u32, now: Instant) {
    attempts.begins(&key, now);
    for _ in 0..STEPS {
        attempts.asks(&key, "n".repeat(NAME + 1), now);
        attempts.answered(&key, Some(("Internal", String::new())), now);
    }
    let text = "\u{1b}".repeat(4_000);
    attempts.ends(&key, Outcome::Failed(text), (now, time(1)));
}

#[test]
fn w_15_of_ten_thousand_failing_keys_a_thousand_are_kept() {
    let (mut attempts, start) = (AttemptLog::default(), Instant::now());
    for key in 0..10_000 {
        fail(&mut attempts, key, "the driver is busy", (start, 0));
    }
    let kept = (attempts.failures.len(), attempts.order.len());
    assert_eq!(kept, (MOST, MOST));
    assert!(attempts.running.is_empty());
    assert_eq!(attempts.last(&8_999), None);
    // At worst fewer, in 1.5 MB with the maps.
    for key in 0..2_000 {
        fail_at_length(&mut attempts, key, start);
    }
    let bytes: usize = { attempts.failures.values() }
        .map(|(_, last)| last.bytes())
        .sum();
    assert_eq!(attempts.bytes, bytes);
    let maps = attempts.failures.len() * 100;
    assert!((1_200_000..=1_500_000).contains(&(bytes + maps)), "{bytes}");
    for key in 0..10_000 {
        attempts.begins(&key, start);
        attempts.ends(&key, Outcome::Done, (start, time(2)));
    }
    assert_eq!((attempts.bytes, attempts.failures.len()), (0, 0));
}

#[test]
fn the_steps_of_a_long_attempt_are_its_last_ones() {
    let (mut attempts, start) = (AttemptLog::default(), Instant::now());
    attempts.begins(&1, start);
    for page in 0..20 {
        attempts.asks(&1, format!("ListVolumes {page}"), start);
        attempts.answered(&1, None, start);
    }
    attempts.asks(&1, "ü".repeat(200), start);
    let running = attempts.running(&1).unwrap();
    assert_eq!(running.steps.len(), STEPS);
    assert_eq!(&*running.steps[0].name, "ListVolumes 12");
    let current = &running.current.as_ref().unwrap().name;
    assert!(current.len() <= NAME + "…".len(), "{current}");
}

#[test]
fn w_17_w_18_texts_are_kept_short_and_without_secrets() {
    let (mut attempts, start) = (AttemptLog::default(), Instant::now());
    let long = format!("password=hunter2 \u{1b}[2J {}", "ab ".repeat(400_000));
    fail(&mut attempts, 1, &long, (start, 0));
    let text = &attempts.last(&1).unwrap().text;
    assert!(text.len() <= 1_100 && text.starts_with("password=*** \\x1b[2J"));
}
