//! Time along a line: the places of moments, and of the figures.

/// Latest time that can be drawn, in milliseconds: some thirty years. Later times are drawn there.
pub(super) const LATEST: f64 = 1e12;

/// Shortest piece of time that is drawn, in milliseconds.
const SHORTEST: f64 = 1.0;

/// From this length on figures are seconds, in milliseconds.
const SECONDS_FROM: f64 = 2_000.0;

/// Between two figures at least, in columns.
const GAP: usize = 3;

/// A piece of time along a line.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Axis {
    pub from: f64,
    pub to: f64,
}

/// A figure on the axis.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Tick {
    pub ms: f64,
    pub label: String,
}

/// The time, or the nearest to it that can be drawn.
pub(super) fn drawable(ms: f64) -> f64 {
    if ms.is_nan() { 0.0 } else { ms.clamp(-LATEST, LATEST) }
}

/// A later or earlier time, as people read it.
pub(super) fn since(ms: f64) -> String {
    if ms.abs() < 1_000.0 {
        format!("{ms:+.1} ms")
    } else {
        format!("{:+.3} s", ms / 1e3)
    }
}

impl Axis {
    /// An axis from one time to another. If both are equal the axis covers a short time from the
    /// first.
    pub fn new(from: f64, to: f64) -> Self {
        let from = drawable(from);
        Self {
            from,
            to: drawable(to).max(from + SHORTEST),
        }
    }

    /// The length of the axis, in milliseconds.
    pub fn length(&self) -> f64 {
        self.to - self.from
    }

    /// Whether a time is on the axis.
    pub fn contains(&self, ms: f64) -> bool {
        (self.from..=self.to).contains(&ms)
    }

    /// The place of a time, from 0 to 1; a time outside is at the edge.
    pub fn fraction(&self, ms: f64) -> f64 {
        ((drawable(ms) - self.from) / self.length()).clamp(0.0, 1.0)
    }

    /// The column of a time, of this many columns.
    pub fn column(&self, ms: f64, columns: usize) -> usize {
        // Truncated on purpose: a column reaches from its left edge to the next.
        let column = (self.fraction(ms) * columns as f64) as usize;
        column.min(columns.saturating_sub(1))
    }

    fn is_in_seconds(&self) -> bool {
        self.length() >= SECONDS_FROM
    }

    /// The unit of the figures.
    pub fn unit(&self) -> &'static str {
        if self.is_in_seconds() { "s" } else { "ms" }
    }

    /// A time as people read it, to the tenth of a millisecond.
    pub fn time(&self, ms: f64) -> String {
        if self.is_in_seconds() {
            format!("{:.4} s", ms / 1e3)
        } else {
            format!("{ms:.1} ms")
        }
    }

    /// The figures for this many columns: round ones, as many as fit.
    pub fn ticks(&self, columns: usize) -> Vec<Tick> {
        let (scale, shift) = if self.is_in_seconds() { (1e3, 3) } else { (1.0, 0) };
        // From a thousandth of a millisecond on.
        for exponent in -3_i32..=13 {
            let decimals = usize::try_from(shift - exponent).unwrap_or_default();
            let label = |ms: f64| format!("{:.decimals$}", ms / scale);
            let widest = label(self.from).len().max(label(self.to).len()) + GAP;
            for digit in [1.0, 2.0, 5.0] {
                let step = digit * 10_f64.powi(exponent);
                if step / self.length() * columns as f64 >= widest as f64 {
                    let first = (self.from / step).ceil();
                    let ticks = (0..columns).map(|index| (first + index as f64) * step);
                    return ticks
                        .take_while(|ms| *ms <= self.to)
                        .map(|ms| Tick { ms, label: label(ms) })
                        .collect();
                }
            }
        }
        Vec::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(from: f64, to: f64, columns: usize) -> Vec<String> {
        let ticks = Axis::new(from, to).ticks(columns);
        ticks.into_iter().map(|tick| tick.label).collect()
    }

    #[test]
    fn figures_are_round_and_have_the_decimals_that_they_need() {
        assert_eq!(labels(0.0, 100.0, 40), ["0", "20", "40", "60", "80", "100"]);
        assert_eq!(labels(1.0, 2.0, 40), ["1.0", "1.2", "1.4", "1.6", "1.8", "2.0"]);
        assert_eq!(labels(950.0, 4_950.0, 40), ["1", "2", "3", "4"]);
        assert_eq!(
            labels(11_900.0, 14_100.0, 24),
            ["12.0", "13.0", "14.0"].map(|label| &label[..2])
        );
    }

    #[test]
    fn long_times_are_in_seconds_and_short_ones_in_milliseconds() {
        assert_eq!(Axis::new(0.0, 1_999.0).unit(), "ms");
        assert_eq!(Axis::new(0.0, 2_000.0).unit(), "s");
        assert_eq!(Axis::new(0.0, 9.0).time(8.25), "8.2 ms");
        assert_eq!(Axis::new(0.0, 9_000.0).time(8_250.5), "8.2505 s");
    }

    #[test]
    fn a_time_stands_in_its_column_and_what_is_outside_at_the_edge() {
        let axis = Axis::new(100.0, 200.0);
        let column = |ms| axis.column(ms, 10);
        assert_eq!([100.0, 109.9, 110.0, 200.0, 0.0, 1e30].map(column), [0, 0, 1, 9, 0, 9]);
    }

    #[test]
    fn no_time_at_all_and_a_time_that_is_no_number_can_be_drawn() {
        for (from, to) in [(5.0, 5.0), (5.0, -5.0), (f64::NAN, f64::INFINITY), (1e300, 1e301)] {
            let axis = Axis::new(from, to);
            assert!(axis.length() >= SHORTEST, "{axis:?}");
            assert!(axis.ticks(80).len() <= 80 / GAP, "{axis:?}");
            assert!(axis.fraction(f64::NAN).is_finite());
        }
    }
}
