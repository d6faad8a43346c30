use super::*;

static FLAGS: &[Flag] = &[Flag::new("timeout", Kind::Duration, "15s", "Timeout.")];
static SPEC: Spec = Spec {
    dialect: Dialect::Go,
    tables: &[FLAGS, standard::LOGGING],
};

#[test]
fn row_72_durations() {
    let values = parse(&SPEC, ["prog", "--timeout=1m30s"]).unwrap();
    assert_eq!(values.duration("timeout").to_string(), "1m30s");
    assert_eq!(parse(&SPEC, ["prog", "--timeout=15"]).unwrap_err().code, 2);
}

#[test]
fn repeated_texts_add_up() {
    static TEXTS: &[Flag] = &[Flag::new("capacity", Kind::Strings, "", "Capacity.")];
    static WITH_TEXTS: Spec = Spec {
        dialect: Dialect::Go,
        tables: &[TEXTS],
    };
    let values = parse(&WITH_TEXTS, ["p", "--capacity=a=1", "-capacity", "b=2"]).unwrap();
    assert_eq!(values.strings("capacity"), ["a=1", "b=2"]);
    let none = parse(&WITH_TEXTS, ["p"]).unwrap();
    assert!(none.strings("capacity").is_empty());
}
