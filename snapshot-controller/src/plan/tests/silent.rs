//! VolumeSnapshots whose content nobody begins with.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::json;
use sidecar_testkit::sim::rest::remembered;

use crate::model::{Content, Snapshot};
use crate::plan::silent::Silent;
use crate::testing::bench::record;
use crate::testing::objects::{content, snapshot};

const MINUTE: u64 = 60;

#[test]
fn nobody_answers_and_that_is_said_once_an_hour() {
    let of: Snapshot = record(&snapshot("s1", "U1").to_string()).unwrap();
    let mut object = content("s1", "U1");
    object["metadata"]["creationTimestamp"] = "2026-01-02T03:00:00Z".into();
    let waiting: Content = record(&object.to_string()).unwrap();
    let start: Timestamp = "2026-01-02T03:00:00Z".parse().unwrap();
    let mut silent = Silent::default();
    for (minute, told, again) in [
        (0, false, 5),
        (4, false, 1),
        (5, true, 60),
        (6, false, 59),
        (65, true, 60),
        (100, false, 25),
    ] {
        let now = start + Duration::from_secs(minute * MINUTE);
        let silence = silent.look(&of, &waiting, now).unwrap();
        assert_eq!(silence.told.is_some(), told, "{minute}");
        assert_eq!(
            silence.again,
            Duration::from_secs(again * MINUTE),
            "{minute}"
        );
        if let Some(told) = silence.told {
            assert_eq!(told.reason, "SnapshotNotHandled");
            assert!(told.message.contains("snapcontent-U1") && told.message.contains("driver T"));
        }
    }
    let now = start + Duration::from_secs(200 * MINUTE);
    let mark = "snapshot.storage.kubernetes.io/volumesnapshot-being-created";
    object["metadata"]["annotations"] = json!({mark: "yes"});
    let begun: Content = record(&object.to_string()).unwrap();
    assert!(silent.look(&of, &begun, now).is_none());
    assert!(remembered(&silent, &Silent::default(), &[]).is_empty());
    object["metadata"]["annotations"] = json!({});
    object["status"] = json!({"readyToUse": false});
    let answered: Content = record(&object.to_string()).unwrap();
    assert!(silent.look(&of, &answered, now).is_none());
}
