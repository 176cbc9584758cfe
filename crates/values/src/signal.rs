//! Signals as values: a number with the names that people type and read.
//!
//! Pure, and wider than the usual crates: real-time signals are ordinary members, because an init
//! forwards them too and a child may die of one.

use std::fmt;
use std::str::FromStr;

/// One Linux signal, 1 to 64.
///
/// The numbers are those of the generic Linux ABI (x86_64, aarch64, riscv64 ...); a unit test
/// compares them with libc.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Signal(u8);

/// Highest signal number of the kernel.
const HIGHEST: u8 = 64;

/// First real-time signal as programs see it (`SIGRTMIN` of glibc; 32 and 33 belong to its thread
/// library).
const REAL_TIME_MIN: u8 = 34;

/// The exit status after a death by a signal is this plus its number, as every shell shows it.
const EXIT_STATUS_BASE: u8 = 128;

/// Names of the standard signals; the position is the number.
const NAMES: [&str; 32] = [
    "", "HUP", "INT", "QUIT", "ILL", "TRAP", "ABRT", "BUS", "FPE", "KILL", "USR1", "SEGV", "USR2", "PIPE", "ALRM",
    "TERM", "STKFLT", "CHLD", "CONT", "STOP", "TSTP", "TTIN", "TTOU", "URG", "XCPU", "XFSZ", "VTALRM", "PROF", "WINCH",
    "IO", "PWR", "SYS",
];

/// Other spellings in use, with their number.
const ALIASES: [(&str, u8); 4] = [("POLL", 29), ("IOT", 6), ("CLD", 17), ("UNUSED", 31)];

impl Signal {
    /// Hang-up; many programs reload on it.
    pub const HUP: Self = Self(1);
    /// Interrupt, Ctrl-C.
    pub const INT: Self = Self(2);
    /// Quit, Ctrl-\; `STOPSIGNAL` of several base images.
    pub const QUIT: Self = Self(3);
    /// The one that cannot be caught.
    pub const KILL: Self = Self(9);
    /// Write to a pipe without a reader.
    pub const PIPE: Self = Self(13);
    /// The orchestrator's request to end.
    pub const TERM: Self = Self(15);
    /// A child ended, stopped or continued.
    pub const CHLD: Self = Self(17);
    /// Continue after a stop.
    pub const CONT: Self = Self(18);
    /// Write beyond the largest file size that is allowed.
    pub const XFSZ: Self = Self(25);
    /// The stop that cannot be caught.
    pub const STOP: Self = Self(19);
    /// The terminal's stop, Ctrl-Z; for a worker: quiet.
    pub const TSTP: Self = Self(20);
    /// Reading from the terminal in the background.
    pub const TTIN: Self = Self(21);
    /// Writing to the terminal in the background.
    pub const TTOU: Self = Self(22);
    /// Urgent data on a socket; a process without a handler for it notices nothing.
    pub const URG: Self = Self(23);
    /// The terminal has another size.
    pub const WINCH: Self = Self(28);

    /// The signal with this number, if there is one.
    pub fn from_number(number: i32) -> Option<Self> {
        u8::try_from(number)
            .ok()
            .filter(|n| (1..=HIGHEST).contains(n))
            .map(Self)
    }

    /// The number, 1 to 64.
    pub fn number(self) -> i32 {
        i32::from(self.0)
    }

    /// The status with which a shell shows a death by this signal: 128 and its number.
    pub fn exit_status(self) -> u8 {
        // 128 + 64 is the largest sum.
        EXIT_STATUS_BASE.saturating_add(self.0)
    }

    /// The signal that is shown as this status.
    pub fn of_exit_status(status: u8) -> Option<Self> {
        Self::from_number(i32::from(status.saturating_sub(EXIT_STATUS_BASE)))
    }

    /// Whether a process may block or handle it: all but KILL and STOP.
    pub fn is_catchable(self) -> bool {
        self != Self::KILL && self != Self::STOP
    }
}

impl fmt::Display for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match NAMES.get(usize::from(self.0)) {
            Some(name) => write!(f, "SIG{name}"),
            None if self.0 < REAL_TIME_MIN => write!(f, "signal {}", self.0),
            None if self.0 == REAL_TIME_MIN => f.write_str("SIGRTMIN"),
            None => write!(f, "SIGRTMIN+{}", self.0 - REAL_TIME_MIN),
        }
    }
}

/// A text that names no signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnknownSignal;

impl fmt::Display for UnknownSignal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not a signal; accepted: a name (TERM, SIGTERM, RTMIN+3) or a number from 1 to 64")
    }
}

impl std::error::Error for UnknownSignal {}

impl FromStr for Signal {
    type Err = UnknownSignal;

    /// Accepts `TERM`, `SIGTERM`, `15`, `RTMIN+3`, `RTMAX-1`, in any case.
    fn from_str(text: &str) -> Result<Self, UnknownSignal> {
        // `parse` alone would accept a plus.
        if text.starts_with(|first: char| first.is_ascii_digit()) {
            return text.parse().ok().and_then(Self::from_number).ok_or(UnknownSignal);
        }
        let upper = text.to_ascii_uppercase();
        let name = upper.strip_prefix("SIG").unwrap_or(&upper);
        if name.is_empty() {
            return Err(UnknownSignal);
        }
        if let Some(number) = NAMES.iter().position(|known| *known == name) {
            return i32::try_from(number)
                .ok()
                .and_then(Self::from_number)
                .ok_or(UnknownSignal);
        }
        if let Some((_, number)) = ALIASES.iter().find(|(alias, _)| *alias == name) {
            return Ok(Self(*number));
        }
        real_time(name).ok_or(UnknownSignal)
    }
}

/// `RTMIN`, `RTMIN+N`, `RTMAX`, `RTMAX-N`.
fn real_time(name: &str) -> Option<Signal> {
    let number = if let Some(rest) = name.strip_prefix("RTMIN") {
        i32::from(REAL_TIME_MIN) + offset(rest, '+')?
    } else {
        i32::from(HIGHEST) - offset(name.strip_prefix("RTMAX")?, '-')?
    };
    Signal::from_number(number).filter(|signal| signal.0 >= REAL_TIME_MIN)
}

/// The number after the sign, or 0 if there is none.
fn offset(rest: &str, sign: char) -> Option<i32> {
    if rest.is_empty() {
        return Some(0);
    }
    let digits = rest.strip_prefix(sign)?;
    digits
        .parse::<u8>()
        .ok()
        .filter(|_| digits.bytes().all(|byte| byte.is_ascii_digit()))
        .map(i32::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_signal_is_read_back_from_the_name_it_prints() {
        for number in (1..=64).filter(|n| ![32, 33].contains(n)) {
            let signal = Signal::from_number(number).unwrap();
            assert_eq!(signal.to_string().parse(), Ok(signal));
        }
    }

    #[test]
    fn names_are_read_with_and_without_sig_in_any_case() {
        for text in ["TERM", "SIGTERM", "term", "SigTerm", "15"] {
            assert_eq!(text.parse(), Ok(Signal::TERM), "{text}");
        }
        assert_eq!("RTMAX-1".parse::<Signal>().unwrap().number(), 63);
        assert_eq!("rtmin+3".parse::<Signal>().unwrap().number(), 37);
        assert_eq!("POLL".parse::<Signal>().unwrap().number(), 29);
    }

    #[test]
    fn what_names_no_signal_is_refused() {
        for text in [
            "",
            "SIG",
            "0",
            "65",
            "-1",
            "+15",
            "TERMINATE",
            "RTMIN+31",
            "RTMAX-31",
            "RTMIN+",
            "RTMIN+-1",
            "RTMIN++1",
            "15 ",
        ] {
            assert_eq!(text.parse::<Signal>(), Err(UnknownSignal), "{text:?}");
        }
    }

    #[test]
    fn numbers_agree_with_libc() {
        let expected = [
            (Signal::HUP, libc::SIGHUP),
            (Signal::INT, libc::SIGINT),
            (Signal::QUIT, libc::SIGQUIT),
            (Signal::KILL, libc::SIGKILL),
            (Signal::PIPE, libc::SIGPIPE),
            (Signal::TERM, libc::SIGTERM),
            (Signal::CHLD, libc::SIGCHLD),
            (Signal::CONT, libc::SIGCONT),
            (Signal::STOP, libc::SIGSTOP),
            ("USR1".parse().unwrap(), libc::SIGUSR1),
            ("TSTP".parse().unwrap(), libc::SIGTSTP),
            ("SYS".parse().unwrap(), libc::SIGSYS),
            ("PWR".parse().unwrap(), libc::SIGPWR),
            ("IO".parse().unwrap(), libc::SIGIO),
            ("WINCH".parse().unwrap(), libc::SIGWINCH),
        ];
        for (signal, number) in expected {
            assert_eq!(signal.number(), number, "{signal}");
        }
    }
}
