//! Small tables for people.

/// Widest column, in characters; longer text is cut.
const MAX_WIDTH: usize = 60;

/// Lines with the columns under each other, the first row being the heading.
pub(super) fn lines(rows: &[Vec<String>]) -> Vec<String> {
    let cut = |cell: &String| {
        cell.chars()
            .map(|c| if c.is_control() { ' ' } else { c })
            .take(MAX_WIDTH)
            .collect::<String>()
    };
    let rows: Vec<Vec<String>> = rows.iter().map(|row| row.iter().map(cut).collect()).collect();
    let columns = rows.iter().map(Vec::len).max().unwrap_or_default();
    let width = |column: usize| {
        rows.iter()
            .filter_map(|row| row.get(column))
            .map(|cell| cell.chars().count())
            .max()
    };
    let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or_default()).collect();
    let line = |row: &Vec<String>| {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    rows.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_under_each_other_and_nothing_in_them_moves_the_cursor() {
        let row = |cells: [&str; 2]| cells.map(str::to_owned).to_vec();
        assert_eq!(
            lines(&[row(["a", "b"]), row(["long", "x\u{1b}[2Jy"])]),
            ["a     b", "long  x [2Jy"]
        );
    }
}
