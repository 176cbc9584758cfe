//! The rooms and what each may use: the table of docs/architecture.md, read from the page itself.

use std::collections::BTreeMap;
use std::fs;

use crate::imports::Program;
use crate::{CRATES, root, sources};

/// The page's table begins below this line.
const HEAD: &str = "| room | may use | must not |";

/// For each room what of the program it may use, besides itself.
fn rooms() -> BTreeMap<String, Vec<String>> {
    let page = fs::read_to_string(root().join("docs/architecture.md")).unwrap();
    let rows = page.lines().skip_while(|line| *line != HEAD).skip(2);
    let names = |cell: &str| -> Vec<String> {
        let quoted = cell.split('`').skip(1).step_by(2);
        quoted.map(str::to_owned).collect()
    };
    let mut rooms = BTreeMap::new();
    for row in rows.take_while(|line| line.starts_with('|')) {
        let cells: Vec<&str> = row.split('|').collect();
        for room in names(cells[1]) {
            rooms.insert(room, names(cells[2]));
        }
    }
    rooms
}

/// The entry that says most about this path: `lifecycle/api` before `lifecycle`.
fn room_of<'a>(path: &str, rooms: impl Iterator<Item = &'a String>) -> Option<&'a String> {
    let is_in = |room: &&String| path == room.as_str() || path.starts_with(&format!("{room}/"));
    rooms.filter(is_in).max_by_key(|room| room.len())
}

#[test]
fn each_room_uses_only_what_the_page_on_architecture_says() {
    let rooms = rooms();
    assert!(
        rooms.len() > 10,
        "the table of docs/architecture.md is not found: {rooms:?}"
    );
    let files = Program::read(sources());
    let mut broken = Vec::new();
    for (module, path) in files.paths() {
        let (here, there) = (module.join("/"), path.join("/"));
        let Some(room) = room_of(&here, rooms.keys()) else {
            broken.push(format!("{here} is in no row of the table"));
            continue;
        };
        let is_itself = room_of(&there, std::iter::once(room)).is_some() && room_of(&there, rooms.keys()) == Some(room);
        let is_allowed = room_of(&there, rooms[room].iter()).is_some();
        if !is_itself && !is_allowed {
            broken.push(format!("{here} ({room}) uses {there}"));
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
fn each_row_of_the_table_is_a_room() {
    for (room, uses) in rooms() {
        for name in std::iter::once(&room).chain(&uses) {
            let (first, rest) = name.split_once('/').unwrap_or((name, ""));
            let own = CRATES.iter().find(|(known, _)| *known == first);
            let place = own.map_or(root().join("src").join(name), |(_, sources)| {
                root().join(sources).join(rest)
            });
            let exists = place.is_dir() || place.with_extension("rs").is_file();
            assert!(exists, "{room}: there is no {}", place.display());
        }
    }
}
