use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::time::sleep;

use crate::metrics::Registry;

use super::*;

const S: Duration = Duration::from_secs(1);

fn config(workers: usize) -> Config {
    Config::new(
        "test",
        workers,
        Box::new(|failures| S * 2u32.pow(failures - 1)),
    )
}

fn queue(workers: usize) -> Queue<&'static str> {
    Queue::new(config(workers)).unwrap()
}

fn nowhere() -> Place {
    Place::default()
}

#[tokio::test(start_paused = true)]
async fn delayed_and_failed_keys_come_back_in_time() {
    let queue = queue(1);
    let start = now();
    let at = |seconds: u32| start + S * seconds;
    queue.add_after(&"later", nowhere(), 5 * S);
    queue.add(&"now", nowhere());
    let work = queue.get().await.unwrap();
    assert_eq!((*work.key(), now()), ("now", at(0)));
    assert_eq!(work.retry(), S);
    let work = queue.get().await.unwrap();
    assert_eq!(
        (*work.key(), now() >= at(1), now() < at(2)),
        ("now", true, true)
    );
    work.done();
    assert_eq!(*queue.get().await.unwrap().key(), "later");
    assert!(now() >= at(5) && now() < at(6));
}

#[tokio::test(start_paused = true)]
async fn a_waiting_getter_is_woken_by_an_add_and_by_a_freed_slot() {
    let queue = queue(1);
    let getter = tokio::spawn({
        let queue = queue.clone();
        async move {
            let first = queue.get().await.unwrap();
            let second = tokio::spawn({
                let queue = queue.clone();
                async move { queue.get().await.unwrap().key().to_owned() }
            });
            sleep(S).await;
            assert!(!second.is_finished(), "there is one slot");
            first.done();
            second.await.unwrap()
        }
    });
    sleep(S).await;
    queue.add(&"a", nowhere());
    queue.add(&"b", nowhere());
    assert_eq!(getter.await.unwrap(), "b");
}

#[tokio::test(start_paused = true)]
async fn a_backlog_is_in_the_log_at_thirty_seconds_and_as_it_doubles() {
    let log = crate::log::capture();
    let queue = queue(1);
    queue.add(&"hangs", nowhere());
    let hangs = queue.get().await.unwrap();
    queue.add(&"waits", nowhere());
    for (seconds, lines) in [(29, 0), (2, 1), (28, 1), (2, 2), (58, 2), (2, 3)] {
        let nobody = tokio::time::timeout(S * seconds, queue.get()).await;
        assert!(nobody.is_err(), "the only worker is busy");
        assert_eq!(log.lines().len(), lines, "{:?}", log.lines());
    }
    let first = &log.lines()[0];
    assert!(first.starts_with('W'), "{first}");
    for part in [
        r#""Work is waiting for a free worker""#,
        r#"queue="test""#,
        "depth=1",
        "running=1",
        "oldest_wait_seconds=30",
    ] {
        assert!(first.contains(part), "{part}: {first}");
    }
    hangs.done();
    assert_eq!(*queue.get().await.unwrap().key(), "waits");
}

#[tokio::test(start_paused = true)]
async fn dropped_work_counts_as_failed() {
    let queue = queue(1);
    queue.add(&"a", nowhere());
    drop(queue.get().await);
    assert_eq!(queue.failures(&"a"), 1);
    assert_eq!(*queue.get().await.unwrap().key(), "a");
}

#[tokio::test(start_paused = true)]
async fn serve_runs_as_many_as_there_are_slots_and_waits_for_them_at_the_end() {
    let queue: Queue<u32> = Queue::new(config(3)).unwrap();
    let (running, most, ended) =
        <(Arc<AtomicUsize>, Arc<AtomicUsize>, Arc<AtomicUsize>)>::default();
    let server = tokio::spawn({
        let (queue, running, most, ended) =
            (queue.clone(), running.clone(), most.clone(), ended.clone());
        async move {
            queue
                .serve(|work| {
                    let (running, most, ended) = (running.clone(), most.clone(), ended.clone());
                    async move {
                        let now = running.fetch_add(1, Ordering::SeqCst) + 1;
                        most.fetch_max(now, Ordering::SeqCst);
                        sleep(10 * S).await;
                        running.fetch_sub(1, Ordering::SeqCst);
                        ended.fetch_add(1, Ordering::SeqCst);
                        work.done();
                    }
                })
                .await;
        }
    });
    for key in 0..10 {
        queue.add(&key, nowhere());
    }
    sleep(15 * S).await;
    queue.shut_down();
    assert_eq!(ended.load(Ordering::SeqCst), 3);
    queue.drained().await;
    server.await.unwrap();
    assert_eq!(
        (ended.load(Ordering::SeqCst), most.load(Ordering::SeqCst)),
        (6, 3)
    );
    assert!(queue.get().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_panics_costs_neither_its_key_nor_its_slot() {
    let queue = queue(1);
    let attempts = Arc::new(AtomicUsize::new(0));
    let server = tokio::spawn({
        let (queue, attempts) = (queue.clone(), attempts.clone());
        async move {
            queue
                .serve(|work| {
                    let attempts = attempts.clone();
                    async move {
                        assert!(
                            attempts.fetch_add(1, Ordering::SeqCst) > 0,
                            "first attempt fails"
                        );
                        work.done();
                    }
                })
                .await;
        }
    });
    queue.add(&"a", nowhere());
    sleep(2 * S).await;
    assert_eq!(attempts.load(Ordering::SeqCst), 2);
    queue.shut_down();
    server.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn metrics_follow_what_the_queue_does() {
    let registry = Registry::new();
    let metrics = Metrics::new(&registry).unwrap();
    let queue = Queue::new(Config {
        metrics: Some(metrics.clone()),
        ..config(1)
    })
    .unwrap();
    let other: Queue<u8> = Queue::new(Config {
        name: "other".into(),
        metrics: Some(metrics.clone()),
        ..config(1)
    })
    .unwrap();
    queue.add(&"a", nowhere());
    queue.add(&"a", nowhere());
    queue.add(&"b", nowhere());
    sleep(3 * S).await;
    let work = queue.get().await.unwrap();
    sleep(4 * S).await;
    let text = registry.render();
    for line in [
        "# HELP workqueue_depth [BETA] Current depth of workqueue",
        "# TYPE workqueue_depth gauge",
        "workqueue_depth{name=\"test\"} 1",
        "workqueue_depth{name=\"other\"} 0",
        "workqueue_adds_total{name=\"test\"} 2",
        "workqueue_adds_total{name=\"other\"} 0",
        "workqueue_retries_total{name=\"test\"} 0",
        "workqueue_unfinished_work_seconds{name=\"test\"} 4",
        "workqueue_longest_running_processor_seconds{name=\"test\"} 4",
        "workqueue_queue_duration_seconds_count{name=\"test\"} 1",
        "workqueue_queue_duration_seconds_sum{name=\"test\"} 3",
        "workqueue_work_duration_seconds_count{name=\"test\"} 0",
        "csi_sidecar_workqueue_lane_depth{lane=\"all\",name=\"test\"} 1",
        "csi_sidecar_workqueue_lane_running{lane=\"all\",name=\"test\"} 1",
        "csi_sidecar_workqueue_lane_oldest_wait_seconds{lane=\"all\",name=\"test\"} 7",
    ] {
        assert!(text.contains(&format!("{line}\n")), "{line} in\n{text}");
    }
    work.retry();
    let text = registry.render();
    assert!(
        text.contains("workqueue_retries_total{name=\"test\"} 1\n"),
        "{text}"
    );
    assert!(
        text.contains("workqueue_work_duration_seconds_sum{name=\"test\"} 4\n"),
        "{text}"
    );
    assert!(
        text.contains(
            "workqueue_work_duration_seconds_bucket{name=\"test\",le=\"9.999999999999999e-06\"} 0\n"
        ),
        "{text}"
    );
    drop((queue, other));
    registry.render();
}

// common.md 4.2: the text of a scrape in client_golang's format.
#[tokio::test(start_paused = true)]
async fn the_whole_text_is_client_gos() {
    let registry = Registry::new();
    let metrics = Metrics::new(&registry).unwrap();
    let queue = Queue::new(Config {
        name: "csi-attacher-va".into(),
        metrics: Some(metrics),
        ..config(2)
    })
    .unwrap();
    let tick = Duration::from_millis(250);
    queue.add(&"a", nowhere());
    sleep(2 * tick).await;
    let first = queue.get().await.unwrap();
    sleep(2 * tick).await;
    assert_eq!(first.retry(), S);
    sleep(4 * tick).await;
    let _longest = queue.get().await.unwrap();
    sleep(6 * tick).await;
    for key in ["b", "c", "d"] {
        queue.add(&key, nowhere());
    }
    let _other = queue.get().await.unwrap();
    sleep(4 * tick).await;
    let text = registry.render();
    let text: String = text
        .lines()
        .filter(|line| line.contains("workqueue_") && !line.contains("csi_sidecar_"))
        .map(|line| format!("{line}\n"))
        .collect();
    assert_eq!(text, include_str!("testdata/workqueue.txt"));
}

#[tokio::test(start_paused = true)]
async fn fs_16_what_failed_while_a_server_was_away_is_due_when_it_answers() {
    let minutes = Box::new(|failures| 60 * S * failures);
    let queue = Queue::new(Config::new("test", 2, minutes)).unwrap();
    let server = Outage::default();
    queue.depends_on(&server);
    let start = now();
    let next = async || {
        let work = queue.get().await.unwrap();
        let at = now().duration_since(start).as_secs();
        (*work.key(), at, work)
    };
    queue.add(&"own fault", nowhere());
    let (key, _, work) = next().await;
    assert_eq!((key, work.retry()), ("own fault", 60 * S));
    queue.add(&"hurt", nowhere());
    let (key, _, work) = next().await;
    server.unanswered("refused");
    assert_eq!((key, work.retry()), ("hurt", 60 * S));
    let waiting = async {
        sleep(5 * S).await;
        assert!(server.served());
    };
    let ((key, at, work), ()) = tokio::join!(next(), waiting);
    assert_eq!((key, at), ("hurt", 5));
    // Once: a key that fails again has to wait, however often the server goes and comes back.
    server.unanswered("refused");
    assert_eq!(work.retry(), 120 * S);
    sleep(5 * S).await;
    assert!(server.served());
    let (key, at, work) = next().await;
    assert_eq!((key, at), ("own fault", 60));
    work.done();
    // The back-off was served, so the next outage counts again.
    let (key, at, work) = next().await;
    assert_eq!((key, at), ("hurt", 125));
    server.unanswered("refused");
    assert_eq!(work.retry(), 180 * S);
    sleep(5 * S).await;
    assert!(server.served());
    let (key, at, work) = next().await;
    assert_eq!((key, at), ("hurt", 130));
    work.done();
    assert_eq!(queue.failures(&"hurt"), 0);
}
