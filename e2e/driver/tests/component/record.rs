use super::harness::*;

#[tokio::test]
async fn a_call_is_recorded_without_its_secrets() {
    let place = Place::new();
    let driver = place.start("n1", &[]);
    let mut request = create("pvc-1");
    request
        .secrets
        .insert("password".to_owned(), "hunter2".to_owned());
    request
        .parameters
        .insert("kind".to_owned(), "fast".to_owned());
    let answer = driver
        .controller()
        .await
        .create_volume(within(30_000, request))
        .await
        .unwrap();
    let id = answer.into_inner().volume.unwrap().volume_id;

    let calls = driver.calls("CreateVolume");
    let [call] = calls.as_slice() else {
        panic!("{calls:?}")
    };
    assert_eq!(
        (call.volume.as_str(), call.name.as_str()),
        (id.as_str(), "pvc-1")
    );
    assert_eq!(call.code.as_deref(), Some("OK"));
    assert!(call.secrets && call.in_flight == 1 && call.seq == 1 && !call.caller_gone);
    assert!(
        call.deadline_ms.is_some_and(|ms| ms > 0 && ms <= 30_000),
        "{:?}",
        call.deadline_ms
    );
    assert!(call.end_ns.is_some_and(|end| end >= call.start_ns));
    assert_eq!(call.caller, Some(std::process::id()));
    assert_eq!(call.request["parameters"]["kind"], "fast");
    let text = std::fs::read_to_string(&driver.record).unwrap();
    assert!(!text.contains("hunter2"), "{text}");
    assert_eq!(
        text.lines().count(),
        2,
        "one line for the beginning and one for the end"
    );
}

#[tokio::test]
async fn errors_and_authority_are_recorded() {
    let place = Place::new();
    let driver = place.start("n1", &["--enable-attach"]);
    let refused = driver
        .controller()
        .await
        .controller_publish_volume(attach("gone", "n1"))
        .await;
    assert_eq!(refused.unwrap_err().code(), tonic::Code::NotFound);
    let calls = driver.calls("ControllerPublishVolume");
    assert_eq!(calls[0].code.as_deref(), Some("NOT_FOUND"));
    assert_eq!(
        (calls[0].volume.as_str(), calls[0].node.as_str()),
        ("gone", "n1")
    );
    assert!(calls[0].message.contains("gone"));
    assert_eq!(calls[0].authority, "tonic", "what tonic's client sends");
}

#[tokio::test]
async fn a_killed_driver_leaves_the_beginning_of_the_call() {
    let place = Place::new();
    let mut driver = place.start("n1", &[]);
    driver.on_create(serde_json::json!({"at": "after", "outcome": "crash"}));
    let answer = driver
        .controller()
        .await
        .create_volume(create("pvc-1"))
        .await;
    assert!(answer.is_err());
    driver.ended();
    let calls = driver.calls("CreateVolume");
    assert_eq!(calls.len(), 1);
    assert_eq!((calls[0].end_ns, calls[0].code.as_deref()), (None, None));
    driver.restart();
    assert_eq!(driver.left_over("volumes"), 1, "the work was done");
    let again = created(&driver, create("pvc-1")).await;
    assert_eq!(driver.calls("CreateVolume")[1].volume, again);
    assert_eq!(driver.left_over("volumes"), 1);
}
