//! Checks that every process does its work once there are no faults: nobody notices a process that neither leads nor
//! ends as long as the other one works.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;
use e2e::interrupt;

use crate::audit::{Damage, Finding, finding};
use crate::cast::Cast;
use crate::leases::Leases;
use crate::schedule::Who;

/// A lease that was not released expires after its duration; a terminated process ends within its grace period.
const LIMIT: Duration = Duration::from_secs(40);

/// Terminates all leaders, which must end, and the others must take over; then terminates those.
pub(crate) fn takeover(cast: &mut Cast<'_, '_>, leases: &Leases) -> Result<Vec<Finding>> {
    let mut found = Vec::new();
    let until = Instant::now() + 10 * LIMIT;
    for round in [1, 2] {
        wait(cast, |cast| idle(cast, leases, None).is_empty())?;
        found.extend(
            { idle(cast, leases, None).into_iter() }
                .map(|who| finding(Damage::Hangs, format!("nobody leads for {who}"))),
        );
        let leaders = leaders(cast, leases);
        let sent: Vec<_> = { leaders.iter() }
            .filter_map(|index| Some((*index, cast.send_away(*index, until)?)))
            .collect();
        wait(cast, |cast| {
            sent.iter()
                .all(|(index, pid)| has_ended(cast, *index, *pid))
                && (round == 2 || idle(cast, leases, Some(&leaders)).is_empty())
        })?;
        for (index, pid) in &sent {
            if !has_ended(cast, *index, *pid) {
                let name = cast.replicas.get(*index).map(|it| it.identity.clone());
                let name = name.unwrap_or_default();
                let said = format!("{name} was asked to end");
                found.push(finding(Damage::Hangs, said));
            }
        }
        if round == 1 {
            let idle = idle(cast, leases, Some(&leaders)).into_iter();
            found.extend(
                idle.map(|who| finding(Damage::Hangs, format!("nobody takes over for {who}"))),
            );
        }
    }
    cast.call_back();
    Ok(found)
}

fn has_ended(cast: &Cast<'_, '_>, index: usize, pid: u32) -> bool {
    let replica = cast.replicas.get(index);
    replica.is_none_or(|it| it.pid() != Some(pid))
}

fn leaders(cast: &Cast<'_, '_>, leases: &Leases) -> Vec<usize> {
    let all = Who::ALL.into_iter();
    let mut all: Vec<_> = all
        .filter_map(|of| cast.leader(of, &leases.holder(of)?))
        .collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// The controllers without a leader outside `apart`.
fn idle(cast: &Cast<'_, '_>, leases: &Leases, apart: Option<&[usize]>) -> Vec<&'static str> {
    let leads = |of| {
        let index = leases.holder(of).and_then(|it| cast.leader(of, &it));
        index.is_some_and(|it| apart.is_none_or(|apart| !apart.contains(&it)))
    };
    let all = Who::ALL.into_iter();
    all.filter(|of| !leads(*of))
        .map(|of| of.program())
        .collect()
}

fn wait(cast: &mut Cast<'_, '_>, is: impl Fn(&Cast<'_, '_>) -> bool) -> Result<()> {
    let began = Instant::now();
    while !is(cast) && began.elapsed() < LIMIT {
        interrupt::check()?;
        cast.keep()?;
        thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}
