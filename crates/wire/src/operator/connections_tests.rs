use super::*;

const SCREEN: Screen = Screen {
    width: 80,
    height: 24,
    has_colour: false,
};

fn connection(connection: u64, jobs: u64, state: &str) -> ConnectionReport {
    ConnectionReport {
        connection,
        pid: u32::try_from(connection + 100).ok(),
        jobs,
        concurrency: Some(10),
        state: state.to_owned(),
    }
}

fn of(connections: Vec<ConnectionReport>, connections_not_shown: u64) -> StatusReply {
    StatusReply {
        connections,
        connections_not_shown,
        ..StatusReply::default()
    }
}

/// This many connections, the one with the most jobs first, which has the highest number.
fn many(number: u64) -> Vec<ConnectionReport> {
    (1..=number).rev().map(|jobs| connection(jobs, jobs, "ready")).collect()
}

#[test]
fn a_single_connection_has_no_table() {
    assert_eq!(table(&of(vec![connection(1, 3, "ready")], 0), &SCREEN, 10), [""; 0]);
    assert_eq!(table(&of(Vec::new(), 0), &SCREEN, 10), [""; 0]);
    assert_eq!(table(&of(vec![connection(1, 0, "not ready")], 0), &SCREEN, 10), [""; 0]);
    // Of these two, the answer left out one.
    let lines = table(&of(vec![connection(1, 3, "ready")], 1), &SCREEN, 10);
    let expected = [
        "",
        "CONN      PID        JOBS  STATE",
        "   1      101     3 of 10  ready",
        "... and 1 more",
    ];
    assert_eq!(lines, expected);
}

#[test]
fn a_single_connection_that_is_held_up_has_a_table() {
    let expected = [
        "",
        "CONN      PID        JOBS  STATE",
        "   1      101     1 of 10  alone",
    ];
    assert_eq!(table(&of(vec![connection(1, 1, "alone")], 0), &SCREEN, 10), expected);
}

#[test]
fn connections_stand_in_the_order_of_their_numbers_whatever_they_hold() {
    let mut unknown = connection(7, 3, "paused");
    (unknown.pid, unknown.concurrency) = (None, None);
    let connections = vec![connection(31, 9, "ready"), unknown, connection(12, 0, "given up")];
    let narrow = Screen { width: 50, ..SCREEN };
    let expected = [
        "",
        "CONN      PID        JOBS  STATE",
        "   7  unknown           3  paused",
        "  12      112     0 of 10  given up",
        "  31      131     9 of 10  ready",
    ];
    assert_eq!(table(&of(connections.clone(), 0), &narrow, 10), expected);
    let expected = [
        "",
        "CONN      PID        JOBS  STATE        CONN      PID        JOBS  STATE",
        "   7  unknown           3  paused         31      131     9 of 10  ready",
        "  12      112     0 of 10  given up",
    ];
    assert_eq!(table(&of(connections, 0), &SCREEN, 10), expected);
}

#[test]
fn if_not_all_fit_those_with_the_most_jobs_are_shown_and_the_others_counted() {
    let expected = [
        "",
        "CONN      PID        JOBS  STATE        CONN      PID        JOBS  STATE",
        "  29      129    29 of 10  ready          30      130    30 of 10  ready",
        "... and 35 more",
    ];
    assert_eq!(table(&of(many(30), 7), &SCREEN, 4), expected);
}

#[test]
fn the_table_has_no_more_lines_than_there_is_room_and_counts_what_it_leaves_out() {
    for (number, not_shown) in [(2, 0), (3, 1), (8, 0), (9, 0), (100, 0), (100, 900)] {
        for room in 0..70 {
            for width in [0, 20, 76, 80, 116, 200] {
                let lines = table(&of(many(number), not_shown), &Screen { width, ..SCREEN }, room);
                assert!(lines.len() <= room, "{lines:#?}");
                let shown: usize = lines.iter().map(|line| line.matches("ready").count()).sum();
                let left_out = number + not_shown - count(shown);
                if width >= 76 && !lines.is_empty() && left_out > 0 {
                    assert_eq!(lines.last(), Some(&format!("... and {left_out} more")));
                }
            }
        }
    }
}
