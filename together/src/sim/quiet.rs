//! The end of a story: the rolling update completes, and all faults stop.

use std::time::Duration;

use super::story::Story;

/// How a rolling update ends.
#[derive(Clone, Copy, Debug)]
enum End {
    /// Both processes of several controllers stay.
    Together,
    /// One set of single sidecars stays.
    Separate,
    /// One process of several controllers stays, and one forgotten single sidecar.
    Leftover(usize),
}

/// Longer than any lease lasts: one edited by hand, five times the usual duration, and then each of the
/// others after the head.
const PATIENCE: Duration = Duration::from_secs(400);

/// The state must then last this long.
const LASTING: Duration = Duration::from_secs(30);

/// Lets everything come to rest, and checks the final state.
pub(super) fn rest(story: &mut Story) -> Result<(), String> {
    let end = match story.dice.below(4) {
        0 => End::Separate,
        1 => End::Leftover(story.dice.below(story.controllers)),
        _ => End::Together,
    };
    for (of, write) in std::mem::take(&mut story.server.late) {
        story.server.write(of, &write);
    }
    for who in 0..story.replicas.len() {
        if stays(end, who) {
            story.begin(who);
        } else if story.dice.one_in(2) {
            story.kill(who);
        }
        if let Some(replica) = &mut story.replicas[who] {
            replica.frozen = false;
            replica.go_on();
            if !stays(end, who) {
                replica.end();
            }
        }
    }
    let mut passed = Duration::ZERO;
    let mut rested = Duration::ZERO;
    while rested < LASTING {
        // A process that ended in good order restarts if it should stay.
        for who in 0..story.replicas.len() {
            if stays(end, who) {
                story.begin(who);
            }
        }
        story.settle()?;
        let tick = Duration::from_millis(700);
        story.pass(tick);
        passed += tick;
        match look(story, end) {
            Ok(()) => rested += tick,
            Err(idle) if passed > PATIENCE => return Err(idle),
            Err(_) => rested = Duration::ZERO,
        }
    }
    Ok(())
}

/// The processes of several controllers come first, then pairs of single sidecars: one in the same pod,
/// one in its own.
fn stays(end: End, who: usize) -> bool {
    match (end, who) {
        (End::Together, who) => who < 2,
        (End::Separate, who) => who >= 2 && who % 2 == 1,
        (End::Leftover(of), who) => who == 0 || who == 2 + 2 * of,
    }
}

fn look(story: &Story, end: End) -> Result<(), String> {
    let acting: Vec<_> = (0..story.controllers).map(|of| story.acting(of)).collect();
    let holders: Vec<_> = (0..story.controllers)
        .map(|of| story.server.holder(of))
        .collect();
    let at_rest = match end {
        End::Leftover(left) => {
            let single = 2 + 2 * left;
            let leads = acting[left] == [single];
            let mut each = acting.iter().enumerate();
            each.all(|(of, who)| match (of == left, left) {
                (true, _) => leads || *who == [0],
                // Without the head, the process requests no other lease.
                (false, 0) if leads => who.is_empty(),
                (false, _) => *who == [0],
            })
        }
        End::Separate => acting.iter().all(|who| who.len() == 1),
        End::Together if story.have_one_head() => {
            acting[0].len() == 1 && acting.iter().all(|who| *who == acting[0])
        }
        // Each takes the leases that the other one does not hold.
        End::Together => acting.iter().all(|who| who.len() == 1),
    };
    if at_rest {
        return Ok(());
    }
    Err(format!("{end:?}: at work {acting:?}, holders {holders:?}"))
}
