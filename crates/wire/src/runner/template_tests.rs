//! Tests of the placeholders in commands.

use super::*;

fn template(words: &[&str]) -> Result<Template, String> {
    let words: Vec<OsString> = words.iter().map(OsString::from).collect();
    Template::read(&words)
}

fn filled(word: &str, job: &JobFacts<'_>) -> Result<String, String> {
    let words = template(&["program", word])
        .unwrap_or_else(|why| panic!("{word}: {why}"))
        .fill(job)?;
    assert_eq!(words.len(), 2, "a value is never split: {words:?}");
    Ok(words[1].to_str().unwrap().to_owned())
}

fn job(args: &str) -> JobFacts<'_> {
    JobFacts {
        id: "j-1".to_owned(),
        kind: "video.cut".to_owned(),
        args: Some(args),
        ..JobFacts::default()
    }
}

#[test]
fn each_placeholder_is_replaced_within_its_word() {
    let args = r#"["in put; rm -rf /", {"path": "/a b", "n": 1.50, "deep": [true, null]}, "-x", "$(id) {id}"]"#;
    for (word, expected) in [
        ("{id}", "j-1"),
        ("{type}", "video.cut"),
        ("{args.0}", "in put; rm -rf /"),
        ("{args.1.path}", "/a b"),
        ("{args.1.n}", "1.50"),
        ("{args.1.deep.1}", "null"),
        ("{args.1.deep}", "[true, null]"),
        ("--in={args.2}", "--in=-x"),
        ("{id}-{type}{id}", "j-1-video.cutj-1"),
        ("{args.3}", "$(id) {id}"),
    ] {
        assert_eq!(filled(word, &job(args)).as_deref(), Ok(expected), "{word}");
    }
}

#[test]
fn braces_that_are_no_placeholder_stay() {
    for word in [
        "{}",
        "{",
        "}",
        "{}{",
        "{{}}",
        "{1..3}",
        "{a,b}",
        "${id}",
        "${type}",
        "${args.0}",
        "{print $1}",
        "{{.ID}}",
        "{id: .x}",
        "{id, name}",
        "{args: 1}",
        "{\"id\":1}",
        "{ id }",
        "{x}",
        "{name}",
        "{.id}",
        "%{type}x{",
        "{idle}",
        "{argument_list}",
    ] {
        let expected = word.replace("%{type}x{", "%video.cutx{");
        assert_eq!(filled(word, &job("[]")).as_deref(), Ok(expected.as_str()), "{word}");
    }
}

#[test]
fn two_braces_are_the_text_of_a_placeholder() {
    for (word, expected) in [
        ("{{id}", "{id}"),
        ("{{id}}", "{id}"),
        ("{{args.0}", "{args.0}"),
        ("{{arg.0} {id}", "{arg.0} j-1"),
        ("a{{type}b{{id", "a{type}b{id"),
    ] {
        assert_eq!(filled(word, &job("[]")).as_deref(), Ok(expected), "{word}");
    }
}

#[test]
fn what_looks_like_a_placeholder_and_is_none_is_refused_with_what_is_accepted() {
    for word in [
        "{arg.0}",
        "{args.x.",
        "{args.x}",
        "{args}",
        "{args.}",
        "{args.0.}",
        "{args.-1}",
        "{args[0]}",
        "{agrs.0}",
        "{argz.0}",
        "{ARGS.0}",
        "{Id}",
        "{ID}",
        "{job.id}",
        "{job_id}",
        "{types}",
        "{typ}",
        "{tpye}",
        "{id",
        "{args.0",
        "{id.x}",
        "{type.0}",
        "{arguments.0}",
        "{queue}",
        "x{args..0}y",
    ] {
        let why = template(&["program", word]).unwrap_err();
        assert!(why.contains("{args.0}") && why.contains("{{"), "{word}: {why}");
    }
}

#[test]
fn a_missing_value_is_named() {
    for (word, args, spelled) in [
        ("{args.1}", r#"["a"]"#, "{args.1}"),
        ("{args.0.path}", r#"[{"file":1}]"#, "{args.0.path}"),
        ("{args.0.x}", r#"["text"]"#, "{args.0.x}"),
        ("{args.0}", "null", "{args.0}"),
    ] {
        let why = filled(word, &job(args)).unwrap_err();
        assert!(why.starts_with(&format!("{spelled} has no value")), "{why}");
    }
    let without = JobFacts::default();
    assert!(filled("{args.0}", &without).is_err());
}

#[test]
fn what_cannot_be_a_word_of_a_command_is_refused_with_words() {
    let why = filled("{args.0}", &job(r#"["a\u0000b"]"#)).unwrap_err();
    assert!(why.contains("{args.0} holds a NUL byte"), "{why}");
    let long = format!(r#"["{}"]"#, "x".repeat(MOST_WORD_BYTES));
    assert!(filled("{args.0}", &job(&long)).is_ok());
    let why = filled("-{args.0}", &job(&long)).unwrap_err();
    assert!(why.contains("131072 bytes"), "{why}");
}

#[test]
fn no_value_is_run_as_a_program() {
    for words in [
        &["{args.0}"][..],
        &["./{type}", "x"],
        &["sh", "-c", "echo {args.0}"],
        &["/bin/bash", "-ec", "echo {id}"],
        &["env", "X=1", "dash", "-c", "{type}"],
        &["python3", "-c", "print('{args.0}')"],
        &["perl", "-e", "{args.0}"],
        &["busybox", "sh", "-c", "{args.0}"],
        &["bash", "-uc", "{args.0}"],
        &["bash", "-ic", "{args.0}"],
        &["bash", "-euo", "pipefail", "-c", "{args.0}"],
        &["bash", "-o", "pipefail", "-uc", "{args.0}"],
        &["bash", "-c", "-x", "{args.0}"],
        &["bash-5.2", "--norc", "-c", "x{args.0}"],
        &["sh", "-c", "--", "{args.0}"],
        &["python3.11", "-c", "{args.0}"],
        &["/usr/bin/python3", "-Ic", "{args.0}"],
        &["python3", "-c{args.0}"],
        &["perl", "-lane", "{args.0}"],
        &["ruby", "-rjson", "-e", "{args.0}"],
        &["node", "--eval={args.0}"],
        &["node", "--eval", "{args.0}"],
        &["node18", "-pe", "{args.0}"],
        &["su", "user", "-c", "{args.0}"],
        &["env", "{args.0}"],
        &["env", "-i", "X=1", "{args.0}"],
        &["env", "-S", "{args.0}"],
        &["env", "-S{args.0}"],
        &["timeout", "5", "{args.0}"],
        &["timeout", "-k", "5", "10s", "{args.0}"],
        &["nice", "-n", "5", "--", "{args.0}"],
        &["nice", "-n5", "timeout", "--foreground", "5", "./{args.0}"],
        &["stdbuf", "-oL", "{args.0}"],
        &["stdbuf", "-o", "L", "{args.0}"],
        &["sudo", "-Eu", "user", "{args.0}"],
        &["flock", "/lock", "-c", "{args.0}"],
        &["flock", "/lock", "{args.0}"],
        &["busybox", "{args.0}"],
    ] {
        assert!(template(words).is_err(), "{words:?}");
    }
    for words in [
        &["sh", "-c", "echo \"$1\"", "sh", "{args.0}"][..],
        &["sh", "-c", "echo {{id}"],
        &["sh", "-c", "echo ${id}"],
        &["grep", "-e", "{args.0}"],
        &["python3", "script.py", "-c", "x", "{args.0}"],
        &["python3", "script.py", "-race", "{args.0}"],
        &["python3", "script.py", "-c{args.0}"],
        &["perl", "script.pl", "--eval={args.0}", "-verbose", "{args.1}"],
        &["bash", "script.sh", "{args.0}"],
        &["sh", "-euc", "exec x \"$@\"", "x", "{args.0}"],
        &["env", "X={args.0}", "program"],
        &["env", "X=1", "program", "{args.0}"],
        &["timeout", "{args.0}", "program"],
        &["timeout", "-k", "{args.0}", "5", "program"],
        &["timeout", "5", "program", "{args.0}"],
        &["nice", "-n", "5", "program", "env", "{args.0}"],
        &["curl", "-d", "env", "{args.0}"],
        &["ffmpeg", "-c", "{args.0}"],
    ] {
        assert!(template(words).is_ok(), "{words:?}");
    }
}

#[test]
fn words_that_are_no_text_stay_byte_for_byte() {
    use std::os::unix::ffi::OsStrExt;
    let word = OsStr::from_bytes(b"\xff{id}").to_owned();
    let template = Template::read(&["program".into(), word.clone()]).unwrap();
    assert_eq!(template.fill(&job("[]")).unwrap()[1], word);
}
