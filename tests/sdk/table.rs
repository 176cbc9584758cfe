//! The table: seven kinds of workers, nine requirements, without and with ojs-init in between.

use std::collections::BTreeMap;

use crate::requirements::{self, Requirement};
use crate::run::Front;
use crate::sdk::Kind;

/// Which checks of a requirement hold.
pub type Found = BTreeMap<(Kind, Front, &'static str), Vec<bool>>;

/// Prints what was found.
pub fn print(found: &Found) {
    let is_behind = found.keys().any(|(_, front, _)| *front == Front::Gateway);
    let fronts: &[Front] = if is_behind {
        &[Front::Without, Front::Gateway]
    } else {
        &[Front::Without]
    };
    println!(
        "\nWhat holds of workers as the SDKs make them, as the backend sees them: {}\n",
        said(fronts)
    );
    let width = 5 * fronts.len();
    let head: Vec<String> = Kind::ALL
        .iter()
        .map(|kind| format!("{:>width$}", kind.name()))
        .collect();
    println!("{:<50}{}", "", head.join(" "));
    for requirement in &requirements::ALL {
        let of = |kind: Kind| {
            let cells = fronts
                .iter()
                .map(|front| format!("{:>5}", cell(found, kind, *front, requirement)));
            cells.collect::<String>()
        };
        let row: Vec<String> = Kind::ALL.iter().map(|kind| of(*kind)).collect();
        println!(
            "{:<50}{}",
            format!("{} {}", requirement.id, requirement.says),
            row.join(" ")
        );
    }
    println!();
    for requirement in &requirements::ALL {
        for (number, check) in requirement.checks.iter().enumerate() {
            let lacking = fronts
                .iter()
                .map(|front| format!("{:<36}", lacking(found, *front, requirement.id, number)));
            println!(
                "{:<8}{:<46}{}",
                requirement.id,
                check.says,
                lacking.collect::<String>().trim_end()
            );
        }
    }
}

fn said(fronts: &[Front]) -> &'static str {
    if fronts.len() == 1 {
        "alone"
    } else {
        "alone, and behind ojs-init"
    }
}

/// Of which kinds this does not hold.
fn lacking(found: &Found, front: Front, id: &'static str, number: usize) -> String {
    let is_lacking = |kind: &&Kind| {
        let checks = found.get(&(**kind, front, id));
        checks.is_some_and(|checks| checks.get(number) == Some(&false))
    };
    let kinds: Vec<&str> = Kind::ALL.iter().filter(is_lacking).map(|kind| kind.name()).collect();
    if kinds.is_empty() {
        "all".to_owned()
    } else {
        format!("not {}", kinds.join(" "))
    }
}

fn cell(found: &Found, kind: Kind, front: Front, requirement: &Requirement) -> String {
    let Some(checks) = found.get(&(kind, front, requirement.id)) else {
        return "-".to_owned();
    };
    format!("{}/{}", checks.iter().filter(|holds| **holds).count(), checks.len())
}
