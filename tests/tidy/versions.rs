//! The clients are released together with ojs-init, so they have its version.

use std::fs;

use crate::root;

/// A file below `clients`, and the text in it that has the version at `{}`.
const PLACES: [(&str, &str); 18] = [
    ("go/README.md", "ojs-init.example/ojsworker@v{}"),
    ("go/examples/email/go.mod", "ojs-init.example/ojsworker v{}"),
    ("go/worker.go", "const Version = \"{}\""),
    ("java/README.md", "dev.ojs:ojs-worker:{}"),
    (
        "java/pom.xml",
        "<artifactId>ojs-worker</artifactId>\n  <version>{}</version>",
    ),
    ("node/README.md", "ojs-worker-{}.tgz"),
    ("node/lib/worker.cjs", "const VERSION = \"{}\""),
    ("node/package.json", "\"version\": \"{}\""),
    ("node/test/session.test.mjs", "\"ojs-node {}\""),
    ("php/composer.json", "\"version\": \"{}\""),
    ("php/src/Worker.php", "const VERSION = '{}'"),
    ("python/ojs_worker/_basics.py", "__version__ = \"{}\""),
    ("python/pyproject.toml", "\nversion = \"{}\""),
    ("ruby/README.md", "ojs-worker-{}.gem"),
    ("ruby/lib/ojs_worker/version.rb", "VERSION = \"{}\""),
    ("rust/Cargo.lock", "name = \"ojs-worker\"\nversion = \"{}\""),
    ("rust/Cargo.toml", "name = \"ojs-worker\"\nversion = \"{}\""),
    ("../docs/recipes.md", "ojs-worker-{}.tgz"),
];

#[test]
fn each_client_has_the_version_of_ojs_init() {
    let missing = PLACES.iter().filter_map(|(file, text)| {
        let text = text.replace("{}", env!("CARGO_PKG_VERSION"));
        let is_there = fs::read_to_string(root().join("clients").join(file))
            .unwrap()
            .contains(&text);
        (!is_there).then(|| format!("{file}: {text}"))
    });
    let missing: Vec<String> = missing.collect();
    assert!(missing.is_empty(), "{missing:#?}");
}
