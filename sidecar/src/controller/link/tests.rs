use sidecar_testkit::FakeDriver;
use sidecar_testkit::driver::Probe;

use super::super::driver_info::DriverInfo;
use super::super::serve::Hindrances;
use super::super::view::{Driver, View};
use tokio::time::sleep;

use super::*;
use crate::election::Fence;
use crate::metrics::{OperationsConfig, Registry};

const SOON: Duration = Duration::from_secs(20);

#[derive(Debug, PartialEq)]
struct Named(String);

impl Driver for Named {
    type Settings = ();

    const CONTROLLER: &'static str = "controller";
    const ASKS_ANY_CONTROLLER: bool = false;

    fn new(name: &str, known: &Capabilities, (): &()) -> Result<Self, Exit> {
        let idle = known.controller == ControllerCapabilities::default();
        Ok(Self(if idle {
            "idle".to_owned()
        } else {
            name.to_owned()
        }))
    }

    fn name(&self) -> &str {
        &self.0
    }
}

fn settings(driver: &FakeDriver, identity: Identity) -> Settings {
    use csi_proto::csi::methods;
    Settings {
        address: driver.address(),
        calls: Calls {
            timeout: Duration::from_millis(300),
            methods: &[methods::IDENTITY],
            response_limit: None,
        },
        identity,
        patience: None,
        is_last_word: true,
        mute: 1,
        fence: Fence::default(),
        hindrances: Hindrances::default(),
        info: DriverInfo::default(),
    }
}

async fn meet(settings: Settings) -> Arc<View<Named>> {
    let operations = CsiOperations::new(&Registry::new(), OperationsConfig::default());
    let known = DriverHandshake::connect(settings, &operations.unwrap()).await;
    known.unwrap().into_view(()).await.unwrap()
}

async fn view(driver: &FakeDriver, patience: Option<Duration>) -> Arc<View<Named>> {
    driver.start();
    let settings = Settings {
        patience,
        ..settings(driver, Identity::Each(SOON))
    };
    meet(settings).await
}

#[tokio::test]
async fn time_in_which_the_process_stood_still_is_not_the_drivers() {
    let limit = Duration::from_millis(300);
    let driver = FakeDriver::new("test.csi.driver");
    driver.start();
    // The runtime has one thread: nothing in this test runs while it sleeps.
    let stand_still_in = async |method: &str| {
        while driver.calls_to(method).is_empty() {
            tokio::task::yield_now().await;
        }
        std::thread::sleep(limit * 3);
    };
    let still = async {
        stand_still_in("GetPluginInfo").await;
        stand_still_in("GetPluginCapabilities").await;
    };
    let met = meet(settings(&driver, Identity::Together(limit)));
    let (view, ()) = tokio::join!(met, still);
    assert_eq!(view.current().name(), "test.csi.driver");
}

#[tokio::test]
async fn a_leader_whose_driver_stays_away_makes_room() {
    let patience = Duration::from_secs(60);
    let driver = FakeDriver::new("test.csi.driver");
    let view = view(&driver, Some(patience)).await;
    let note = driver.directory().join("termination-log");
    let hindrances = view.link().settings.hindrances.clone();
    driver.stop();
    let start = Instant::now();
    let mut followed = Box::pin(view.link().follow_noting(Some(&note)));
    let shown = async {
        while hindrances.problem().is_none() {
            sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::select! {
        _ = &mut followed => panic!("it was not shown"),
        () = shown => {}
    }
    let away = hindrances.problem().unwrap();
    let said = "CSI driver: test.csi.driver does not answer at ";
    assert!(away.starts_with(said), "{away}");
    tokio::time::pause();
    let (lost, exit) = timeout(patience * 2, followed).await.unwrap();
    assert_eq!(hindrances.problem(), None, "given up");
    assert_eq!(lost, Lost::StaysAway);
    assert!(start.elapsed() >= patience);
    assert_eq!(
        (exit.code, exit.error.as_deref()),
        (1, Some(loss::LAST_WORDS))
    );
    assert_eq!(std::fs::read_to_string(note).unwrap(), loss::LAST_WORDS);
}

#[tokio::test]
async fn without_replicas_the_driver_is_waited_for() {
    let driver = FakeDriver::new("test.csi.driver");
    let view = view(&driver, None).await;
    let followed = view.follow();
    tokio::pin!(followed);
    driver.stop();
    let away = timeout(Duration::from_secs(1), &mut followed).await;
    assert!(away.is_err(), "it waits");
    let error = view.channel().await.expect_err("there is none meanwhile");
    assert_eq!(error.code, Code::Unavailable);
    driver.start();
    let back = async { while view.channel().await.is_err() {} };
    tokio::select! {
        exit = &mut followed => panic!("{exit:?}"),
        back = timeout(SOON, back) => back.unwrap(),
    }
}

#[tokio::test]
async fn who_follows_next_takes_over_where_the_last_one_was_dropped() {
    let log = crate::log::capture();
    let said = |text: &str| {
        log.lines()
            .iter()
            .filter(|line| line.contains(text))
            .count()
    };
    let driver = FakeDriver::new("test.csi.driver");
    let view = view(&driver, None).await;
    driver.stop();
    let told = async {
        while said("Lost the connection") == 0 {
            sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::select! {
        exit = view.follow() => panic!("{exit:?}"),
        told = timeout(SOON, told) => told.unwrap(),
    }
    assert_eq!(said("Lost the connection"), 1);
    driver.start();
    let back = async {
        while said("The CSI driver is back") == 0 {
            sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::select! {
        exit = view.follow() => panic!("{exit:?}"),
        back = timeout(SOON, back) => back.unwrap(),
    }
    assert_eq!(said("Lost the connection"), 2, "found again only then");
    let brief = Duration::from_millis(200);
    assert!(timeout(brief, view.follow()).await.is_err());
    assert_eq!(said("Lost the connection"), 2, "that one is over");
    assert!(view.channel().await.is_ok());
}

#[tokio::test]
async fn a_driver_that_ends_a_connection_in_good_order_is_not_lost() {
    let log = crate::log::capture();
    let driver = FakeDriver::new("test.csi.driver");
    let view = view(&driver, None).await;
    let rounds = async {
        for round in 2..5 {
            driver.end_connections();
            while driver.connections() < round || view.channel().await.is_err() {
                sleep(Duration::from_millis(20)).await;
            }
            while driver.calls_to("GetPluginInfo").len() < round || *view.link.away.borrow() {
                sleep(Duration::from_millis(20)).await;
            }
        }
    };
    tokio::select! {
        exit = view.follow() => panic!("{exit:?}"),
        rounds = timeout(SOON, rounds) => rounds.unwrap(),
    }
    let lines = log.lines();
    let is_told = |line: &String| line.contains("Lost") || line.contains("is back");
    assert!(!lines.iter().any(is_told), "{lines:?}");
    // One that ends the connection and stays away is.
    driver.configure(|model| model.probes.push_back(Probe::NotReady));
    driver.end_connections();
    let told = async {
        while !log.lines().iter().any(is_told) {
            sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::select! {
        exit = view.follow() => panic!("{exit:?}"),
        told = timeout(SOON, told) => told.unwrap(),
    }
}

#[tokio::test]
async fn a_driver_that_comes_back_as_another_ends_the_process() {
    let log = crate::log::capture();
    let driver = FakeDriver::new("test.csi.driver");
    let view = view(&driver, None).await;
    driver.stop();
    driver.configure(|model| model.name = "other".to_owned());
    driver.start();
    let exit = timeout(SOON, view.follow()).await.unwrap();
    let text = "the driver on the CSI socket changed its name from test.csi.driver to other; restart \
                the controller together with the driver";
    assert_eq!((exit.code, exit.error.as_deref()), (1, Some(text)));
    let is_back = |line: &String| line.contains("is back");
    assert!(!log.lines().iter().any(is_back), "{:?}", log.lines());
}

#[tokio::test]
async fn a_18_another_driver_ends_it_for_those_who_would_go_on_and_for_those_to_come() {
    let driver = FakeDriver::new("test.csi.driver");
    let (_, anything) = views(&driver, None).await;
    driver.stop();
    driver.configure(|model| model.name = "other".to_owned());
    driver.start();
    let exit = timeout(SOON, anything.follow()).await.unwrap();
    assert_eq!(exit.code, 1);
    let (link, calls) = (Arc::clone(&anything.link), anything.link.settings.calls);
    let later = View::<Anything>::new(link, calls, (), (Fence::default(), None)).unwrap();
    let at_once = timeout(Duration::from_millis(50), later.follow()).await;
    assert_eq!(at_once, Ok(exit));
    assert!(later.channel().await.is_err());
}

#[tokio::test]
async fn a_52_a_driver_that_was_given_up_is_met_again_over_another_connection() {
    let driver = FakeDriver::new("test.csi.driver");
    let view = view(&driver, Some(Duration::from_millis(300))).await;
    driver.stop();
    let note = driver.directory().join("termination-log");
    let followed = view.link().follow_noting(Some(&note));
    let (lost, _) = timeout(SOON, followed).await.unwrap();
    assert_eq!(lost, Lost::StaysAway);
    let fence = Fence::default();
    let again = view.link().anew(fence.clone());
    let start = async {
        sleep(Duration::from_millis(300)).await;
        driver.start();
    };
    let (again, ()) = timeout(SOON, async { tokio::join!(again, start) })
        .await
        .unwrap();
    let again = again.unwrap();
    let calls = again.settings.calls;
    let second =
        View::<Named>::new(Arc::clone(&again), calls, (), (Fence::default(), None)).unwrap();
    assert!(second.channel().await.is_ok());
    // The connection ends with the lease, and does not outlive its last user.
    fence.close();
    let gone = again.connection.lost();
    drop((again, second));
    assert!(timeout(Duration::from_secs(5), gone).await.is_ok());

    driver.stop();
    driver.configure(|model| model.name = "other".to_owned());
    driver.start();
    let exit = view.link().anew(Fence::default()).await.err();
    assert_eq!(exit.map(|exit| exit.code), Some(1));
}

/// One of several controllers in a process that does not end with the driver.
fn among_others(driver: &FakeDriver) -> Settings {
    Settings {
        is_last_word: false,
        ..settings(driver, Identity::Each(SOON))
    }
}

#[tokio::test]
async fn a_101_a_process_of_several_waits_for_a_driver_that_is_not_there_or_does_not_tell() {
    use sidecar_testkit::CallFault;
    let driver = FakeDriver::new("test.csi.driver");
    for method in ["Probe", "GetPluginInfo", "GetPluginCapabilities"] {
        let refusal = CallFault::on(method).times(2);
        driver.fault(refusal.fail(Code::Internal, "starting"));
    }
    let start = async {
        sleep(Duration::from_millis(300)).await;
        driver.start();
    };
    let (view, ()) = timeout(SOON, async {
        tokio::join!(meet(among_others(&driver)), start)
    })
    .await
    .unwrap();
    assert_eq!(view.current().name(), "test.csi.driver");
    assert_eq!(driver.calls_to("GetPluginInfo").len(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_101_a_process_of_several_waits_longer_than_a_single_program() {
    let driver = FakeDriver::new("test.csi.driver");
    let hour = Duration::from_secs(3600);
    assert!(timeout(hour, meet(among_others(&driver))).await.is_err());
    let single = settings(&driver, Identity::Each(SOON));
    let operations = CsiOperations::unregistered(OperationsConfig::default()).unwrap();
    let single = DriverHandshake::connect(single, &operations);
    assert!(timeout(hour, single).await.unwrap().is_err());
}

/// A driver that ends each connection as soon as it has answered all questions.
#[tokio::test]
async fn a_102_a_driver_that_ends_each_connection_soon_is_asked_once_a_second() {
    let driver = FakeDriver::new("test.csi.driver");
    let view = view(&driver, None).await;
    driver.clear_calls();
    let flapping = async {
        for _ in 0..4 {
            let asked = driver.calls_to("GetPluginCapabilities").len();
            driver.stop();
            driver.start();
            while driver.calls_to("GetPluginCapabilities").len() == asked
                || *view.link.away.borrow()
            {
                sleep(Duration::from_millis(1)).await;
            }
        }
    };
    let start = Instant::now();
    tokio::select! {
        exit = view.follow() => panic!("{exit:?}"),
        flapping = timeout(SOON * 3, flapping) => flapping.unwrap(),
    }
    let took = start.elapsed();
    assert!(took >= RETRY_INTERVAL * 3, "{took:?}");
}

/// Upstream counts the second probe under the driver's name, which it knows by then.
#[tokio::test]
async fn the_second_probe_of_a_migrated_driver_is_counted_under_its_name() {
    let driver = FakeDriver::new("test.csi.driver");
    driver.start();
    let registry = Registry::new();
    let settings = settings(&driver, Identity::Each(SOON));
    let met = DriverHandshake::connect_counted(settings, &registry, |_| true).await;
    assert_eq!(met.unwrap().name(), "test.csi.driver");
    let text = registry.render();
    let probe = r#"{driver_name="test.csi.driver",grpc_status_code="OK",method_name="/csi.v1.Identity/Probe",migrated="false"} 1"#;
    assert!(text.contains(probe), "{text}");
    assert!(!text.contains("unknown-driver"), "{text}");
}

#[tokio::test]
async fn views_that_are_gone_are_not_kept() {
    let driver = FakeDriver::new("test.csi.driver");
    let view = view(&driver, None).await;
    for _ in 0..100 {
        let (link, calls) = (Arc::clone(&view.link), view.link.settings.calls);
        drop(View::<Anything>::new(link, calls, (), (Fence::default(), None)).unwrap());
    }
    assert!(lock(&view.link.known).views.len() <= 2);
}

/// Accepts any driver.
#[derive(Debug, PartialEq)]
struct Anything;

impl Driver for Anything {
    type Settings = ();

    const CONTROLLER: &'static str = "controller";
    const ASKS_ANY_CONTROLLER: bool = false;

    fn new(_: &str, _: &Capabilities, (): &()) -> Result<Self, Exit> {
        Ok(Self)
    }

    fn name(&self) -> &str {
        "any"
    }
}

/// Two views of one connection.
async fn views(
    driver: &FakeDriver,
    patience: Option<Duration>,
) -> (Arc<View<Named>>, Arc<View<Anything>>) {
    driver.start();
    let settings = Settings {
        patience,
        ..settings(driver, Identity::Each(SOON))
    };
    let calls = settings.calls;
    let operations = CsiOperations::new(&Registry::new(), OperationsConfig::default());
    let known = DriverHandshake::connect(settings, &operations.unwrap()).await;
    let questions = Questions::of::<Named>(&()).and(Questions::of::<Anything>(&()));
    let link = known.unwrap().fetch_capabilities(questions).await.unwrap();
    let named = View::new(Arc::clone(&link), calls, (), (Fence::default(), None)).unwrap();
    (
        named,
        View::new(link, calls, (), (Fence::default(), None)).unwrap(),
    )
}

#[tokio::test]
async fn a_controller_that_cannot_go_on_with_the_driver_ends_alone() {
    let driver = FakeDriver::new("test.csi.driver");
    let (named, anything) = views(&driver, None).await;
    assert_eq!(driver.connections(), 1);
    driver.stop();
    driver.configure(|model| model.controller.clear());
    driver.start();
    let goes_on = anything.follow();
    tokio::pin!(goes_on);
    let exit = tokio::select! {
        exit = timeout(SOON, named.follow()) => exit.unwrap(),
        exit = &mut goes_on => panic!("{exit:?}"),
    };
    let text = "the driver on the CSI socket changed its name from test.csi.driver to idle; restart \
                the controller together with the driver";
    assert_eq!((exit.code, exit.error.as_deref()), (1, Some(text)));
    assert!(anything.channel().await.is_ok());
    assert!(named.channel().await.is_err());
    let brief = Duration::from_millis(300);
    assert!(timeout(brief, goes_on).await.is_err(), "it is followed on");
}

#[tokio::test]
async fn all_hear_that_the_driver_is_given_up() {
    let driver = FakeDriver::new("test.csi.driver");
    let (named, anything) = views(&driver, Some(Duration::from_millis(300))).await;
    let note = driver.directory().join("termination-log");
    driver.stop();
    let (one, other) = tokio::join!(
        named.link().follow_noting(Some(&note)),
        timeout(SOON, anything.link().follow_noting(Some(&note))),
    );
    assert_eq!(Ok(one), other.map_err(|_| ()));
    // Immediately, not after another 300 ms each.
    let at_once = timeout(Duration::from_millis(50), named.follow()).await;
    assert_eq!(at_once.unwrap().error.as_deref(), Some(loss::LAST_WORDS));
}

#[tokio::test]
async fn calls_wait_for_ever_without_the_lease_of_their_own_controller() {
    let driver = FakeDriver::new("test.csi.driver");
    let (named, anything) = views(&driver, None).await;
    let fence = Fence::default();
    let calls = named.link().settings.calls;
    let fenced =
        View::<Named>::new(Arc::clone(&named.link), calls, (), (fence.clone(), None)).unwrap();
    assert!(fenced.channel().await.is_ok());
    fence.close();
    let brief = Duration::from_millis(300);
    assert!(timeout(brief, fenced.channel()).await.is_err());
    assert!(named.channel().await.is_ok() && anything.channel().await.is_ok());
}
