//! docs/configuration.md and docs/ojs-init.toml against the table of keys: what a user can look up
//! is what the code reads.
//!
//! `UPDATE_GOLDEN=1 cargo test --test docs configuration` renders both anew.

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

use ojs_init::config::key::Group;
use ojs_init::config::keys::{CONFIG_FILE, KEYS};
use ojs_init::config::values::Form;
use ojs_init::config::{Environment, Flags, Mode, Row, load};

const RENEW: &str = "UPDATE_GOLDEN=1 cargo test --test docs configuration";

const BEGINS: &str = "<!-- begin: rendered from src/config/keys.rs -->\n";
const ENDS: &str = "<!-- end -->\n";

const GROUPS: [Group; 8] = [
    Group::Backend,
    Group::Worker,
    Group::Exec,
    Group::Shutdown,
    Group::Operation,
    Group::Traces,
    Group::Log,
    Group::Init,
];

/// Columns of a comment in the sample file.
const COMMENT_WIDTH: usize = 100;

fn path(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(name)
}

fn is_renewing() -> bool {
    std::env::var_os("UPDATE_GOLDEN").is_some()
}

fn keys_of(group: Group) -> impl Iterator<Item = &'static Row> {
    KEYS.into_iter().filter(move |key| key.group == group)
}

/// A table for each group: where a value can be set, what holds otherwise, what is accepted, what
/// it does.
fn as_markdown() -> String {
    let mut text = String::new();
    for group in GROUPS {
        writeln!(text, "\n## {}\n", group.heading()).unwrap();
        text.push_str("| key | variable | option | default | accepted | what it does |\n|---|---|---|---|---|---|\n");
        for key in keys_of(group) {
            let option = match (key.short, key.flag) {
                (Some(letter), Some(flag)) => format!("`-{letter}`, `--{flag}`"),
                (None, Some(flag)) => format!("`--{flag}`"),
                (_, None) => "none".to_owned(),
            };
            let variables: Vec<String> = key.env.iter().map(|name| format!("`{name}`")).collect();
            let default = match plain_default(key) {
                Some(value) => format!("`{value}`"),
                None => key.default_text(),
            };
            let name = key.toml.map_or("none".to_owned(), |name| format!("`{name}`"));
            let cells = [
                name,
                variables.join(", "),
                option,
                default,
                accepted(key),
                key.help.to_owned(),
            ];
            let cells = cells.map(|cell| cell.replace('|', "\\|"));
            writeln!(text, "| {} |", cells.join(" | ")).unwrap();
        }
    }
    text.push('\n');
    text
}

/// Every key that a file can have, with its sentence above; what is the default anyway is written
/// as a comment.
fn as_toml() -> String {
    let mut text = format!(
        "# Every key of ojs-init, each with its default, or an example where there is no plain value for it.\n\
         # Copy what you need to /etc/ojs-init.toml. Rendered from the table of keys; renew: {RENEW}\n"
    );
    let mut sections: Vec<&str> = Vec::new();
    for key in KEYS.iter().filter_map(|key| key.toml) {
        let section = key.split('.').next().unwrap();
        if !sections.contains(&section) {
            sections.push(section);
        }
    }
    for section in sections {
        writeln!(text, "\n[{section}]").unwrap();
        for key in KEYS {
            let Some((_, name)) = key
                .toml
                .and_then(|full| full.split_once('.'))
                .filter(|(of, _)| *of == section)
            else {
                continue;
            };
            text.push('\n');
            text.push_str(&comment(&format!("{}. Accepted: {}.", key.help, accepted(key))));
            writeln!(text, "# {name} = {}", value(key)).unwrap();
        }
    }
    text
}

/// The default, where it could be written out just so.
fn plain_default(key: &Row) -> Option<String> {
    let is_plain = key.default_words.is_none() && key.default_text() != "none";
    is_plain.then(|| key.default_text())
}

/// The accepted values, without how durations and switches are spelled: the page says that once.
fn accepted(key: &Row) -> String {
    let text = key.accepted();
    match (key.notation.form, key.notation.placeholder) {
        (_, "TIME") => format!("a duration {}", text.rsplit("; ").next().unwrap()),
        (_, "TIME|off") => format!("off, or a duration {}", text.rsplit("; ").next().unwrap()),
        (Form::Switch, _) => "true or false".to_owned(),
        _ => text,
    }
}

/// The text as lines of a comment.
fn comment(text: &str) -> String {
    let mut lines = vec![String::from("#")];
    for word in text.split(' ') {
        if lines.last().unwrap().len() + 1 + word.len() > COMMENT_WIDTH {
            lines.push(String::from("#"));
        }
        let line = lines.last_mut().unwrap();
        line.push(' ');
        line.push_str(word);
    }
    lines.join("\n") + "\n"
}

/// The default as TOML, else an example.
fn value(key: &Row) -> String {
    let text = match (plain_default(key), key.default_words) {
        (Some(value), _) => value,
        // `5s, or as registered`: what it begins with can be written.
        (None, Some(words)) if words.starts_with(|letter: char| letter.is_ascii_digit()) => {
            words.split([' ', ',']).next().unwrap().to_owned()
        }
        (None, _) => example(key).to_owned(),
    };
    match key.notation.form {
        Form::Switch | Form::Count | Form::Integer => text,
        Form::String | Form::StringOrInteger | Form::Word => format!("{text:?}"),
        Form::Strings => format!("{:?}", text.split(',').collect::<Vec<_>>()),
        Form::Integers => format!("[{text}]"),
        Form::Headers => {
            let (name, value) = text.split_once(": ").unwrap();
            format!("{{ {name} = {value:?} }}")
        }
        Form::Table => {
            let pairs = text.split(',').map(|pair| pair.split_once('=').unwrap());
            let pairs: Vec<String> = pairs.map(|(name, value)| format!("{name} = {value:?}")).collect();
            format!("{{ {} }}", pairs.join(", "))
        }
        Form::Commands => {
            let (pattern, words) = text.split_once('\0').unwrap();
            format!("{{ {pattern:?} = {:?} }}", words.split('\0').collect::<Vec<_>>())
        }
    }
}

/// A value that is accepted, for a key whose default is words.
fn example(key: &Row) -> &'static str {
    match key.toml {
        Some("backend.auth_token_file") => "/var/run/secrets/ojs/token",
        Some("backend.ca_file") => "/etc/ssl/ojs/ca.pem",
        Some("backend.cert_file") => "/etc/ssl/ojs/worker.pem",
        Some("backend.key_file") => "/etc/ssl/ojs/worker.key",
        Some("exec.directory") => "/work",
        Some("paths.termination_log") => "/dev/termination-log",
        _ => key.notation.example,
    }
}

#[test]
fn the_page_of_settings_is_the_table_of_keys() {
    let file = path("docs/configuration.md");
    let page = fs::read_to_string(&file).unwrap();
    let (before, rest) = page.split_once(BEGINS).unwrap();
    let (shown, after) = rest.split_once(ENDS).unwrap();
    if is_renewing() {
        fs::write(&file, format!("{before}{BEGINS}{}{ENDS}{after}", as_markdown())).unwrap();
        return;
    }
    assert!(shown == as_markdown(), "docs/configuration.md is stale: {RENEW}");
}

#[test]
fn the_sample_file_has_every_key_of_the_table() {
    let file = path("docs/ojs-init.toml");
    if is_renewing() {
        fs::write(&file, as_toml()).unwrap();
    }
    let shown = fs::read_to_string(&file).unwrap();
    assert!(shown == as_toml(), "docs/ojs-init.toml is stale: {RENEW}");
}

/// Loads a file with this text as an agent's.
fn loaded(text: &str, name: &str) -> Result<Vec<String>, String> {
    let file = std::env::temp_dir().join(format!("ojs-init-configuration-{}-{name}.toml", std::process::id()));
    fs::write(&file, text).unwrap();
    let mut flags = Flags::default();
    flags.push(&CONFIG_FILE, vec![file.clone().into_os_string()]);
    let entries = ["OJS_URL=http://backend:8080"];
    let config = load(
        &flags,
        &Environment::from_entries(entries.iter().map(|entry| entry.as_bytes())),
    );
    fs::remove_file(&file).unwrap();
    config
        .map(|config| config.warnings.clone())
        .map_err(|errors| errors.messages().join("; "))
}

#[test]
fn the_sample_file_is_accepted_as_it_is_and_sets_nothing() {
    assert_eq!(loaded(&as_toml(), "as-it-is"), loaded("", "empty"));
}

/// A key alone, because some exclude each other or need another one.
#[test]
fn each_line_of_the_sample_file_is_accepted_without_its_comment_sign() {
    let sample = as_toml();
    let mut section = "";
    let mut keys = 0;
    for line in sample.lines() {
        if line.starts_with('[') {
            section = line;
        }
        let Some((name, value)) = line.strip_prefix("# ").and_then(|line| line.split_once(" = ")) else {
            continue;
        };
        if !KEYS
            .iter()
            .any(|key| key.toml == Some(&format!("{}.{name}", section.trim_matches(['[', ']']))))
        {
            continue;
        }
        keys += 1;
        let pair = match name {
            "cert_file" => "key_file = \"/k\"\n",
            "key_file" => "cert_file = \"/c\"\n",
            _ => "",
        };
        let text = format!("{section}\n{name} = {value}\n{pair}");
        assert!(loaded(&text, name).is_ok(), "{text}{:?}", loaded(&text, name));
    }
    assert_eq!(keys, KEYS.iter().filter(|key| key.toml.is_some()).count());
}

#[test]
fn what_means_nothing_to_a_plain_init_is_in_a_group_that_says_so_or_about_the_shutdown() {
    for key in KEYS.iter().filter(|key| !key.scope.includes(Mode::None)) {
        let is_said = key.group.heading().ends_with("(agent)") || key.group == Group::Shutdown;
        assert!(is_said, "{}", key.label());
    }
}
