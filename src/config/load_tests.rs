//! The configuration from outside: flags, variables and a file in, one `Config` or one error out.

use super::*;
use crate::config::keys::{CERT_FILE, CONCURRENCY, KEY_FILE, KEYS, POLL_INTERVAL, READY_TIMEOUT, TIMEOUT_GRACE, URL};
use crate::config::test_support::{Given, assert_says};
use crate::config::values::Form;
use crate::daemon::options::options;
use ojs_lifecycle::api::{Options, Surroundings};

/// The typed part and the machine's options: two ways to set a value differ in their sources only.
fn typed(mut config: Config) -> (Config, Options) {
    let options = options(&config, Surroundings::None, 0);
    config.settings = Settings::default();
    config.warnings.clear();
    (config, options)
}

/// A value that no key of this type has by default, as text and in TOML.
fn sample(key: &Row) -> (String, String) {
    let (text, toml) = match key.notation.placeholder {
        "TIME" => ("7s", "7".to_owned()),
        "SIZE" => ("8KiB", "0x2000".to_owned()),
        "SIG" => ("USR1", "10".to_owned()),
        _ => (key.notation.example, in_toml(key.notation.form, key.notation.example)),
    };
    if key.notation.form == Form::Word {
        let words = key.accepted();
        let last = words.rsplit(", ").next().unwrap();
        return (last.to_owned(), in_toml(Form::Word, last));
    }
    (text.to_owned(), toml)
}

fn in_toml(form: Form, text: &str) -> String {
    match form {
        Form::Switch | Form::Count | Form::Integer => text.to_owned(),
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

/// Keys that a key requires.
fn companions(key: &'static Row) -> Given {
    if *key == *URL {
        Given::default()
    } else if *key == *CERT_FILE {
        Given::agent().variable("OJS_TLS_KEY_FILE=/k")
    } else if *key == *KEY_FILE {
        Given::agent().variable("OJS_TLS_CERT_FILE=/c")
    } else {
        Given::agent()
    }
}

/// With the flag of a key; without a flag its variable; for a table the file.
fn given(key: &'static Row, text: &str) -> Given {
    match (key.flag, key.env.first()) {
        (Some(_), _) => companions(key).flag(key, text),
        (None, Some(variable)) => companions(key).variable(&format!("{variable}={text}")),
        (None, None) => {
            let toml = in_toml(key.notation.form, text);
            companions(key).file(&format!("{} = {toml}", key.label()))
        }
    }
}

/// All keys but the one that names the file that most of these tests name.
fn keys() -> impl Iterator<Item = &'static Row> {
    KEYS.into_iter().filter(|key| **key != *CONFIG_FILE)
}

#[test]
fn every_key_reaches_the_typed_configuration() {
    let nothing = typed(Given::agent().config());
    for key in keys() {
        let given = given(key, &sample(key).0);
        assert_ne!(typed(given.config()), nothing, "{}", key.label());
    }
}

#[test]
fn every_key_means_the_same_as_flag_as_variable_and_in_the_file() {
    for key in keys() {
        let (text, toml) = sample(key);
        let expected = typed(given(key, &text).config());
        for name in key.env {
            let by_variable = companions(key).variable(&format!("{name}={text}")).config();
            assert_eq!(typed(by_variable), expected, "{name}");
        }
        if let Some(name) = key.toml {
            let by_file = companions(key).file(&format!("{name} = {toml}\n")).config();
            assert_eq!(typed(by_file), expected, "{name}");
        }
    }
}

#[test]
fn the_defaults_in_the_help_are_the_defaults() {
    let implicit = |mut config: Config| {
        config.shutdown.limits.grace_period_is_explicit = false;
        config.worker.queues_are_explicit = false;
        config.worker.concurrency_is_explicit = false;
        typed(config)
    };
    let nothing = typed(Given::agent().config());
    let shown = keys().filter(|key| key.default_words.is_none() && key.default_text() != "none");
    for key in shown {
        let text = key.default_text();
        assert_eq!(implicit(given(key, &text).config()), nothing, "{}", key.label());
        let mut texts = Vec::new();
        key.notation.form.split(&text, &mut texts);
        assert_eq!((key.values.read)(&texts).unwrap().shown(), text, "{}", key.label());
    }
}

#[test]
fn the_command_line_goes_before_the_environment_before_the_file_before_the_default() {
    let file = "[worker]\nconcurrency = 3\npoll_interval = \"3s\"\nready_timeout = 3\n";
    let given = Given::agent()
        .file(file)
        .variable("OJS_CONCURRENCY=2")
        .variable("OJS_POLL_INTERVAL=2")
        .flag(&CONCURRENCY, "1");
    let config = given.config();
    let path = given.file.as_ref().unwrap().display();
    let expected: [(&Row, _, _); 4] = [
        (&CONCURRENCY, "1", "command line --concurrency".to_owned()),
        (&POLL_INTERVAL, "2s", "environment OJS_POLL_INTERVAL".to_owned()),
        (&READY_TIMEOUT, "3s", format!("{path}:4")),
        (&TIMEOUT_GRACE, "30s", "default".to_owned()),
    ];
    for (key, text, source) in expected {
        assert_eq!(
            (
                config.settings.text(key).as_str(),
                config.settings.source(key).to_string()
            ),
            (text, source)
        );
    }
}

#[test]
fn a_wrong_value_is_one_error_that_names_key_value_source_and_what_is_accepted() {
    let error = Given::agent().variable("OJS_GRACE_PERIOD=soon").error();
    assert_says(
        &error,
        &[
            "shutdown.grace_period",
            "soon",
            "environment OJS_GRACE_PERIOD",
            "accepted: 250ms",
        ],
    );

    let error = Given::agent().flag(&CONCURRENCY, "0").error();
    assert_says(
        &error,
        &[
            "worker.concurrency",
            "\"0\"",
            "command line --concurrency",
            "from 1 to 10000",
        ],
    );

    let given = Given::agent().file("# a comment\n[worker]\nmode = \"gatway\"\n");
    assert_says(
        &given.error(),
        &["worker.mode", "gatway", ".toml:3)", "socket, gateway, exec, none"],
    );
}

#[test]
fn a_wrong_value_is_an_error_even_where_a_better_source_hides_it() {
    assert_says(
        &Given::agent()
            .file("worker.concurrency = 0")
            .flag(&CONCURRENCY, "1")
            .error(),
        &[".toml:1)"],
    );
}

#[test]
fn what_a_subcommand_does_not_need_is_a_warning() {
    let runtime = |given: Given| {
        let (paths, warnings) = given.paths().unwrap();
        (paths.runtime_dir.unwrap_or_default().display().to_string(), warnings)
    };
    let (place, warnings) = runtime(
        Given::default()
            .variable("OJS_GRACE_PERIOD=zzz")
            .variable("OJS_RUNTIME_DIR=/here"),
    );
    assert_eq!((place.as_str(), warnings.len()), ("/here", 1));
    assert!(warnings[0].contains("OJS_GRACE_PERIOD"), "{warnings:?}");
    let text = "x = 1\n[backend]\nurl = 7\nno = 1\n[paths]\nruntime_dir = \"/there\"\n[y]\n";
    let (place, warnings) = runtime(Given::default().file(text));
    assert_eq!((place.as_str(), warnings.len()), ("/there", 4), "{warnings:?}");
    let (place, warnings) = runtime(Given::default().file("nonsense"));
    assert_eq!((place.as_str(), warnings.len()), ("", 1));
    let error = Given::default().file("[paths]\nruntime_dir = 7\n").paths().unwrap_err();
    assert!(error.to_string().contains("paths.runtime_dir"), "{error}");
}

#[test]
fn no_agent_goes_before_a_mode_of_the_same_or_a_lower_source() {
    let mode = |given: Given| given.config().mode;
    assert_eq!(mode(Given::no_agent().variable("OJS_MODE=socket")), Mode::None);
    assert_eq!(
        mode(Given::agent().variable("OJS_INIT_NO_AGENT=1").flag(&MODE, "exec")),
        Mode::Exec
    );
    assert_eq!(mode(Given::agent().flag(&NO_AGENT, "false")), Mode::Socket);

    let both = Given::default()
        .variable("OJS_INIT_NO_AGENT=1")
        .variable("OJS_MODE=exec")
        .config();
    assert_eq!((both.mode, both.warnings.len()), (Mode::None, 1));
    assert_eq!(
        both.settings.describe(&MODE),
        "worker.mode = none (environment OJS_INIT_NO_AGENT)"
    );

    assert_says(
        &Given::no_agent().flag(&MODE, "exec").error(),
        &["--no-agent", "worker.mode = exec"],
    );
}

#[test]
fn v_raises_the_level_and_show_says_so() {
    let config = Given::no_agent()
        .flag(&VERBOSE, "1")
        .variable("OJS_LOG_LEVEL=WARNING")
        .config();
    assert_eq!(
        (config.log.level.level, config.settings.value(&VERBOSE).0),
        (Level::Info, 1)
    );
    let config = Given::no_agent().variable("OJS_INIT_VERBOSE=3").config();
    assert_eq!(config.log.level.level, Level::Trace);
    assert_eq!(
        config.settings.describe(&LOG_LEVEL),
        "log.level = trace (environment OJS_INIT_VERBOSE)"
    );
}

#[test]
fn wrong_values_and_unknown_keys_of_all_sources_are_reported_together() {
    let file = "[worker]\ntimout = 1\nconcurrency = \"many\"\n[exec]\noutput = \"bla\"\n";
    let given = Given::agent()
        .file(file)
        .variable("OJS_READY_TIMEOUT=soon")
        .flag(&POLL_INTERVAL, "never");
    let errors = given.errors();
    let words = [
        "worker.poll_interval",
        "OJS_READY_TIMEOUT",
        "worker.timout",
        "many",
        "bla",
    ];
    for word in words {
        assert_eq!(
            errors.iter().filter(|error| error.contains(word)).count(),
            1,
            "{word}: {errors:?}"
        );
    }
    assert_eq!(errors.len(), words.len(), "{errors:?}");
}

#[test]
fn of_a_file_that_is_no_configuration_twenty_errors_are_reported() {
    let errors = Given::agent()
        .file(&(1..=25).map(|n| format!("x{n} = 1\n")).collect::<String>())
        .errors();
    assert_eq!(errors.len(), 21, "{errors:?}");
    assert_says(&errors[19], &["is not a key"]);
    assert_eq!(errors[20], "more errors in the configuration: 5");
}
