//! Journals of earlier programs, word for word: every later version must read them.

use super::*;

/// By a program of November 2026, version 1 of the format.
const FIRST: [(&str, &str); 2] = [
    (
        HEADER,
        r#"{"version":1,"driver":"d","epoch":5,"holder":"1795456489974-6216-d","commit":5,"objects":1}"#,
    ),
    (
        "intent.csi-sidecars.io/ad3800ba-9080-4475-ad08-7cf64e71094b",
        r#"{"prepared":{"blueprint":{"accessModes":["ReadWriteOnce"],"claim":{"name":"six","namespace":"default","resourceVersion":"545","uid":"ad3800ba-9080-4475-ad08-7cf64e71094b"},"class":"try","provisionedBy":"my.driver.example.com","readOnly":false,"reclaimPolicy":"Delete","requested":1048576,"secrets":{},"sourced":false,"topology":false,"volumeMode":"Filesystem"},"classUid":"2d6e1684-7d59-4bc1-a047-2412fe4f69b5","modes":["SINGLE_NODE_MULTI_WRITER"],"name":"pvc-ad3800ba-9080-4475-ad08-7cf64e71094b","parameters":{}}}"#,
    ),
];

#[test]
fn j_8_journals_of_earlier_programs_are_read() {
    let annotations = FIRST.map(|(name, text)| (name.to_owned(), text.to_owned()));
    let mut journal = Journal::new(owner("two"));
    let found = Found {
        uid: "some".into(),
        version: "7".into(),
        annotations: annotations.into(),
        ..Found::default()
    };
    let request = journal.next(false).unwrap();
    let answer = Answer::Found(Some(found));
    journal.answered(&request, answer, start()).unwrap();
    let request = journal.next(false).unwrap();
    let answer = Answer::Written {
        version: "8".into(),
        uid: "some".into(),
    };
    journal.answered(&request, answer, start()).unwrap();
    assert!(journal.is_open());
    assert_eq!(journal.broken(), Vec::<String>::new());
    let adopted = journal.adopted();
    assert_eq!(uids(&adopted), ["ad3800ba-9080-4475-ad08-7cf64e71094b"]);
    let asked = adopted[0].asked.as_ref().unwrap();
    assert_eq!(asked.name, "pvc-ad3800ba-9080-4475-ad08-7cf64e71094b");
    assert_eq!(&*asked.pv_template.claim.name, "six");
    assert_eq!(asked.pv_template.requested, 1 << 20);
    assert_eq!(
        asked.class_uid.to_string(),
        "2d6e1684-7d59-4bc1-a047-2412fe4f69b5"
    );
    assert_eq!(asked.modes.len(), 1);
}
