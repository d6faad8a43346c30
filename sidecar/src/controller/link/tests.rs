use sidecar_testkit::FakeDriver;

use super::super::view::{Driver, View};
use super::*;
use crate::election::Fence;
use crate::metrics::{OperationsConfig, Registry};

const SOON: Duration = Duration::from_secs(20);

#[derive(Debug, PartialEq)]
struct Named(String);

impl Driver for Named {
    type Settings = ();
    type IncompatibleDriver = String;

    const ASKS_ANY_CONTROLLER: bool = false;

    fn new(name: &str, _: &Capabilities, (): &()) -> Result<Self, Exit> {
        Ok(Self(name.to_owned()))
    }

    fn name(&self) -> &str {
        &self.0
    }

    fn accept(&self, now: &Self) -> Result<(), String> {
        if self == now {
            Ok(())
        } else {
            Err(format!("{} became {}", self.0, now.0))
        }
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
        mute: 1,
        fence: Fence::default(),
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
    // The runtime has one thread: while it sleeps nothing here runs.
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
    let driver = FakeDriver::new("test.csi.driver");
    let view = view(&driver, Some(Duration::from_millis(300))).await;
    let note = driver.directory().join("termination-log");
    driver.stop();
    let start = Instant::now();
    let exit = timeout(SOON, view.link().follow_noting(&note))
        .await
        .unwrap();
    assert!(start.elapsed() >= Duration::from_millis(300));
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
    let brief = Duration::from_millis(200);
    assert!(timeout(brief, view.follow()).await.is_err());
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
    assert!(timeout(brief, view.follow()).await.is_err());
    assert_eq!(said("Lost the connection"), 2, "that one is over");
    assert!(view.channel().await.is_ok());
}

#[tokio::test]
async fn a_driver_that_comes_back_as_another_ends_the_process() {
    let driver = FakeDriver::new("test.csi.driver");
    let view = view(&driver, None).await;
    driver.stop();
    driver.configure(|model| model.name = "other".to_owned());
    driver.start();
    let exit = timeout(SOON, view.follow()).await.unwrap();
    let text = "test.csi.driver became other";
    assert_eq!((exit.code, exit.error.as_deref()), (1, Some(text)));
}

/// Gets on with any driver.
#[derive(Debug, PartialEq)]
struct Anything;

impl Driver for Anything {
    type Settings = ();
    type IncompatibleDriver = String;

    const ASKS_ANY_CONTROLLER: bool = false;

    fn new(_: &str, _: &Capabilities, (): &()) -> Result<Self, Exit> {
        Ok(Self)
    }

    fn name(&self) -> &str {
        "any"
    }

    fn accept(&self, _: &Self) -> Result<(), String> {
        Ok(())
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
    let named = View::new(Arc::clone(&link), calls, (), Fence::default()).unwrap();
    (named, View::new(link, calls, (), Fence::default()).unwrap())
}

#[tokio::test]
async fn a_controller_that_cannot_go_on_with_the_driver_ends_alone() {
    let driver = FakeDriver::new("test.csi.driver");
    let (named, anything) = views(&driver, None).await;
    assert_eq!(driver.connections(), 1);
    driver.stop();
    driver.configure(|model| model.name = "other".to_owned());
    driver.start();
    let goes_on = anything.follow();
    tokio::pin!(goes_on);
    let exit = tokio::select! {
        exit = timeout(SOON, named.follow()) => exit.unwrap(),
        exit = &mut goes_on => panic!("{exit:?}"),
    };
    let text = "test.csi.driver became other";
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
        named.link().follow_noting(&note),
        timeout(SOON, anything.link().follow_noting(&note)),
    );
    assert_eq!(Ok(one), other.map_err(|_| ()));
    // Not after another 300 ms each.
    let at_once = timeout(Duration::from_millis(50), named.follow()).await;
    assert_eq!(at_once.unwrap().error.as_deref(), Some(loss::LAST_WORDS));
}

#[tokio::test]
async fn calls_wait_for_ever_without_the_lease_of_their_own_controller() {
    let driver = FakeDriver::new("test.csi.driver");
    let (named, anything) = views(&driver, None).await;
    let fence = Fence::default();
    let calls = named.link().settings.calls;
    let fenced = View::<Named>::new(Arc::clone(&named.link), calls, (), fence.clone()).unwrap();
    assert!(fenced.channel().await.is_ok());
    fence.close();
    let brief = Duration::from_millis(300);
    assert!(timeout(brief, fenced.channel()).await.is_err());
    assert!(named.channel().await.is_ok() && anything.channel().await.is_ok());
}
