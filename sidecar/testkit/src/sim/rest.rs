//! How a run comes to its end.

/// More steps than any work needs that comes to an end.
const MOST: usize = 4_000;

/// Works until there is nothing to do without time going on.
///
/// # Errors
/// The work does not end.
pub fn drain<W>(
    world: &mut W,
    mut is_idle: impl FnMut(&mut W) -> bool,
    mut work: impl FnMut(&mut W),
) -> Result<(), String> {
    for _ in 0..MOST {
        if is_idle(world) {
            return Ok(());
        }
        work(world);
    }
    Err("the work does not end".into())
}
