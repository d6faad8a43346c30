//! The conversation with a registrar: K-14 to K-21, K-24, K-25 and K-31 to K-38.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::BoxFuture;
use registrar::kubelet::work::plugin::{Handlers, PluginError, PluginHandler};
use registrar::kubelet::work::registration::Registrar;
use sidecar_testkit::{CallFault, FakeDriver, Fault, Gate};
use tokio::net::{UnixListener, UnixSocket};
use tokio::time::{Instant, sleep};
use tonic::{Code, Status};

use crate::script::{Answer, Call, Script};
use crate::stage::{CSINODE, CSINODES, D, NODE, NODE_STATUS, Stage, about, pass, timed};

/// Checks the pauses between the attempts of a registrar that always fails. The reconciler runs once a second, so each
/// pause is up to a second longer than the back-off.
fn assert_grows(attempts: &[Instant], attempt_takes: Duration) {
    let mut back_off = Duration::from_millis(500);
    for pair in attempts.windows(2) {
        let pause = pair[1] - pair[0] - attempt_takes;
        let longest = back_off + Duration::from_millis(1100);
        assert!(
            back_off < pause && pause < longest,
            "{pause:?} after {back_off:?}"
        );
        back_off = (back_off * 2).min(Duration::from_secs(122));
    }
}

#[tokio::test(start_paused = true)]
async fn k_14_a_registration_in_its_order() {
    let stage = Stage::started().await;
    stage.api.delete("csinodes", "n1");
    stage.api.clear_requests();
    // Every step takes some time, so that the three records have a definite order.
    let step = Duration::from_millis(10);
    stage.driver.fault(CallFault::on("NodeGetInfo").delay(step));
    stage.api.fault(Fault::on("*", "*").delay(step));
    let registrar = stage
        .script("d-reg.sock")
        .get_info(Answer::After(step))
        .listen();
    registrar.confirmed().await;

    let mut order: Vec<(Instant, String)> = Vec::new();
    for (at, call) in registrar.calls() {
        order.push((at, format!("{call:?}")));
    }
    for call in stage.driver.calls() {
        order.push((call.started, call.method.to_owned()));
    }
    for request in stage.api.requests() {
        order.push((request.at, format!("{} {}", request.method, request.path)));
    }
    order.sort();
    let order: Vec<String> = order.into_iter().map(|(_, what)| what).collect();
    let notify = Call::Notify {
        registered: true,
        error: String::new(),
    };
    let expected = [
        "GetInfo",
        "NodeGetInfo",
        &format!("GET {NODE}"),
        &format!("PATCH {NODE_STATUS}"),
        &format!("GET {CSINODE}"),
        &format!("POST {CSINODES}"),
        &format!("PUT {CSINODE}"),
        &format!("{notify:?}"),
    ];
    assert_eq!(order, expected);
}

#[tokio::test(start_paused = true)]
async fn k_15_without_an_endpoint_the_driver_is_behind_the_registration_socket() {
    let stage = Stage::started().await;
    let registrar = stage.script("d-reg.sock").endpoint("").listen();
    // NodeGetInfo goes to that socket, which only has the registration service.
    let refusal = registrar.refused().await;
    assert!(refusal.contains("code = Unimplemented"), "{refusal}");
    assert_eq!(
        registrar.connections(),
        2,
        "one for the registration, one for NodeGetInfo"
    );
    assert_eq!(stage.node_get_infos(), 0);
}

#[tokio::test(start_paused = true)]
async fn k_16_a_slow_get_info_fails_after_a_second() {
    let stage = Stage::started().await;
    let slow = Answer::After(Duration::from_secs(2));
    let registrar = stage.script("d-reg.sock").get_info(slow).listen();
    registrar.asked(3).await;
    assert_grows(&registrar.infos(), Duration::from_secs(1));
    assert!(registrar.notices().is_empty());
}

#[tokio::test(start_paused = true)]
async fn k_17_a_server_without_get_info_is_asked_less_and_less() {
    let stage = Stage::started().await;
    let never = Answer::Fail(Status::unimplemented("unknown service"));
    let registrar = stage.script("csi.sock").get_info(never).listen();
    registrar.asked(9).await;
    assert_grows(&registrar.infos(), Duration::ZERO);
    assert!(registrar.notices().is_empty());
}

#[tokio::test(start_paused = true)]
async fn k_18_nobody_listens() {
    let stage = Stage::set();
    let socket = stage.socket("stale.sock");
    let _bound = bound(&socket);
    let took = timed(async {
        let Err(error) = Registrar::dial(&socket).await else {
            panic!("connected to nobody")
        };
        assert!(error.to_string().contains("stale.sock"), "{error}");
    });
    assert!(about(took.await, 10.0));
}

#[tokio::test(start_paused = true)]
async fn k_18_attempts_where_nobody_speaks_begin_later_and_later() {
    let stage = Stage::started().await;
    let listener = UnixListener::bind(stage.socket("mute.sock")).unwrap();
    let mut attempts = Vec::new();
    let mut open = Vec::new();
    for _ in 0..6 {
        open.push(listener.accept().await.unwrap());
        attempts.push(Instant::now());
    }
    assert_grows(&attempts, Duration::from_secs(10));
}

#[tokio::test(start_paused = true)]
async fn k_19_a_listener_that_comes_while_dialling_is_found() {
    let stage = Stage::started().await;
    let script = stage.script("d-reg.sock");
    let begin = Instant::now();
    let bound = bound(&stage.socket("d-reg.sock"));
    pass(4.0).await;
    let registrar = script.listen_on(bound.listen(16).unwrap());
    registrar.confirmed().await;
    assert!(
        begin.elapsed() < Duration::from_secs(7),
        "in the first attempt"
    );
    assert_eq!(registrar.infos().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn k_20_a_type_without_handler_is_refused() {
    let stage = Stage::started().await;
    stage.api.clear_requests();
    let registrar = stage.script("foo.sock").kind("Foo").listen();
    let expected = format!(
        "RegisterPlugin error -- no handler registered for plugin type: Foo at socket {}",
        registrar.socket().display()
    );
    assert_eq!(registrar.refused().await, expected);
    registrar.asked(4).await;
    assert_grows(&registrar.infos(), Duration::ZERO);
    assert!(stage.api.requests_to("*", NODE).is_empty());
    assert!(stage.api.writes().is_empty());
    assert_eq!(stage.node_get_infos(), 0);
}

/// Records the calls of a handler.
#[derive(Default)]
struct Recorder(Mutex<Vec<String>>);

impl Recorder {
    fn note(&self, what: String) {
        self.0.lock().unwrap().push(what);
    }
}

impl PluginHandler for Recorder {
    fn validate(&self, name: &str, versions: &[String]) -> Result<(), PluginError> {
        self.note(format!("validate {name} {versions:?}"));
        Ok(())
    }

    fn register<'a>(
        &'a self,
        name: &'a str,
        endpoint: &'a str,
        versions: &'a [String],
    ) -> BoxFuture<'a, Result<(), PluginError>> {
        self.note(format!("register {name} {endpoint} {versions:?}"));
        Box::pin(async { Ok(()) })
    }

    fn deregister<'a>(&'a self, name: &'a str, endpoint: &'a str) -> BoxFuture<'a, ()> {
        self.note(format!("deregister {name} {endpoint}"));
        Box::pin(async {})
    }
}

#[tokio::test(start_paused = true)]
async fn k_21_other_types_go_to_their_handlers() {
    let mut stage = Stage::set();
    let recorder = Arc::new(Recorder::default());
    let handler: Arc<dyn PluginHandler> = Arc::clone(&recorder) as Arc<dyn PluginHandler>;
    stage.add_handlers(Handlers::from([("DevicePlugin".to_owned(), handler)]));
    stage.start();
    let script = stage
        .script("dev.sock")
        .kind("DevicePlugin")
        .name("acme.com/gpu");
    let registrar = script.versions(&["v1beta1"]).endpoint("/dev.sock").listen();
    registrar.confirmed().await;
    registrar.remove();
    stage
        .until("it is deregistered", |stage| stage.actual().is_empty())
        .await;
    let expected = [
        "validate acme.com/gpu [\"v1beta1\"]",
        "register acme.com/gpu /dev.sock [\"v1beta1\"]",
        "deregister acme.com/gpu /dev.sock",
    ];
    assert_eq!(*recorder.0.lock().unwrap(), expected);
    assert_eq!(stage.node_get_infos(), 0);
}

#[tokio::test(start_paused = true)]
async fn k_24_a_new_socket_on_the_same_path_inherits_the_back_off() {
    let stage = Stage::started().await;
    let never = Answer::Fail(Status::unimplemented("unknown service"));
    let registrar = stage.script("d-reg.sock").get_info(never).listen();
    registrar.asked(5).await; // 8 s to the next one
    let last = *registrar.infos().last().unwrap();
    registrar.remove();
    pass(3.0).await;
    let registrar = stage.registered().await;
    let pause = registrar.infos()[0] - last;
    assert!(
        pause > Duration::from_secs(8) && pause < Duration::from_secs(10),
        "{pause:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn k_25_no_versions_are_refused_before_the_driver_is_asked() {
    let stage = Stage::started().await;
    let registrar = stage.script("d-reg.sock").versions(&[]).listen();
    let refusal = registrar.refused().await;
    let expected = "RegisterPlugin error -- plugin validation failed with err:";
    assert!(refusal.starts_with(expected), "{refusal}");
    pass(5.0).await;
    assert_eq!(stage.node_get_infos(), 0);
}

#[tokio::test(start_paused = true)]
async fn k_31_32_a_second_socket_of_a_driver_waits_for_the_first_to_go() {
    let stage = Stage::started().await;
    let first = stage.registered().await;
    let second = stage.script("second.sock").listen();
    let refusal = second.refused().await;
    assert!(refusal.contains("plugin validation failed"), "{refusal}");
    assert!(refusal.contains("already registered"), "{refusal}");
    assert_eq!(stage.actual(), [first.socket()]);
    assert_eq!(first.calls().len(), 2, "untouched");
    assert_eq!(stage.node_get_infos(), 1);

    first.remove();
    second.confirmed().await;
    assert_eq!(stage.actual(), [second.socket()]);
    assert!(stage.entry(D).is_some());
}

/// Another driver process of the same name.
fn upgraded() -> FakeDriver {
    let driver = FakeDriver::new(D);
    driver.configure(|model| model.node_id = crate::stage::ID.to_owned());
    driver.start();
    driver
}

#[tokio::test(start_paused = true)]
async fn k_33_34_a_higher_version_takes_over_and_goes_with_the_first_socket() {
    let stage = Stage::started().await;
    let first = stage.registered().await;
    let driver = upgraded();
    let endpoint = driver.socket().to_str().unwrap().to_owned();
    let script = stage
        .script("second.sock")
        .endpoint(&endpoint)
        .versions(&["1.0.1"]);
    let second = script.listen();
    second.confirmed().await;
    assert_eq!(stage.endpoint(D), Some(endpoint));

    first.remove();
    stage
        .until("the driver is gone", |stage| stage.endpoint(D).is_none())
        .await;
    stage
        .until("its entry is gone", |stage| stage.entry(D).is_none())
        .await;
    pass(300.0).await;
    assert_eq!(
        stage.actual(),
        [second.socket()],
        "the second one counts as registered"
    );
    assert!(
        stage.entry(D).is_none(),
        "and so nothing brings the driver back"
    );
}

#[tokio::test(start_paused = true)]
async fn k_35_a_driver_that_does_not_answer_is_refused_and_tried_again() {
    let stage = Stage::started().await;
    let fault = CallFault::on("NodeGetInfo")
        .fail(Code::Unavailable, "later")
        .times(2);
    stage.driver.fault(fault);
    let registrar = stage.registrar();
    let refusal = registrar.refused().await;
    let expected = "RegisterPlugin error -- plugin registration failed with err:";
    assert!(refusal.starts_with(expected), "{refusal}");
    assert!(
        refusal.contains("code = Unavailable desc = later"),
        "{refusal}"
    );
    assert_eq!(stage.node_get_infos(), 1, "one call per attempt");
    assert_eq!(stage.endpoint(D), None);
    assert!(stage.actual().is_empty());

    registrar.confirmed().await;
    assert_eq!(stage.node_get_infos(), 3);
    assert_eq!(registrar.notices().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn k_36_a_driver_that_blocks_is_given_two_minutes() {
    let stage = Stage::started().await;
    stage.driver.fault(CallFault::on("NodeGetInfo").hang());
    let registrar = stage.registrar();
    registrar.asked(1).await;
    let took = timed(registrar.refused()).await;
    assert!(about(took, 120.0), "{took:?}");
    let refusal = registrar.refused().await;
    assert!(refusal.contains("DeadlineExceeded"), "{refusal}");
    let call = &stage.driver.calls()[0];
    assert!(call.is_cancelled(), "{call:?}");
    assert_eq!(
        call.deadline,
        Some(Duration::from_secs(120)),
        "the driver is told"
    );
}

#[tokio::test(start_paused = true)]
async fn k_37_an_empty_node_id_is_refused_without_a_write() {
    let stage = Stage::started().await;
    stage.api.clear_requests();
    stage
        .driver
        .configure(|model| model.node_id = String::new());
    let refusal = stage.registrar().refused().await;
    assert!(refusal.contains("empty node id"), "{refusal}");
    assert!(stage.api.writes().is_empty(), "{:?}", stage.writes());
}

#[tokio::test(start_paused = true)]
async fn k_38_a_registrar_that_dies_of_each_refusal_is_slowed_down() {
    let stage = Stage::started().await;
    stage
        .driver
        .fault(CallFault::on("NodeGetInfo").fail(Code::Internal, "boom"));
    let mut registrar = stage.script("d-reg.sock").dies().listen();
    let mut attempts = Vec::new();
    for _ in 0..7 {
        registrar.refused().await;
        attempts.extend(registrar.infos());
        // A pause between two registrations, like that of a restarting container.
        sleep(Duration::from_millis(100)).await;
        registrar = registrar.reborn();
    }
    let pauses: Vec<f64> = attempts
        .windows(2)
        .map(|pair| (pair[1] - pair[0]).as_secs_f64())
        .collect();
    // Each one is a new incarnation, but nothing was registered, so that nothing succeeds in between.
    for (pause, back_off) in pauses.iter().zip([0.5, 1.0, 2.0, 4.0, 8.0, 16.0]) {
        assert!(*pause > back_off && *pause < back_off + 1.2, "{pauses:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn k_44_a_blocked_registration_does_not_hold_up_others() {
    let stage = Stage::started().await;
    let gate = Gate::new();
    stage.driver.fault(CallFault::on("NodeGetInfo").hold(&gate));
    let blocked = stage.registrar();
    blocked.asked(1).await;
    let other = FakeDriver::new("other.example.com");
    other.start();
    let script = Script::new(stage.socket("other.sock")).name("other.example.com");
    let free = script.endpoint(other.socket().to_str().unwrap()).listen();
    free.confirmed().await;
    assert!(blocked.notices().is_empty());
    gate.open();
    blocked.confirmed().await;
}

/// A socket file that refuses connections until it listens.
fn bound(path: &std::path::Path) -> UnixSocket {
    let socket = UnixSocket::new_stream().unwrap();
    socket.bind(path).unwrap();
    socket
}
