//! docs/configuration.md and docs/ojs-init.toml against the table of keys: what a user can look up is what the code reads.
//!
//! `UPDATE_GOLDEN=1 cargo test --test docs configuration` renders both anew.

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

use ojs_init::config::keys::{DefaultText, Group, KEYS, Key, Kind, Scope};
use ojs_init::config::{Environment, Flags, KeyId, load};

const RENEW: &str = "UPDATE_GOLDEN=1 cargo test --test docs configuration";

const BEGINS: &str = "<!-- begin: rendered from src/config/keys.rs -->\n";
const ENDS: &str = "<!-- end -->\n";

const GROUPS: [Group; 6] = [
    Group::Backend,
    Group::Worker,
    Group::Shutdown,
    Group::Operation,
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

fn keys_of(group: Group) -> impl Iterator<Item = &'static Key> {
    KEYS.iter().filter(move |key| key.group == group)
}

/// A table for each group: where a value can be set, what holds otherwise, what is accepted, what it does.
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
            let default = match key.default {
                DefaultText::Value(value) => format!("`{value}`"),
                DefaultText::Words(words) => words.to_owned(),
            };
            let name = key.toml.map_or("none".to_owned(), |name| format!("`{name}`"));
            let cells = [
                name,
                variables.join(", "),
                option,
                default,
                accepted(key.kind),
                key.help.to_owned(),
            ];
            let cells = cells.map(|cell| cell.replace('|', "\\|"));
            writeln!(text, "| {} |", cells.join(" | ")).unwrap();
        }
    }
    text.push('\n');
    text
}

/// Every key that a file can have, with its sentence above; what is the default anyway is written as a comment.
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
        for key in &KEYS {
            let Some((_, name)) = key
                .toml
                .and_then(|full| full.split_once('.'))
                .filter(|(of, _)| *of == section)
            else {
                continue;
            };
            text.push('\n');
            text.push_str(&comment(&format!("{}. Accepted: {}.", key.help, accepted(key.kind))));
            writeln!(text, "# {name} = {}", value(key)).unwrap();
        }
    }
    text
}

/// What is accepted, without how durations and switches are spelled: the page says that once.
fn accepted(kind: Kind) -> String {
    let text = kind.accepted();
    match kind {
        Kind::Duration(..) => format!("a duration {}", text.rsplit("; ").next().unwrap()),
        Kind::Switch => "true or false".to_owned(),
        Kind::Count
        | Kind::Text
        | Kind::Path
        | Kind::Size(..)
        | Kind::Number(..)
        | Kind::Signal
        | Kind::CatchableSignal
        | Kind::Choice(_)
        | Kind::Names
        | Kind::Uids
        | Kind::Statuses
        | Kind::Rewrites
        | Kind::Headers
        | Kind::Url
        | Kind::Listen
        | Kind::User
        | Kind::Secret => text,
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
fn value(key: &Key) -> String {
    let text = match key.default {
        DefaultText::Value(value) => value,
        // `5s, or as registered`: what it begins with can be written.
        DefaultText::Words(words) if words.starts_with(|letter: char| letter.is_ascii_digit()) => {
            words.split([' ', ',']).next().unwrap()
        }
        DefaultText::Words(_) => example(key),
    };
    match key.kind {
        Kind::Switch | Kind::Number(..) | Kind::Count => text.to_owned(),
        Kind::Names | Kind::Rewrites => {
            let items: Vec<String> = text.split(',').map(|item| format!("{item:?}")).collect();
            format!("[{}]", items.join(", "))
        }
        Kind::Uids | Kind::Statuses => format!("[{text}]"),
        Kind::Headers => {
            let (name, value) = text.split_once(": ").unwrap();
            format!("{{ {name} = {value:?} }}")
        }
        Kind::Text
        | Kind::Path
        | Kind::Duration(..)
        | Kind::Size(..)
        | Kind::Signal
        | Kind::CatchableSignal
        | Kind::Choice(_)
        | Kind::Url
        | Kind::Listen
        | Kind::User
        | Kind::Secret => format!("{text:?}"),
    }
}

/// A value that is accepted, for a key whose default is words.
fn example(key: &Key) -> &'static str {
    match key.kind {
        Kind::Url => "http://backend:8080",
        Kind::Listen => "[::]:8081",
        Kind::User => "65532:65532",
        Kind::Headers => "X-OJS-Tenant: acme",
        Kind::Uids => "65532",
        Kind::Statuses => "143",
        Kind::Rewrites => "TERM:QUIT",
        Kind::Signal | Kind::CatchableSignal => "USR1",
        Kind::Names => "eu,fast",
        Kind::Choice(words) => words[0],
        Kind::Duration(..) => "30s",
        Kind::Path => match key.toml {
            Some("backend.auth_token_file") => "/var/run/secrets/ojs/token",
            Some("backend.ca_file") => "/etc/ssl/ojs/ca.pem",
            Some("backend.cert_file") => "/etc/ssl/ojs/worker.pem",
            Some("backend.key_file") => "/etc/ssl/ojs/worker.key",
            Some("paths.termination_log") => "/dev/termination-log",
            _ => "/run/ojs-init",
        },
        Kind::Switch | Kind::Count | Kind::Text | Kind::Size(..) | Kind::Number(..) | Kind::Secret => {
            unreachable!("{:?} needs an example", key.toml)
        }
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
    flags.push(KeyId::ConfigFile, vec![file.clone().into_os_string()]);
    let entries = ["OJS_URL=http://backend:8080"];
    let config = load(
        &flags,
        &Environment::from_entries(entries.iter().map(|entry| entry.as_bytes())),
    );
    fs::remove_file(&file).unwrap();
    config
        .map(|config| config.warnings.clone())
        .map_err(|error| error.to_string())
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
    for key in KEYS.iter().filter(|key| key.scope == Scope::Agent) {
        let is_said = key.group.heading().ends_with("(agent)") || key.group == Group::Shutdown;
        assert!(is_said, "{}", key.label());
    }
}
