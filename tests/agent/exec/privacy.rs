//! Nothing of one job reaches the next, and nothing of ours reaches any.

use serde_json::json;

use super::{as_user, enqueue, handler, python};
use crate::backend::Outcome;
use crate::stage::Stage;

#[test]
fn a_job_of_our_own_user_reads_nothing_of_the_init_or_the_runner() {
    let stage = Stage::new();
    stage.enqueue([1]);
    let script = "import json, os
def tries(path):
    try:
        if path.endswith('/fd'):
            return [os.readlink(f'{path}/{name}') for name in os.listdir(path)] and 'read'
        with open(path, 'rb') as file:
            if path.endswith('/mem'):
                file.seek(int(open(path[:-3] + 'maps').readline().split('-')[0], 16))
            return 'read' if file.read(16) else 'nothing'
    except OSError as error:
        return error.strerror
print(json.dumps({f'{who} {what}': tries(f'/proc/{who}/{what}')
                  for who in (1, os.getppid()) for what in ('environ', 'fd', 'mem', 'maps')}))";
    let start = python(&stage, script).with("OJS_AUTH_TOKEN", "sekrit-4711");
    let mut init = as_user(start, "64732").start();
    stage.wait_for_outcomes();
    let outcomes = stage.outcomes("j1");
    let [Outcome::Acked(Some(found))] = outcomes.as_slice() else {
        panic!("{outcomes:?}: {}", init.story())
    };
    let found = found.as_object().unwrap();
    assert_eq!(found.len(), 8, "the runner is not the init: {found:?}");
    for (what, came) in found {
        assert_eq!(came, "Permission denied", "{what}");
    }
    init.stops();
}

#[test]
fn the_runner_has_neither_the_token_nor_a_connection_to_the_backend() {
    let stage = Stage::new();
    let mut init = handler(&stage, "true").with("OJS_AUTH_TOKEN", "sekrit-4711").start();
    stage.enqueue([1]);
    stage.becomes("j1", &[Outcome::Acked(None)]);
    let runner = super::runner(&mut init);
    let environ = std::fs::read(format!("/proc/{runner}/environ")).unwrap();
    assert!(!String::from_utf8_lossy(&environ).contains("sekrit"));
    let ours = crate::support::proc::descriptors(init.pid);
    let theirs = crate::support::proc::descriptors(runner);
    let shared = theirs.iter().filter(|(number, _)| **number > 2);
    let shared: Vec<_> = shared
        .filter(|(_, what)| is_own(what) && ours.values().any(|own| own == *what))
        .collect();
    assert!(shared.is_empty(), "{shared:?}");
    init.stops();
}

/// Whether there is one of it, and it is none that both got from whoever started them.
fn is_own(what: &std::path::Path) -> bool {
    let what = what.display().to_string();
    what.starts_with("socket:")
}

#[test]
fn nothing_of_one_job_reaches_the_next() {
    let stage = Stage::new();
    let script = "import json, os, stat
os.umask(0o77)
kinds = {n: os.readlink(f'/proc/self/fd/{n}').split(':')[0] for n in os.listdir('/proc/self/fd') if os.path.exists(f'/proc/self/fd/{n}')}
here = sorted(os.listdir(os.environ['TMPDIR']))
open(os.environ['TMPDIR'] + '/left', 'w').close()
own = {'OJS_JOB_ID', 'TMPDIR', 'OJS_JOB_DEADLINE'}
print(json.dumps([{k: v for k, v in os.environ.items() if k not in own}, sorted(kinds), here, os.getcwd(), os.getpriority(0, 0)]))";
    let mut init = python(&stage, script).with("OJS_CONCURRENCY", "1").start();
    for id in ["j1", "j2", "j3"] {
        enqueue(&stage, id, "t", &json!([]), "");
    }
    stage.wait_for_outcomes();
    let found: Vec<_> = ["j1", "j2", "j3"].map(|id| stage.outcomes(id)).into();
    assert!(
        matches!(found[0].as_slice(), [Outcome::Acked(Some(_))]),
        "{}",
        init.story()
    );
    assert_eq!(found[0], found[1]);
    assert_eq!(found[0], found[2]);
    init.stops();
}

#[test]
fn jobs_with_users_of_their_own_read_nothing_of_each_other() {
    let stage = Stage::new();
    enqueue(&stage, "j1", "holds", &json!([]), "");
    enqueue(&stage, "j2", "looks", &json!([]), "");
    let script = "import json, os, time
if os.environ['OJS_JOB_TYPE'] == 'holds':
    with open(os.environ['NOTES'] + '.pid', 'w') as file: file.write(str(os.getpid()))
    while not os.path.exists(os.environ['NOTES'] + '.go'): time.sleep(0.01)
    print(os.getuid())
else:
    path = os.environ['NOTES'] + '.pid'
    while not os.path.exists(path) or not open(path).read(): time.sleep(0.01)
    found = []
    for what in ('environ', 'maps', 'mem'):
        try: open(f'/proc/{open(path).read()}/{what}', 'rb').read(1); found.append(what)
        except OSError: pass
    open(os.environ['NOTES'] + '.go', 'w').close()
    print(json.dumps([os.getuid(), found]))";
    let mut init = python(&stage, script).with("OJS_EXEC_USERS", "81230-81249").start();
    stage.wait_for_outcomes();
    let result = |id: &str| match stage.outcomes(id).as_slice() {
        [Outcome::Acked(Some(result))] => result.clone(),
        other => panic!("{other:?}: {}", init.story()),
    };
    let (holds, looks) = (result("j1"), result("j2"));
    assert_ne!(holds, looks[0]);
    for user in [&holds, &looks[0]] {
        assert!((81230..=81249).contains(&user.as_u64().unwrap()), "{user}");
    }
    assert_eq!(looks[1], json!([]));
    init.stops();
}
