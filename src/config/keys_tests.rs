//! Each row of the table of settings keeps to the rules for all.

use std::collections::BTreeSet;

use super::*;
use crate::config::values::Form;

#[test]
fn every_row_stands_where_its_name_says() {
    for (position, key) in KEYS.iter().enumerate() {
        assert_eq!(key.position, position, "{}", key.label());
    }
}

#[test]
fn no_name_is_used_twice() {
    let mut seen = BTreeSet::new();
    for key in &KEYS {
        let names = key.toml.into_iter().map(|name| format!("toml {name}"));
        let names = names.chain(key.flag.into_iter().map(|name| format!("--{name}")));
        let names = names.chain(key.short.into_iter().map(|letter| format!("-{letter}")));
        for name in names.chain(key.env.iter().map(|name| (*name).to_owned())) {
            assert!(seen.insert(name.clone()), "{name}");
        }
    }
}

#[test]
fn a_flag_is_named_after_the_last_part_of_its_key_and_of_gateway_exec_and_otel_after_the_section_too() {
    for key in &KEYS {
        let Some((section, name)) = key.parts() else { continue };
        if is_table(key) {
            continue;
        }
        let (flag, variable) = (key.flag.unwrap().replace('-', "_"), key.env.first().unwrap());
        if ["gateway", "exec", "otel"].contains(&section) {
            assert_eq!(flag, format!("{section}_{name}"));
            // OpenTelemetry has names for those.
            let is_known = section == "otel" && variable.starts_with("OTEL_");
            assert!(is_known || *variable == format!("OJS_{}", flag.to_uppercase()));
        } else {
            assert_eq!(flag, name);
        }
    }
}

#[test]
fn a_key_without_a_name_in_the_ecosystem_has_the_variable_of_its_flag() {
    for key in &KEYS {
        assert_eq!(key.env.is_empty(), is_table(key));
        for name in key.env.iter().filter(|name| name.starts_with("OJS_INIT_")) {
            let flag = key.flag.unwrap().to_uppercase().replace('-', "_");
            assert_eq!(*name, format!("OJS_INIT_{flag}"));
        }
    }
}

/// Whether neither a flag nor a variable can hold it.
fn is_table(key: &Row) -> bool {
    let is_table = matches!(key.notation.form, Form::Table | Form::Commands);
    assert!(!is_table || key.toml.is_some() && key.flag.is_none(), "{key:?}");
    is_table
}

#[test]
fn a_secret_has_neither_flag_nor_name_in_the_file() {
    for key in KEYS
        .iter()
        .filter(|key| key.notation.placeholder == Secret::NOTATION.placeholder)
    {
        assert_eq!((key.flag, key.toml), (None, None));
    }
}
