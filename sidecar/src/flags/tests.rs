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
