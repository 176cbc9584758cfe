//! The connections of a report as a person reads them: a table, folded into as many columns as the
//! screen is wide enough for.

use ojs_values::small;

use crate::operator::line::{Line, Screen, Style, WIDEST, columns_of, fit};
use crate::operator::status_reply::{ConnectionReport, StatusReply};
use crate::text::count;

/// Columns of a connection's number, of its pid, of its jobs and of its state.
const NUMBER: usize = 4;
const PID: usize = 7;
const JOBS: usize = 10;
const STATE: usize = 9;

/// Columns between two of a cell, and between two cells.
const GAP: usize = 2;
const BETWEEN: usize = 4;

/// Columns of a cell.
const CELL: usize = NUMBER + PID + JOBS + STATE + 3 * GAP;

/// Lines above the first connection: an empty one and the heading.
const ABOVE: usize = 2;

/// The table below an empty line, at most `room` lines in all. A single connection gets no table if
/// the worker's line shows enough about it. If not all connections fit, the table has those with
/// the most jobs. Rows are ordered by number, so that each connection keeps its place while
/// `--watch` redraws the table.
pub(super) fn table(report: &StatusReply, screen: &Screen, room: usize) -> Vec<String> {
    let total = report
        .connections_not_shown
        .saturating_add(count(report.connections.len()));
    let most = room.saturating_sub(ABOVE);
    let is_told_elsewhere = |connection: &ConnectionReport| total < 2 && !is_held_up(connection);
    if report.connections.iter().all(is_told_elsewhere) || most == 0 {
        return Vec::new();
    }
    let across = (screen.width.min(WIDEST) + BETWEEN) / (CELL + BETWEEN);
    let across = across.clamp(1, report.connections.len());
    let all = most.saturating_mul(across);
    let shown = if report.connections_not_shown == 0 && total <= count(all) {
        all
    } else {
        // The last line shows how many more there are.
        (most - 1).saturating_mul(across)
    };
    let mut shown: Vec<&ConnectionReport> = report.connections.iter().take(shown).collect();
    small::sort_by(&mut shown, |one, other| one.connection < other.connection);
    let mut lines = Vec::new();
    if shown.is_empty() {
        return lines;
    }
    let rows = shown.len().div_ceil(across);
    lines.push(String::new());
    lines.push(heading(shown.len().div_ceil(rows), screen));
    for row in 0..rows {
        let cells: Vec<_> = shown.iter().skip(row).step_by(rows).collect();
        let mut line = Line::new(screen);
        for (column, connection) in cells.iter().enumerate() {
            put_cell(&mut line, connection, column + 1 == cells.len());
        }
        lines.push(line.text);
    }
    let more = total.saturating_sub(count(shown.len()));
    if more > 0 {
        let mut line = Line::new(screen);
        line.put(Style::Dim, &format!("... and {more} more"));
        lines.push(line.text);
    }
    lines
}

/// Whether the connection gets no jobs for a reason that the count of ready connections does not
/// show.
fn is_held_up(connection: &ConnectionReport) -> bool {
    !matches!(connection.state.as_str(), "ready" | "asking" | "not ready")
}

fn heading(across: usize, screen: &Screen) -> String {
    let words = format!(
        "{:>NUMBER$}  {:>PID$}  {:>JOBS$}  {:STATE$}",
        "CONN", "PID", "JOBS", "STATE"
    );
    let between = " ".repeat(BETWEEN);
    let mut line = Line::new(screen);
    line.put(Style::Dim, vec![words; across].join(&between).trim_end());
    line.text
}

fn put_cell(line: &mut Line, connection: &ConnectionReport, is_last: bool) {
    let pid = connection
        .pid
        .map_or_else(|| "unknown".to_owned(), |pid| pid.to_string());
    let jobs = match connection.concurrency {
        Some(most) => format!("{} of {most}", connection.jobs),
        None => connection.jobs.to_string(),
    };
    let style = match connection.state.as_str() {
        "ready" | "asking" => Style::Plain,
        "given up" | "closed" => Style::Bad,
        _ => Style::Warning,
    };
    let number = connection.connection;
    line.put(
        Style::Plain,
        &format!("{number:>NUMBER$}  {pid:>PID$}  {jobs:>JOBS$}  "),
    );
    let state = fit(&connection.state, STATE);
    let state = state.trim_end();
    line.put(style, state);
    if !is_last {
        let used: usize = state.chars().map(columns_of).sum();
        line.put(Style::Plain, &" ".repeat(STATE.saturating_sub(used) + BETWEEN));
    }
}

#[cfg(test)]
#[path = "connections_tests.rs"]
mod tests;
