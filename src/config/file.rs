//! The TOML file: found, read with a bound, and checked key by key with the line of each.

use std::borrow::Cow;
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read};
use std::ops::Range;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nix::fcntl::OFlag;
use toml::de::{DeTable, DeValue};

use super::build::DEFAULT_FILE;
use super::error::{ConfigError, OnMistake};
use super::key::Row;
use super::keys::{CONFIG_FILE, KEYS};
use super::settings::Settings;
use super::similar::most_alike;
use super::source::Source;
use super::values::Form;
use super::values::exec::{NAME_APART, WORDS_APART};

/// Largest configuration file, in bytes. A larger one is a mistake in the path.
const MAX_FILE_BYTES: u64 = 64 << 10;

/// Puts every key of the file into the settings. The file is the one that they name, else the
/// default one when that exists.
///
/// # Errors
/// The file cannot be read, is not TOML, or holds an unknown key or a value that its key does not
/// accept, unless that is passed over.
pub(super) fn apply(settings: &mut Settings, on_mistake: OnMistake<'_>) -> Result<(), ConfigError> {
    let named = settings.get(&CONFIG_FILE).map(|setting| setting.source.clone());
    let path = settings
        .value(&CONFIG_FILE)
        .unwrap_or_else(|| PathBuf::from(DEFAULT_FILE));
    let text = match open(&path).and_then(read) {
        Ok(text) => text,
        Err(error) => {
            let is_missing = matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory);
            if named.is_none() && is_missing {
                return Ok(());
            }
            let source = named.as_ref().map_or_else(String::new, |source| format!(" ({source})"));
            let (path, most) = (path.display(), MAX_FILE_BYTES / 1024);
            let problem = if is_missing {
                format!("cannot read the configuration file {path}{source}: {error}; name a file that exists")
            } else {
                format!(
                    "cannot read the configuration file {path}{source}: {error}; accepted: a regular file of at most {most} KiB, in \
                     UTF-8, that ojs-init may read"
                )
            };
            return on_mistake(None, ConfigError::new(&problem));
        }
    };
    if named.is_none() {
        settings.replace(&CONFIG_FILE, Some(path.clone()), Source::Default);
    }
    Document {
        path: path.into(),
        text: &text,
    }
    .apply(settings, on_mistake)
}

/// Opens a regular file. `O_NONBLOCK`, because PID 1 must not wait for a writer of a FIFO.
fn open(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new()
        .read(true)
        .custom_flags((OFlag::O_NONBLOCK | OFlag::O_NOCTTY).bits())
        .open(path)?;
    let kind = file.metadata()?.file_type();
    if !kind.is_file() {
        let what = if kind.is_dir() {
            "a directory"
        } else {
            "a device, a FIFO or a socket"
        };
        return Err(io::Error::other(format!("it is {what}, not a regular file")));
    }
    Ok(file)
}

fn read(file: File) -> io::Result<String> {
    let mut bytes = Vec::new();
    let length = file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes)?;
    if u64::try_from(length).unwrap_or(u64::MAX) > MAX_FILE_BYTES {
        return Err(io::Error::other(format!("larger than {} KiB", MAX_FILE_BYTES / 1024)));
    }
    String::from_utf8(bytes).map_err(|_| io::Error::other("not UTF-8"))
}

struct Document<'t> {
    path: Arc<Path>,
    text: &'t str,
}

impl Document<'_> {
    fn apply(&self, settings: &mut Settings, on_mistake: OnMistake<'_>) -> Result<(), ConfigError> {
        let table = match DeTable::parse(self.text) {
            Ok(table) => table,
            Err(error) => {
                let source = self.source(error.span().unwrap_or_default());
                let message = error.message().replace('\n', ", ");
                return on_mistake(None, ConfigError::new(&format!("{source} is not TOML: {message}")));
            }
        };
        for (name, value) in table.get_ref() {
            if !is_section(name.get_ref()) {
                on_mistake(None, self.unknown(name.get_ref(), name.span()))?;
                continue;
            }
            let Some(section) = value.get_ref().as_table() else {
                let problem = format!(
                    "{name} is a section ({source}); write [{name}] on a line of its own and its keys below",
                    name = name.get_ref(),
                    source = self.source(name.span())
                );
                on_mistake(None, ConfigError::new(&problem))?;
                continue;
            };
            for (part, value) in section {
                let full = format!("{}.{}", name.get_ref(), part.get_ref());
                let Some(key) = KEYS.into_iter().find(|key| key.toml == Some(&full)) else {
                    on_mistake(None, self.unknown(&full, part.span()))?;
                    continue;
                };
                self.offer(settings, key, part.span(), value.span(), value.get_ref())
                    .or_else(|error| on_mistake(Some(key), error))?;
            }
        }
        Ok(())
    }

    fn offer(
        &self,
        settings: &mut Settings,
        key: &'static Row,
        name: Range<usize>,
        span: Range<usize>,
        value: &DeValue<'_>,
    ) -> Result<(), ConfigError> {
        let source = self.source(name);
        match texts(key.notation.form, value) {
            Ok(texts) => settings.offer(key, &texts.iter().map(AsRef::as_ref).collect::<Vec<_>>(), source),
            Err(problem) => {
                let written = value.as_str().or_else(|| self.text.get(span));
                Err(ConfigError::value(key, written.unwrap_or_default(), &source, &problem))
            }
        }
    }

    fn source(&self, span: Range<usize>) -> Source {
        let before = self.text.as_bytes().get(..span.start).unwrap_or_default();
        let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
        Source::File {
            path: Arc::clone(&self.path),
            line,
        }
    }

    fn unknown(&self, name: &str, span: Range<usize>) -> ConfigError {
        let source = self.source(span);
        let hint = hint(name);
        // Debug, because the name may hold any character that TOML can quote.
        ConfigError::new(&format!(
            "{name:?} ({source}) is not a key of the configuration; {hint}"
        ))
    }
}

/// The key that was probably meant by a name that no key has.
fn hint(name: &str) -> String {
    let (section, part) = name.rsplit_once('.').unwrap_or(("", name));
    let flag = part.replace('_', "-");
    if let Some(key) = KEYS.iter().find(|key| key.toml.is_none() && key.flag == Some(&flag)) {
        return format!("use --{flag} or {}", key.env[0]);
    }
    let keys = || {
        KEYS.iter()
            .filter_map(|key| key.toml.zip(key.parts().map(|(_, name)| name)))
    };
    let inside = keys()
        .filter(|(full, _)| full.split('.').next() == Some(section))
        .map(|(_, last)| last);
    let meant = most_alike(part, inside).map(|last| format!("{section}.{last}"));
    let meant = meant.or_else(|| {
        let anywhere = most_alike(part, keys().map(|(_, last)| last))?;
        keys()
            .find(|(_, last)| *last == anywhere)
            .map(|(full, _)| full.to_owned())
    });
    let mut sections: Vec<&str> = keys().filter_map(|(full, _)| full.split('.').next()).collect();
    sections.sort_unstable();
    sections.dedup();
    let like_it = sections.iter().copied().filter(|_| section.is_empty());
    let meant = meant.or_else(|| most_alike(name, like_it).map(|name| format!("[{name}]")));
    if let Some(meant) = meant {
        return format!("did you mean {meant}?");
    }
    if !is_section(section) {
        return format!("accepted sections: {}", sections.join(", "));
    }
    let inside = keys().filter(|(full, _)| full.split('.').next() == Some(section));
    let inside: Vec<&str> = inside.map(|(_, last)| last).collect();
    format!("accepted in [{section}]: {}", inside.join(", "))
}

fn is_section(name: &str) -> bool {
    KEYS.iter()
        .filter_map(|key| key.toml)
        .any(|full| full.split('.').next() == Some(name))
}

/// The texts that a key reads, when the TOML value has a type in which values of the form are
/// written.
fn texts<'v>(form: Form, value: &'v DeValue<'_>) -> Result<Vec<Cow<'v, str>>, String> {
    let one = |text: Option<Cow<'v, str>>| text.map(|text| vec![text]);
    let texts = match form {
        Form::Switch => one(value.as_bool().map(|on| if on { "true" } else { "false" }.into())),
        Form::Integer | Form::Count => one(integer(value)),
        Form::StringOrInteger => one(integer(value).or_else(|| string(value))),
        Form::String | Form::Word => one(string(value)),
        Form::Strings => list(value, string),
        Form::Integers => list(value, integer),
        Form::Headers => entries(value, header)?,
        Form::Table => entries(value, pair)?,
        Form::Commands => entries(value, command)?,
    };
    texts.ok_or_else(|| format!("has the wrong type ({})", type_of(value)))
}

fn type_of(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "string",
        DeValue::Integer(_) => "integer",
        DeValue::Float(_) => "float",
        DeValue::Boolean(_) => "boolean",
        DeValue::Datetime(_) => "date",
        DeValue::Array(_) => "array",
        DeValue::Table(_) => "table",
    }
}

fn string<'v>(value: &'v DeValue<'_>) -> Option<Cow<'v, str>> {
    value.as_str().map(Cow::Borrowed)
}

/// The digits of an integer, in base 10 however it was written.
fn integer<'v>(value: &'v DeValue<'_>) -> Option<Cow<'v, str>> {
    let integer = value.as_integer()?;
    if integer.radix() == 10 {
        return Some(Cow::Borrowed(integer.as_str()));
    }
    i128::from_str_radix(integer.as_str(), integer.radix())
        .ok()
        .map(|number| Cow::Owned(number.to_string()))
}

fn list<'v, 'i: 'v>(
    value: &'v DeValue<'i>,
    item: fn(&'v DeValue<'i>) -> Option<Cow<'v, str>>,
) -> Option<Vec<Cow<'v, str>>> {
    value
        .as_array()?
        .iter()
        .map(|element| item(element.get_ref()))
        .collect()
}

/// The entries of a table, each as one text; `None` if the value is no table.
fn entries<'v>(
    value: &DeValue<'_>,
    text: fn(&str, &DeValue<'_>) -> Result<String, String>,
) -> Result<Option<Vec<Cow<'v, str>>>, String> {
    let Some(table) = value.as_table() else { return Ok(None) };
    let texts = table
        .iter()
        .map(|(name, value)| text(name.get_ref(), value.get_ref()).map(Cow::Owned));
    texts.collect::<Result<_, _>>().map(Some)
}

fn header(name: &str, value: &DeValue<'_>) -> Result<String, String> {
    // The text behind the colon is the value, in the wrong place, and a secret.
    let (name, has_colon) = match name.split_once(':') {
        Some((name, _)) => (name, true),
        None => (name, false),
    };
    match value.as_str() {
        Some(value) if !has_colon => Ok(format!("{name}: {value}")),
        Some(_) => Err(format!(
            "has a header {name:?} with a colon in its name; write {name:?} = \"VALUE\""
        )),
        None => Err(format!("has a header {name:?} whose value is not a string")),
    }
}

/// A name and its value.
fn pair(name: &str, value: &DeValue<'_>) -> Result<String, String> {
    match integer(value).or_else(|| string(value)) {
        Some(value) if !name.contains(NAME_APART) => Ok(format!("{name}{NAME_APART}{value}")),
        Some(_) => Err(format!("has an entry {name:?} with a {NAME_APART} in its name")),
        None => Err(format!(
            "has an entry {name:?} whose value has the wrong type ({})",
            type_of(value)
        )),
    }
}

/// A name and the words of its command.
fn command(name: &str, value: &DeValue<'_>) -> Result<String, String> {
    let words = list(value, string).ok_or_else(|| {
        format!(
            "has a command for {name:?} that is not an array of strings ({}): no shell takes it apart",
            type_of(value)
        )
    })?;
    if [name]
        .into_iter()
        .chain(words.iter().map(AsRef::as_ref))
        .any(|word| word.contains(WORDS_APART))
    {
        return Err(format!("has a NUL character in {name:?} or its command"));
    }
    let words = words.iter().map(|word| format!("{WORDS_APART}{word}"));
    Ok(words.fold(name.to_owned(), |text, word| text + &word))
}

#[cfg(test)]
mod tests {
    use crate::config::Value;
    use crate::config::keys::CONFIG_FILE;
    use crate::config::test_support::{Given, assert_says};

    #[test]
    fn an_unknown_key_in_the_file_is_an_error_that_knows_what_was_meant() {
        let cases = [
            ("[shutdown]\ngrace_perod = 1", "did you mean shutdown.grace_period?"),
            ("grace_period = 1", "did you mean shutdown.grace_period?"),
            ("[worker]\nurl = \"x\"", "did you mean backend.url?"),
            ("[bakend]\nxxxx = 1", "did you mean [backend]?"),
            ("[process]\nsubreaper = true", "use --subreaper or OJS_INIT_SUBREAPER"),
            (
                "[process]\nzzz = 1",
                "is not a key of the configuration; accepted in [process]: user",
            ),
            (
                "[zzz]\nx = 1",
                "accepted sections: backend, exec, gateway, health, log, otel, ",
            ),
            ("[worker]\nconcurrency = \"many\"", "worker.concurrency = \"many\" ("),
            ("[worker.queues]\nx = 1", "wrong type (table)"),
            ("worker = 1", "write [worker]"),
            ("[worker]\nconcurrency = true", "wrong type (boolean)"),
            ("[worker]\nconcurrency = \"10\"", "wrong type (string)"),
            ("[worker]\nqueues = \"a\"", "[\\\"a\\\", \\\"b\\\"]"),
            ("[worker]\nqueues = []", "is empty"),
            ("[worker]\npoll_interval = -1", "not a duration"),
            ("[worker]\npoll_interval = 1.5", "wrong type (float)"),
            (
                "[worker]\nconcurrency = 1\nconcurrency = 2",
                ":3 is not TOML: duplicate key",
            ),
            ("[worker", "is not TOML"),
            (
                "[exec.routes]\n\"video.*\" = \"./x --fast\"",
                "\"video.*\" that is not an array of strings (string): no shell",
            ),
            ("[exec.routes]\na = [\"x\", 1]", "\"a\" that is not an array of strings"),
            ("[exec.routes]\na = []", "no program for \"a\""),
            ("[exec.routes]\na = [\"x\\u0000\"]", "NUL character"),
            ("[exec.routes]\n\"a*b\" = [\"x\"]", "not at its end"),
            ("[exec]\nroutes = [\"x\"]", "wrong type (array); accepted: a table"),
            (
                "[exec.exit]\n2 = \"fail\"",
                "none of ack, release, later:TIME up to 30s, retry, discard",
            ),
            (
                "[exec.exit]\n2 = \"later:31s\"",
                "none of ack, release, later:TIME up to 30s, retry, discard",
            ),
            (
                "[exec.exit]\nSIGNOTHING = \"ack\"",
                "neither an exit status nor a signal",
            ),
            (
                "[exec.exit]\n2 = [\"ack\"]",
                "\"2\" whose value has the wrong type (array)",
            ),
            ("[exec.rlimits]\nnofiles = 3", "\"nofiles\", which is no limit"),
            ("[exec.rlimits]\nnofile = \"2:1\"", "above the hard one"),
            ("[exec]\nrout = 1", "did you mean exec.routes?"),
        ];
        for (text, expected) in cases {
            let expected = expected.replace("\\\"", "\"");
            assert_says(&Given::agent().file(text).error(), &[&expected]);
        }
    }

    #[test]
    fn a_token_in_the_file_is_an_error_that_does_not_show_it() {
        let error = Given::agent().file("[backend]\nauth_token = \"hunter2\"").error();
        assert!(!error.contains("hunter2"), "{error}");
        assert_says(&error, &["backend.auth_token_file"]);
    }

    #[test]
    fn a_secret_in_the_name_of_a_header_is_not_shown() {
        for value in ["1", "\"x\"", "[]"] {
            let file = format!("[backend]\nheaders = {{\"Authorization: Bearer hunter2\" = {value}}}");
            let error = Given::agent().file(&file).error();
            assert!(!error.contains("hunter2"), "{error}");
            assert_says(&error, &["\"Authorization\""]);
        }
    }

    #[test]
    fn an_error_in_a_route_does_not_show_its_arguments() {
        let file = "[exec.routes]\na = [\"x\", \"--password=hunter2\"]\n\"b c\" = [\"y\"]";
        let error = Given::agent().file(file).error();
        assert!(!error.contains("hunter2"), "{error}");
        assert_says(&error, &["exec.routes (", ":1)", "\"b c\""]);
    }

    #[test]
    fn the_tables_of_mode_exec_are_read_as_they_are_written() {
        let file = "[exec.routes]\n\"video.*\" = [\"./transcode.sh\", \"--fast x\", \"\"]\n\
                    [exec.exit]\n2 = \"discard\"\nXCPU = \"retry\"\n\
                    [exec.rlimits]\nnofile = \"1024:4096\"\nnproc = 64\ncore = \"1MiB\"\n";
        let exec = Given::agent().file(file).config().exec;
        assert_eq!(exec.routes.0.len(), 1);
        assert_eq!(exec.routes.0[0].pattern, "video.*");
        assert_eq!(exec.routes.0[0].command, ["./transcode.sh", "--fast x", ""]);
        assert_eq!(exec.exit.show(), "0=ack,2=discard,75=release,100=discard,SIGXCPU=retry");
        assert_eq!(exec.rlimits.show(), "core=1048576:1048576,nofile=1024:4096,nproc=64:64");
    }

    #[test]
    fn a_named_file_must_exist_be_regular_and_small() {
        let named = |path: &str| Given::agent().flag(&CONFIG_FILE, path).error();
        assert_says(
            &named("/nonexistent/x.toml"),
            &[
                "/nonexistent/x.toml",
                "command line --config",
                "name a file that exists",
            ],
        );
        assert_says(&named("/dev/zero"), &["not a regular file"]);
        assert_says(&named("/tmp"), &["not a regular file"]);
        assert_says(
            &Given::agent().file(&"# x\n".repeat(20_000)).error(),
            &["larger than 64 KiB"],
        );
    }
}
