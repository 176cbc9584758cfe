//! Reading what is shown.

use crate::probe_client::Probes;
use crate::stage::PATIENCE;
use crate::support::wait::wait_until;

/// The value of a series, which is spelled as in the text.
pub fn value(text: &str, series: &str) -> Option<f64> {
    let of = |line: &str| line.strip_prefix(series)?.strip_prefix(' ')?.parse().ok();
    text.lines().find_map(of)
}

/// The names of all families, with their types.
pub fn families(text: &str) -> Vec<(String, String)> {
    let types = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    types
        .map(|line| {
            let (name, of) = line.split_once(' ').unwrap();
            (name.to_owned(), of.to_owned())
        })
        .collect()
}

impl Probes {
    /// Everything that is shown now.
    pub fn scrape(self) -> String {
        let answer = self.get("/metrics");
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.body
    }

    /// Waits until a series has such a value.
    pub fn shows(self, series: &str, is_expected: impl Fn(f64) -> bool) {
        let mut last = String::new();
        let is_shown = wait_until(PATIENCE, || {
            last = self.scrape();
            value(&last, series).is_some_and(&is_expected)
        });
        assert!(is_shown, "{series} in\n{last}");
    }

    /// Waits until a series has this value.
    pub fn counts(self, series: &str, expected: f64) {
        self.shows(series, |value| (value - expected).abs() < 0.5);
    }
}
