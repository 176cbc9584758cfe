//! Words and numbers for people and programs, and text that others wrote and that people read on a
//! terminal.

use std::fmt::{Display, Write};
use std::time::Duration;

use ojs_lifecycle::api::Reason;

/// True if a terminal acts on the character, or the character changes how its neighbours are shown.
/// These are control characters, line and paragraph separators and direction marks. Characters
/// without a column count too, except marks on the letter before them. With one of them a job's id
/// or a client's name could make a line look like another one.
pub fn is_terminal_control(character: char) -> bool {
    character.is_control()
        || matches!(character,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{feff}'
            | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
            | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}')
}

/// Adds it as the escape that JSON has for it: `\u202e`, and two of them beyond the first 65,536
/// characters.
pub fn escape(to: &mut String, character: char) {
    for unit in character.encode_utf16(&mut [0; 2]) {
        // A text never fails to be written to.
        let _ = write!(to, "\\u{unit:04x}");
    }
}

/// For a person: seconds to the millisecond, without zeros at the end.
pub fn seconds(duration: Duration) -> String {
    let rounded = duration.saturating_add(Duration::from_micros(500));
    let text = format!("{}.{:03}", rounded.as_secs(), rounded.subsec_millis());
    format!("{} s", text.trim_end_matches('0').trim_end_matches('.'))
}

/// For a person, in the two largest units: `12.3 s`, `3 min 20 s`, `9 days 4 h`. Ten days and more
/// are days alone.
pub fn roughly(duration: Duration) -> String {
    let seconds = duration.as_secs();
    let (minutes, hours) = (seconds / 60, seconds / 60 / 60);
    let (first, second) = match (minutes, hours) {
        (0, _) => return tenths(duration),
        (_, 0) => ((minutes, "min"), (seconds % 60, "s")),
        (_, 1..48) => ((hours, "h"), (minutes % 60, "min")),
        (_, 48..240) => ((hours / 24, "days"), (hours % 24, "h")),
        _ => ((hours / 24, "days"), (0, "h")),
    };
    let spelled = |(count, unit)| format!("{count} {unit}");
    match second {
        (0, _) => spelled(first),
        second => format!("{} {}", spelled(first), spelled(second)),
    }
}

/// For a person: to a tenth of a second.
pub fn tenths(duration: Duration) -> String {
    format!("{} s", (duration.as_secs_f64() * 10.0).round() / 10.0)
}

/// For a program: whole milliseconds.
pub fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// `1 job`, `2 jobs`.
pub fn several(count: impl Display, what: &str) -> String {
    let count = count.to_string();
    let plural = if count == "1" { "" } else { "s" };
    format!("{count} {what}{plural}")
}

/// `no job active`, `2 jobs active`.
pub fn active_jobs(count: u64) -> String {
    match count {
        0 => "no job active".to_owned(),
        count => format!("{} active", several(count, "job")),
    }
}

/// A name of at most `most` characters.
pub fn shortened(name: &str, most: usize) -> String {
    without_middle(name, most, |_| 1)
}

/// A name that is at most `most` wide. If it is wider its middle is left out, because names often
/// differ at the end. If the gap does not fit, only the beginning is left.
pub fn without_middle(name: &str, most: usize, width: impl Fn(char) -> usize) -> String {
    const GAP: &str = "...";
    let taken = |characters: &mut dyn Iterator<Item = char>, room: usize| -> String {
        let mut used = 0;
        let fits = |character: &char| {
            used += width(*character);
            used <= room
        };
        characters.take_while(fits).collect()
    };
    if taken(&mut name.chars(), most).len() == name.len() {
        return name.to_owned();
    }
    let room = most.saturating_sub(GAP.len());
    if room == 0 {
        return taken(&mut name.chars(), most);
    }
    let head = taken(&mut name.chars(), room - room / 2);
    let tail = taken(&mut name.chars().rev(), room / 2);
    head + GAP + &tail.chars().rev().collect::<String>()
}

/// A number of things, as the wire has it.
pub fn count(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

/// The cause of a change of state, for a person.
pub fn asked_by(reason: Reason) -> &'static str {
    match reason {
        Reason::Sigterm => "SIGTERM",
        Reason::Sigint => "SIGINT",
        Reason::Sigquit => "SIGQUIT",
        Reason::Sigtstp => "SIGTSTP",
        Reason::Sigcont => "SIGCONT",
        Reason::Server => "asked by the backend",
        Reason::Control => "asked by the operator",
        Reason::Prestop => "a preStop hook",
        Reason::Idle(_) => "no job for worker.exit_when_idle",
        Reason::OnceDone => "the one job of --once is done",
        Reason::OnceNotDone => "the one job of --once is not done",
        Reason::Worker => "the worker ended",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_told_in_its_two_largest_units() {
        for (milliseconds, words) in [
            (0, "0 s"),
            (230, "0.2 s"),
            (59_000, "59 s"),
            (60_000, "1 min"),
            (3_599_999, "59 min 59 s"),
            (3_600_000, "1 h"),
            (172_799_000, "47 h 59 min"),
            (792_000_000, "9 days 4 h"),
            (1_051_200_000, "12 days"),
        ] {
            assert_eq!(roughly(Duration::from_millis(milliseconds)), words);
        }
    }

    #[test]
    fn what_a_terminal_acts_on_is_active_and_letters_with_their_marks_are_not() {
        for character in [
            '\0',
            '\u{1b}',
            '\u{7f}',
            '\u{9b}',
            '\u{200b}',
            '\u{202e}',
            '\u{2066}',
            '\u{2028}',
            '\u{feff}',
            '\u{e0041}',
        ] {
            assert!(is_terminal_control(character), "{:x}", u32::from(character));
        }
        for character in [' ', 'a', 'ä', '\u{301}', 'Ж', '漢', '🙂', '\u{fffd}'] {
            assert!(!is_terminal_control(character), "{character}");
        }
    }

    #[test]
    fn of_a_long_name_the_middle_is_left_out() {
        assert_eq!(shortened("0123456789", 10), "0123456789");
        assert_eq!(shortened("0123456789x", 10), "0123...89x");
        assert_eq!(shortened("ααααααααααβ", 10), "αααα...ααβ");
        assert_eq!(shortened("abcd", 3), "abc");
    }

    #[test]
    fn an_escape_is_read_as_the_character_again() {
        for character in ['\u{1b}', '\u{202e}', '\u{e0041}'] {
            let mut json = String::from("\"");
            escape(&mut json, character);
            json.push('"');
            assert_eq!(serde_json::from_str::<String>(&json).unwrap(), character.to_string());
        }
    }
}
