//! Row A-57: each path in each state.

use super::*;

fn text(status: u16, body: &str) -> Reply {
    Reply::text(StatusCode::from_u16(status).unwrap(), body)
}

const HANGS: &str = "failed election to renew leadership on lease ns/a";

#[track_caller]
fn must_be(state: &str, reply: &Reply, status: u16, body: &str) {
    assert_eq!(
        (reply.status.as_u16(), &*reply.body),
        (status, body),
        "{state}"
    );
    assert_eq!(reply.content_type, "text/plain; charset=utf-8", "{state}");
}

#[test]
fn a_57_health_is_the_drivers_then_the_registration_sockets() {
    let not_ready = "driver responded but is not ready";
    let gone = "registration socket does not exist";
    for (state, driver, registration, status, body) in [
        ("healthy driver", Some(text(200, "ok")), None, 200, "ok"),
        (
            "sick driver",
            Some(text(500, not_ready)),
            None,
            500,
            not_ready,
        ),
        (
            "sick driver, registered",
            Some(text(500, not_ready)),
            Some(text(200, "ok")),
            500,
            not_ready,
        ),
        (
            "healthy driver, no socket",
            Some(text(200, "ok")),
            Some(text(404, gone)),
            200,
            "ok",
        ),
        ("registrar alone", None, Some(text(200, "ok")), 200, "ok"),
        (
            "registrar alone, no socket",
            None,
            Some(text(404, gone)),
            404,
            gone,
        ),
        ("controllers alone", None, None, 404, "404 page not found\n"),
    ] {
        must_be(state, &health(driver, registration), status, body);
    }
}

#[test]
fn a_57_leader_election_names_the_lease_that_hangs() {
    let hangs = format!("internal server error: {HANGS}");
    must_be("all renewed", &leader_election(None), 200, "ok");
    let reply = leader_election(Some(HANGS.to_owned()));
    must_be("one hangs", &reply, 500, &hangs);
}

#[test]
fn a_57_live_is_the_process_not_the_driver() {
    let overdue = format!("internal server error: {HANGS}");
    let foreign = "invalid driver name other";
    for (state, hangs, registration, status, body) in [
        ("at the start", None, None, 200, "ok"),
        ("hangs", Some(HANGS), None, 500, &*overdue),
        ("registered", None, Some(text(200, "ok")), 200, "ok"),
        (
            "socket of another",
            None,
            Some(text(500, foreign)),
            500,
            foreign,
        ),
        ("socket gone", None, Some(text(404, "gone")), 500, "gone"),
        (
            "hangs, socket gone",
            Some(HANGS),
            Some(text(404, "gone")),
            500,
            &overdue,
        ),
    ] {
        let reply = live(hangs.map(str::to_owned), registration);
        must_be(state, &reply, status, body);
    }
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn a_57_ready_names_every_reason_on_a_line_of_its_own() {
    let ready = Readiness {
        is_named: true,
        ..Readiness::default()
    };
    let missing = [Missing {
        rule: "list persistentvolumes",
        controllers: &["attacher", "resizer"],
    }];
    let off = [Off {
        controller: "attacher",
        reason: "it failed five times within ten minutes",
    }];
    let unregistered = "not registered: kubelet has not asked yet";
    let not_named = "the driver's name is not known yet\n";
    let is_idle = "not requesting a lease: waiting for the driver\n";
    let not_allowed = "attacher, resizer: not allowed to list persistentvolumes\n";
    let is_off = "attacher is off: it failed five times within ten minutes\n";
    let not_registered = "not registered: kubelet has not asked yet\n";
    let not_accepted = "certificate expired; renew it\n";
    let refused = ["the lease ns/a cannot be asked for: 403".to_owned()];
    let journal = "provisioner: the journal cannot be opened: exceeded quota";
    for (state, readiness, status, body) in [
        ("standby, or at work", ready, 200, "ok".to_owned()),
        (
            "no API server before somebody mends it",
            Readiness {
                unreachable: Some("certificate expired; renew it"),
                ..ready
            },
            503,
            not_accepted.to_owned(),
        ),
        (
            "a lease that it may not ask for",
            Readiness {
                refused: &refused,
                ..ready
            },
            503,
            format!("{}\n", refused[0]),
        ),
        (
            "a controller that cannot do some of its work",
            Readiness {
                hindered: Some(journal),
                ..ready
            },
            503,
            format!("{journal}\n"),
        ),
        (
            "no driver yet",
            Readiness::default(),
            503,
            not_named.to_owned(),
        ),
        (
            "a permission",
            Readiness {
                missing: &missing,
                ..ready
            },
            503,
            not_allowed.to_owned(),
        ),
        (
            "a controller off",
            Readiness { off: &off, ..ready },
            503,
            is_off.to_owned(),
        ),
        (
            "not registered",
            Readiness {
                unregistered: Some(unregistered),
                ..ready
            },
            503,
            not_registered.to_owned(),
        ),
        (
            "ending",
            Readiness {
                is_ending: true,
                ..ready
            },
            503,
            "shutting down\n".to_owned(),
        ),
        (
            "between two campaigns",
            Readiness {
                is_idle: true,
                ..ready
            },
            503,
            is_idle.to_owned(),
        ),
        (
            "everything",
            Readiness {
                is_named: false,
                is_idle: true,
                missing: &missing,
                off: &off,
                unregistered: Some(unregistered),
                unreachable: Some("certificate expired; renew it"),
                refused: &refused,
                hindered: Some(journal),
                is_ending: true,
            },
            503,
            format!(
                "shutting down\n{not_named}{is_idle}{not_allowed}{is_off}{not_registered}{not_accepted}{}\n{journal}\n",
                refused[0]
            ),
        ),
    ] {
        must_be(state, &super::ready(&readiness), status, &body);
    }
}
