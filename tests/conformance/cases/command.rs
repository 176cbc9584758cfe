//! The command: found as a shell would find it, started with exactly what the caller gave.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::Report;
use crate::case::{BOTH, Case, Ctx, PROCESS, Verdict, case, ensure};
use crate::init::Kind;
use crate::support::proc;
use crate::support::wait::wait_until;

/// The cases of this theme.
pub const CASES: &[Case] = &[
    case!(a_missing_command_is_127, BOTH),
    case!(a_missing_file_is_127, BOTH),
    case!(a_missing_interpreter_is_127, PROCESS),
    case!(an_empty_command_name_is_127, PROCESS),
    case!(a_file_that_may_not_be_executed_is_126, BOTH),
    case!(a_name_found_only_without_permission_is_126, PROCESS),
    case!(a_directory_as_command_is_126, BOTH),
    case!(a_missing_command_is_named_on_standard_error, PROCESS),
    case!(a_script_without_an_interpreter_line_runs_through_sh, PROCESS),
    case!(the_search_goes_on_after_a_file_without_permission, PROCESS),
    case!(without_a_search_path_the_usual_places_are_searched, PROCESS),
    case!(arguments_arrive_byte_for_byte, BOTH),
    case!(the_environment_arrives_byte_for_byte, BOTH),
    case!(listen_pid_is_rewritten_to_the_child, PROCESS)
        .exempt(&[(Kind::Ojs, "named exception: the environment arrives byte for byte")]),
    case!(the_child_keeps_the_working_directory, BOTH),
    case!(the_init_does_not_hold_the_working_directory, BOTH),
    case!(standard_input_reaches_the_child, BOTH),
];

fn write_script(path: &Path, text: &str, mode: u32) -> Verdict {
    std::fs::write(path, text)?;
    Ok(std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))?)
}

fn a_missing_command_is_127(ctx: &Ctx) -> Verdict {
    ctx.launch(&[])?
        .command(&["no-such-command-anywhere"])
        .start()?
        .ends_with(127)
}

fn a_missing_file_is_127(ctx: &Ctx) -> Verdict {
    ctx.launch(&[])?
        .command(&[ctx.at("no-such-file")])
        .start()?
        .ends_with(127)
}

fn a_missing_interpreter_is_127(ctx: &Ctx) -> Verdict {
    write_script(&ctx.dir().join("script"), "#!/no/such/interpreter\n", 0o755)?;
    ctx.launch(&[])?.command(&[ctx.at("script")]).start()?.ends_with(127)
}

fn an_empty_command_name_is_127(ctx: &Ctx) -> Verdict {
    ctx.launch(&[])?.command(&[""]).start()?.ends_with(127)
}

fn a_file_that_may_not_be_executed_is_126(ctx: &Ctx) -> Verdict {
    write_script(&ctx.dir().join("plain"), "#!/bin/sh\nexit 3\n", 0o644)?;
    ctx.launch(&[])?.command(&[ctx.at("plain")]).start()?.ends_with(126)
}

fn a_name_found_only_without_permission_is_126(ctx: &Ctx) -> Verdict {
    write_script(&ctx.dir().join("some-tool"), "#!/bin/sh\nexit 3\n", 0o644)?;
    let path = format!("{}:/usr/bin", ctx.dir().display());
    ctx.launch(&[])?
        .command(&["some-tool"])
        .variable("PATH", path)
        .start()?
        .ends_with(126)
}

fn a_directory_as_command_is_126(ctx: &Ctx) -> Verdict {
    ctx.launch(&[])?.command(&["/tmp"]).start()?.ends_with(126)
}

fn a_missing_command_is_named_on_standard_error(ctx: &Ctx) -> Verdict {
    let mut init = ctx.launch(&[])?.command(&["no-such-command-anywhere"]).start()?;
    init.wait()?;
    let said = init.stderr();
    ensure!(said.contains("no-such-command-anywhere"), "says {said:?}");
    Ok(())
}

fn a_script_without_an_interpreter_line_runs_through_sh(ctx: &Ctx) -> Verdict {
    let script = ctx.dir().join("script");
    write_script(
        &script,
        "test \"$0\" = \"$PWD/script\" || exit 4\ntest \"$*\" = 'a  b c' || exit 5\nexit 9\n",
        0o755,
    )?;
    ctx.launch(&[])?
        .command(&[script.as_os_str(), OsStr::new("a  b"), OsStr::new("c")])
        .start()?
        .ends_with(9)
}

fn the_search_goes_on_after_a_file_without_permission(ctx: &Ctx) -> Verdict {
    let (first, second) = (ctx.dir().join("first"), ctx.dir().join("second"));
    for dir in [&first, &second] {
        std::fs::create_dir(dir)?;
    }
    write_script(&first.join("some-tool"), "#!/bin/sh\nexit 3\n", 0o644)?;
    write_script(&second.join("some-tool"), "#!/bin/sh\nexit 9\n", 0o755)?;
    let path = format!("/nowhere:{}:{}", first.display(), second.display());
    ctx.launch(&[])?
        .command(&["some-tool"])
        .variable("PATH", path)
        .start()?
        .ends_with(9)
}

fn without_a_search_path_the_usual_places_are_searched(ctx: &Ctx) -> Verdict {
    ctx.launch(&[])?
        .shell("exit 9")
        .without_variable("PATH")
        .start()?
        .ends_with(9)
}

fn arguments_arrive_byte_for_byte(ctx: &Ctx) -> Verdict {
    let odd: [&[u8]; 6] = [b"", b"two words", b"\xff\xfe\x80", b"line\nbreak", b"--", b"-g"];
    let mut words = ctx.probe("report", "report", &["exit=0"]);
    words.extend(odd.iter().map(|word| OsStr::from_bytes(word).to_owned()));
    let mut init = ctx.launch(&[])?.command(&words).start()?;
    init.ends_with(0)?;
    let expected: String = words
        .iter()
        .flat_map(|word| word.as_bytes().iter().chain(b"\0"))
        .map(hexadecimal)
        .collect();
    let report = Report(init.file("report")?);
    ensure!(
        report.get("cmdline") == Some(&expected),
        "the child has other arguments"
    );
    Ok(())
}

fn hexadecimal(byte: &u8) -> String {
    format!("{byte:02x}")
}

fn the_environment_arrives_byte_for_byte(ctx: &Ctx) -> Verdict {
    let odd: [&[u8]; 8] = [
        b"SAME=1",
        b"SAME=2",
        b"NOVALUE=",
        b"no-equals-sign",
        b"=nameless",
        b"",
        b"BYTES=\xff\xfe",
        b"LINES=a\nb",
    ];
    let steps: Vec<String> = odd
        .iter()
        .map(|entry| format!("environment={}", entry.iter().map(hexadecimal).collect::<String>()))
        .collect();
    let environment = |without: bool| -> Result<String, crate::case::Trouble> {
        let mut launch = ctx.launch(&[])?.report(&["exit=0"]);
        for step in &steps {
            launch = launch.step(step);
        }
        let mut init = if without { launch.without_init() } else { launch }.start()?;
        init.ends_with(0)?;
        let report = Report(init.file("report")?);
        std::fs::remove_file(ctx.at("report"))?;
        Ok(report.get("environ").unwrap_or_default().to_owned())
    };
    let (expected, got) = (environment(true)?, environment(false)?);
    ensure!(
        expected == got,
        "the child has another environment ({} bytes, not {})",
        got.len() / 2,
        expected.len() / 2
    );
    Ok(())
}

fn listen_pid_is_rewritten_to_the_child(ctx: &Ctx) -> Verdict {
    // Socket activation: the service manager names the init, but the child is to take the sockets.
    let script = "LISTEN_PID=$$ exec \"$@\"";
    let launch = ctx
        .launch(&[])?
        .through(&["/bin/sh", "-c", script, "sh"])
        .variable("LISTEN_FDS", "1");
    launch
        .shell("test \"$LISTEN_PID\" = $$ && exit 7")
        .start()?
        .ends_with(7)
}

fn the_child_keeps_the_working_directory(ctx: &Ctx) -> Verdict {
    let mut init = ctx.launch(&[])?.report(&["exit=0"]).start()?;
    init.ends_with(0)?;
    let report = Report(init.file("report")?);
    let expected = ctx.dir().canonicalize()?;
    ensure!(
        report.get("cwd") == expected.to_str(),
        "the child is in {:?}",
        report.get("cwd")
    );
    Ok(())
}

fn the_init_does_not_hold_the_working_directory(ctx: &Ctx) -> Verdict {
    let mut init = ctx.launch(&[])?.actor(&[]).start()?;
    init.ready("log")?;
    // An init lets go after it has started the child, which may be ready first.
    let cwd = format!("/proc/{}/cwd", init.init_pid()?);
    ensure!(
        wait_until(ctx.patience, || std::fs::read_link(&cwd)
            .is_ok_and(|cwd| cwd == Path::new("/"))),
        "the init stays in the caller's directory, so that it cannot be unmounted"
    );
    Ok(())
}

fn standard_input_reaches_the_child(ctx: &Ctx) -> Verdict {
    let (reader, mut writer) = std::io::pipe()?;
    let mut init = ctx
        .launch(&[])?
        .command(&[OsString::from("sh")])
        .stdin(reader)
        .start()?;
    std::io::Write::write_all(&mut writer, b"exit 23\n")?;
    drop(writer);
    init.ends_with(23)?;
    ensure!(!proc::lives(init.pid), "it is still there");
    Ok(())
}
