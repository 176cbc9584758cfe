//! The modules and what each may use: the table of docs/architecture.md, read from the page itself.

use std::collections::BTreeMap;
use std::fs;

use crate::imports::Program;
use crate::{CRATES, root, sources};

/// The page's table begins below this line.
const HEAD: &str = "| module | may use | must not |";

/// For each module what of the program it may use, besides itself.
fn modules() -> BTreeMap<String, Vec<String>> {
    let page = fs::read_to_string(root().join("docs/architecture.md")).unwrap();
    let rows = page.lines().skip_while(|line| *line != HEAD).skip(2);
    let names = |cell: &str| -> Vec<String> {
        let quoted = cell.split('`').skip(1).step_by(2);
        quoted.map(str::to_owned).collect()
    };
    let mut modules = BTreeMap::new();
    for row in rows.take_while(|line| line.starts_with('|')) {
        let cells: Vec<&str> = row.split('|').collect();
        for module in names(cells[1]) {
            modules.insert(module, names(cells[2]));
        }
    }
    modules
}

/// The entry that says most about this path: `lifecycle/api` before `lifecycle`.
fn module_of<'a>(path: &str, modules: impl Iterator<Item = &'a String>) -> Option<&'a String> {
    let is_in = |module: &&String| path == module.as_str() || path.starts_with(&format!("{module}/"));
    modules.filter(is_in).max_by_key(|module| module.len())
}

#[test]
fn each_module_uses_only_what_the_page_on_architecture_says() {
    let modules = modules();
    assert!(
        modules.len() > 10,
        "the table of docs/architecture.md is not found: {modules:?}"
    );
    let files = Program::read(sources());
    let mut broken = Vec::new();
    for (file, path) in files.paths() {
        let (here, there) = (file.join("/"), path.join("/"));
        let Some(module) = module_of(&here, modules.keys()) else {
            broken.push(format!("{here} is in no row of the table"));
            continue;
        };
        let is_itself =
            module_of(&there, std::iter::once(module)).is_some() && module_of(&there, modules.keys()) == Some(module);
        let is_allowed = module_of(&there, modules[module].iter()).is_some();
        if !is_itself && !is_allowed {
            broken.push(format!("{here} ({module}) uses {there}"));
        }
    }
    broken.sort();
    broken.dedup();
    assert!(
        broken.is_empty(),
        "against the table of docs/architecture.md: {broken:#?}"
    );
}

#[test]
fn each_row_of_the_table_is_a_module() {
    for (module, uses) in modules() {
        for name in std::iter::once(&module).chain(&uses) {
            let (first, rest) = name.split_once('/').unwrap_or((name, ""));
            let own = CRATES.iter().find(|(known, _)| *known == first);
            let place = own.map_or(root().join("src").join(name), |(_, sources)| {
                root().join(sources).join(rest)
            });
            let exists = place.is_dir() || place.with_extension("rs").is_file();
            assert!(exists, "{module}: there is no {}", place.display());
        }
    }
}
