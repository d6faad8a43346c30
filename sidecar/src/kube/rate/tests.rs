use super::*;

#[test]
fn two_numbers_mean_what_they_mean_to_client_go() {
    let fixed = |qps, burst, per_group| {
        Ok(Rate::Fixed {
            qps,
            burst,
            per_group,
        })
    };
    for (qps, burst, want) in [
        (1.0, 1, fixed(1.0, 1, false)),
        (0.2, 100, fixed(0.2, 100, false)),
        (0.0, 0, fixed(5.0, 10, true)),
        (0.0, 20, fixed(5.0, 20, true)),
        (0.0, -1, fixed(5.0, 10, true)),
        (-1.0, 0, Ok(Rate::Unlimited)),
        (f64::NAN, 1, Ok(Rate::Unlimited)),
        (f64::INFINITY, 1, Ok(Rate::Unlimited)),
        (5.0, 0, Err(RateError { burst: 0 })),
        (5.0, -3, Err(RateError { burst: -3 })),
        (1.0, i64::MAX, fixed(1.0, u32::MAX, false)),
    ] {
        assert_eq!(Rate::new(qps, burst), want, "{qps} {burst}");
    }
}

#[test]
fn flags_that_were_not_given_leave_the_rate_to_the_server() {
    use crate::flags::{Dialect, Spec, parse, retired, standard};
    static SPEC: Spec = Spec {
        dialect: Dialect::Go,
        tables: &[standard::KUBE_API],
        retired: &retired::NONE,
    };
    let rate = |argument: &[&str]| {
        let argv = ["prog"].iter().chain(argument).copied();
        Rate::from_flags(&parse(&SPEC, argv).unwrap())
    };
    let fixed = |qps, burst| {
        Ok(Rate::Fixed {
            qps,
            burst,
            per_group: false,
        })
    };
    assert_eq!(rate(&[]), Ok(Rate::Adaptive));
    assert_eq!(rate(&["--kube-api-qps=5"]), fixed(5.0, 10));
    assert_eq!(rate(&["--kube-api-burst=3"]), fixed(5.0, 3));
    assert_eq!(
        rate(&["--kube-api-qps=1", "--kube-api-burst=1"]),
        fixed(1.0, 1)
    );
    assert_eq!(rate(&["--kube-api-qps=-1"]), Ok(Rate::Unlimited));
    let refused = rate(&["--kube-api-qps=2", "--kube-api-burst=0"]).unwrap_err();
    assert!(
        refused
            .to_string()
            .contains("burst is required to be greater than 0")
    );
}
