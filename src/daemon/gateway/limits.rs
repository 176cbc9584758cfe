//! How many may be here: connections, and processes that are held on to.

use mio::net::TcpStream;

/// Connections above which an answer announces that its connection closes behind it.
const MANY_CONNECTIONS: usize = 1024;

/// How many more there may be: the next ones wait in the socket's queue.
const MORE_CONNECTIONS: usize = 128;

/// Connections that may be there in any case, however few descriptors there are.
const MIN_CONNECTIONS: usize = 16;

/// Descriptors that are not for connections and their processes: the backend's, the health
/// endpoints, the control socket, the log, the inherited ones.
const OTHER_DESCRIPTORS: usize = 512;

/// Most processes that are held on to, each with a descriptor.
const MOST_PROCESSES: usize = 4096;

/// Connections accepted in one turn, because existing ones need their turn.
pub(super) const ACCEPTS_PER_TURN: usize = 64;

/// Bounds of the resources that the gateway's clients may use.
#[derive(Debug)]
pub(super) struct ConnectionLimits {
    /// Connections above which an answer announces that its connection closes behind it.
    pub(super) many: usize,
    /// Connections that there may be at all.
    pub(super) most: usize,
    /// Processes that are held on to.
    pub(super) processes: usize,
    /// Processes beyond that bound came, and the log has a warning.
    pub(super) has_warned: bool,
}

impl ConnectionLimits {
    /// The bounds for so many descriptors. Each connection may use two: its own and its process's.
    pub(super) fn of(open_files: usize) -> Self {
        let connections = open_files.saturating_sub(OTHER_DESCRIPTORS + MORE_CONNECTIONS) / 2;
        let many = connections.clamp(MIN_CONNECTIONS, MANY_CONNECTIONS);
        // With few descriptors, some must stay free for the backend and for looks into `/proc`.
        Self {
            many,
            most: many + MORE_CONNECTIONS.min(open_files / 8),
            processes: (open_files / 2).min(MOST_PROCESSES),
            has_warned: false,
        }
    }
}

/// A connection whose process is searched for.
#[derive(Debug)]
pub(super) struct Arrival {
    pub(super) inode: u64,
    pub(super) stream: TcpStream,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_limit_of_open_files_leaves_descriptors_for_connections_and_a_large_one_takes_no_more_than_its_bounds() {
        let limits = |open_files| {
            let ConnectionLimits {
                many, most, processes, ..
            } = ConnectionLimits::of(open_files);
            [many, most, processes]
        };
        assert_eq!(limits(256), [16, 48, 128]);
        assert_eq!(limits(1024), [192, 320, 512]);
        assert_eq!(limits(1 << 20), [1024, 1152, 4096]);
    }
}
