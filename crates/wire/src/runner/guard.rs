//! Finds the words of a command that run as a program, because a placeholder there is refused. The
//! usual interpreters and wrappers are known by name; other programs are not recognised.

use std::ffi::OsString;

/// A program that runs a word of its command line as program text.
struct Interpreter {
    name: &'static str,
    /// The short options before that word.
    letters: &'static str,
    /// The long ones.
    long: &'static [&'static str],
}

const fn interpreter(name: &'static str, letters: &'static str, long: &'static [&'static str]) -> Interpreter {
    Interpreter { name, letters, long }
}

/// By their names without a version.
const INTERPRETERS: [Interpreter; 20] = [
    interpreter("sh", "c", &[]),
    interpreter("bash", "c", &[]),
    interpreter("dash", "c", &[]),
    interpreter("ash", "c", &[]),
    interpreter("ksh", "c", &[]),
    interpreter("mksh", "c", &[]),
    interpreter("zsh", "c", &[]),
    interpreter("fish", "cC", &["--command", "--init-command"]),
    interpreter("busybox", "c", &[]),
    interpreter("su", "c", &["--command", "--session-command"]),
    interpreter("flock", "c", &["--command"]),
    interpreter("env", "S", &["--split-string"]),
    interpreter("python", "c", &[]),
    interpreter("pypy", "c", &[]),
    interpreter("perl", "eE", &[]),
    interpreter("ruby", "e", &[]),
    interpreter("node", "ep", &["--eval", "--print"]),
    interpreter("bun", "ep", &["--eval", "--print"]),
    interpreter("php", "r", &["--run"]),
    interpreter("lua", "e", &[]),
];

/// A program that runs another one, which its command line names.
struct Wrapper {
    name: &'static str,
    /// Words before the program that are no options.
    before: usize,
    /// Short options whose value is the next word.
    takes: &'static str,
}

const fn wrapper(name: &'static str, before: usize, takes: &'static str) -> Wrapper {
    Wrapper { name, before, takes }
}

const WRAPPERS: [Wrapper; 20] = [
    wrapper("env", 0, "uC"),
    wrapper("nice", 0, "n"),
    wrapper("ionice", 0, "cn"),
    wrapper("nohup", 0, ""),
    wrapper("setsid", 0, ""),
    wrapper("stdbuf", 0, "ioe"),
    wrapper("time", 0, "fo"),
    wrapper("xargs", 0, "adEILnPs"),
    wrapper("sudo", 0, "CDghpRrTtUu"),
    wrapper("doas", 0, "Cu"),
    wrapper("setpriv", 0, ""),
    wrapper("tini", 0, "ep"),
    wrapper("dumb-init", 0, "r"),
    wrapper("busybox", 0, ""),
    wrapper("timeout", 1, "ks"),
    wrapper("chroot", 1, ""),
    wrapper("gosu", 1, ""),
    wrapper("su-exec", 1, ""),
    wrapper("flock", 1, "Ew"),
    wrapper("taskset", 1, ""),
];

/// The program that would run the word of this number, or its placeholder's value, as a program.
pub(super) fn runs(command: &[OsString], number: usize) -> Option<&'static str> {
    wrapper_of(command, number).or_else(|| interpreter_of(command, number))
}

/// The wrapper whose program the word is. Several wrappers may follow each other at the beginning
/// of the command.
fn wrapper_of(command: &[OsString], number: usize) -> Option<&'static str> {
    let mut at = 0;
    while at < number {
        let name = name_of(command.get(at)?);
        let wrapper = WRAPPERS.iter().find(|wrapper| wrapper.name == name)?;
        at = program_of(wrapper, command, at + 1)?;
        if at == number {
            return Some(wrapper.name);
        }
    }
    None
}

/// The number of the word that names the program of this wrapper, whose options begin at `from`.
fn program_of(wrapper: &Wrapper, command: &[OsString], from: usize) -> Option<usize> {
    let (mut at, mut before, mut has_options) = (from, wrapper.before, true);
    loop {
        let word = text(command.get(at)?);
        let is_assignment = wrapper.name == "env" && word.contains('=');
        if has_options && word == "--" {
            has_options = false;
        } else if has_options && word.starts_with('-') {
            let is_short = word.bytes().skip(1).all(|byte| byte.is_ascii_alphabetic());
            at += usize::from(is_short && word.ends_with(|letter| wrapper.takes.contains(letter)));
        } else if !is_assignment {
            if before == 0 {
                return Some(at);
            }
            before -= 1;
        }
        at += 1;
    }
}

/// The interpreter that runs the word as program text.
fn interpreter_of(command: &[OsString], number: usize) -> Option<&'static str> {
    let word = text(command.get(number)?);
    (0..number).find_map(|at| {
        let name = name_of(command.get(at)?);
        let interpreter = INTERPRETERS.iter().find(|interpreter| interpreter.name == name)?;
        let between: Vec<&str> = command.get(at + 1..number)?.iter().map(text).collect();
        interpreter.runs(&between, word).then_some(interpreter.name)
    })
}

impl Interpreter {
    /// Whether the interpreter runs this word as program text, if these words stand before it.
    fn runs(&self, between: &[&str], word: &str) -> bool {
        let has_script = has_script(between);
        let is_attached = || {
            let long = word
                .split_once('=')
                .is_some_and(|(option, _)| self.long.contains(&option));
            let (option, _) = word.split_once('{').unwrap_or((word, ""));
            long || self.is_bundle(option)
        };
        let is_flag = |word: &&str| self.is_plain(word) || (!has_script && self.is_bundle(word));
        let flag = between.iter().rposition(is_flag);
        let is_next = flag.and_then(|flag| between.get(flag + 1..)).is_some_and(|rest| {
            // Further options may stand before the text.
            rest.iter().all(|word| word.starts_with(['-', '+']))
        });
        is_next || (!has_script && is_attached())
    }

    /// True if the word is exactly one of the interpreter's options for program text.
    fn is_plain(&self, word: &str) -> bool {
        let short = word.strip_prefix('-').filter(|letter| letter.len() == 1);
        short.is_some_and(|letter| self.letters.contains(letter)) || self.long.contains(&word)
    }

    /// True if the word bundles short options and one of them is for program text.
    fn is_bundle(&self, word: &str) -> bool {
        let options = word.strip_prefix('-').unwrap_or_default();
        let is_short = |letter: char| letter.is_ascii_alphanumeric();
        options.starts_with(|letter: char| letter.is_ascii_alphabetic())
            && options
                .split(|letter| !is_short(letter))
                .next()
                .is_some_and(|letters| letters.contains(|letter| self.letters.contains(letter)))
    }
}

/// Whether one of these words is a script of the interpreter: options behind it are the script's.
/// One word behind an option may be the option's value.
fn has_script(between: &[&str]) -> bool {
    let is_option = |word: &str| word.starts_with(['-', '+']);
    let mut may_be_value = false;
    between.iter().any(|word| {
        let is_script = !is_option(word) && !may_be_value;
        may_be_value = is_option(word);
        is_script
    })
}

/// The name of a program without its directory and its version: `python` for `/usr/bin/python3.11`.
fn name_of(word: &OsString) -> &str {
    let text = text(word);
    let name = text.rsplit('/').next().unwrap_or(text);
    name.trim_end_matches(|letter: char| letter.is_ascii_digit() || matches!(letter, '.' | '-'))
}

/// The word as text. A word that is no text is neither a program's name nor an option.
fn text(word: &OsString) -> &str {
    word.to_str().unwrap_or_default()
}
