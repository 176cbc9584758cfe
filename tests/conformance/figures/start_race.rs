//! SIGTERM as soon as the image of the init is visible: the kernel drops it until process 1 has
//! blocked it.

use super::{Contestant, Figure};
use crate::case::{Trouble, fail};
use crate::cases::image_is_visible;
use crate::support::sys::Ended;

/// Tries for each contestant.
const TRIES: usize = 300;

/// How many of the signals each contestant lost.
///
/// Nothing that an init does can save a signal that arrives before its first instruction, so the
/// losses are compared. They are counts of rare events: ours may be above the best peer's by two
/// standard errors of the difference.
pub fn measure(contestants: &[Contestant]) -> Result<Figure, Trouble> {
    let mut losses = vec![0u32; contestants.len()];
    for _ in 0..TRIES {
        for (contestant, losses) in contestants
            .iter()
            .zip(&mut losses)
            .filter(|(one, _)| one.kind.is_some())
        {
            let mut init = contestant.launch()?.command(&["sleep", "0.03"]).start()?;
            image_is_visible(&init, &contestant.ctx)?;
            init.signal(libc::SIGTERM)?;
            match init.wait()? {
                Ended::Code(143) => {}
                Ended::Code(0) => *losses += 1,
                other @ (Ended::Code(_) | Ended::Signal(_)) => {
                    return fail(format!("{} ends with {other:?}", contestant.name));
                }
            }
        }
    }
    let of = |wanted: fn(&Contestant) -> bool| {
        let found = contestants
            .iter()
            .zip(&losses)
            .filter(move |(contestant, _)| wanted(contestant));
        found.map(|(_, losses)| f64::from(*losses)).min_by(f64::total_cmp)
    };
    let (ours, best) = (
        of(Contestant::is_ours).unwrap_or(0.0),
        of(Contestant::is_peer).unwrap_or(0.0),
    );
    let allowed = best + 2.0 * (best + ours + 1.0).sqrt();
    Ok(Figure {
        what: "SIGTERMs lost of 300, sent when the image is visible",
        values: contestants
            .iter()
            .zip(&losses)
            .map(|(one, losses)| one.kind.map(|_| f64::from(*losses)))
            .collect(),
        complaint: (ours > allowed).then(|| format!("{ours} SIGTERMs lost at start; {allowed:.1} would be allowed")),
    })
}
