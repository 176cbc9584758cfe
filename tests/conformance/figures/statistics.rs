//! Medians, and when a difference is more than noise.

use super::Contestant;

/// The middle of the values; 0 of none.
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(0.0)
}

/// Standard error of the median, from the median absolute deviation: outliers do not widen it.
fn error_of_median(values: &[f64]) -> f64 {
    let middle = median(values);
    let deviations: Vec<f64> = values.iter().map(|value| (value - middle).abs()).collect();
    let count = u32::try_from(values.len()).unwrap_or(u32::MAX);
    1.253 * 1.4826 * median(&deviations) / f64::from(count.max(1)).sqrt()
}

/// The complaint when ours is more than the best peer and `tolerance` of it on top.
///
/// Judged by the differences within each round, of which the median may be that part of the best
/// peer's value (above `floor`, what the same costs without an init) plus three standard errors.
pub fn judge(
    contestants: &[Contestant],
    rounds: &[Vec<f64>],
    floor: f64,
    tolerance: f64,
    what: &str,
) -> Option<String> {
    let ours = contestants.iter().position(Contestant::is_ours)?;
    let peers = contestants
        .iter()
        .enumerate()
        .filter(|(_, contestant)| contestant.is_peer());
    let (best, best_value) = peers
        .filter_map(|(index, _)| Some((index, median(rounds.get(index)?))))
        .min_by(|(_, left), (_, right)| left.total_cmp(right))?;
    let pairs = rounds.get(ours)?.iter().zip(rounds.get(best)?);
    let differences: Vec<f64> = pairs.map(|(ours, best)| ours - best).collect();
    let allowed = tolerance * (best_value - floor).max(0.0) + 3.0 * error_of_median(&differences);
    let difference = median(&differences);
    let name = contestants.get(best).map_or("?", |contestant| contestant.name);
    (difference > allowed).then(|| {
        format!("{what}: {difference:.1} more than {name} ({best_value:.1}); {allowed:.1} more would be allowed")
    })
}
