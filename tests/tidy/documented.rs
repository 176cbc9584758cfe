//! Each public item and each file has a sentence that says what it is. A field or a variant needs
//! one only where its name does not say it, which only a reader can judge. The compiler's lint
//! would ask for a sentence on each.

use std::fs;

use syn::{Attribute, ImplItem, Item, Visibility};

use crate::{is_test_file, sources};

#[test]
fn files_and_public_items_say_what_they_are() {
    let mut silent = Vec::new();
    for (_, path) in sources() {
        if is_test_file(&path) || path.ends_with("test_support.rs") {
            continue;
        }
        let file = syn::parse_file(&fs::read_to_string(&path).unwrap()).unwrap();
        let mut names = Vec::new();
        if !is_documented(&file.attrs) {
            names.push("the file".to_owned());
        }
        file.items.iter().for_each(|item| look(item, &mut names));
        silent.extend(names.iter().map(|name| format!("{}: {name}", path.display())));
    }
    assert!(silent.is_empty(), "{silent:#?}");
}

#[expect(clippy::wildcard_enum_match_arm, reason = "the grammar of Rust may grow")]
fn look(item: &Item, silent: &mut Vec<String>) {
    let (vis, attrs, name) = match item {
        Item::Const(item) => (&item.vis, &item.attrs, &item.ident),
        Item::Enum(item) => (&item.vis, &item.attrs, &item.ident),
        Item::Fn(item) => (&item.vis, &item.attrs, &item.sig.ident),
        Item::Static(item) => (&item.vis, &item.attrs, &item.ident),
        Item::Struct(item) => (&item.vis, &item.attrs, &item.ident),
        Item::Trait(item) => (&item.vis, &item.attrs, &item.ident),
        Item::Type(item) => (&item.vis, &item.attrs, &item.ident),
        Item::Impl(item) if item.trait_.is_none() => {
            return item.items.iter().for_each(|item| look_at_part(item, silent));
        }
        _ => return,
    };
    note(vis, attrs, name, silent);
}

#[expect(clippy::wildcard_enum_match_arm, reason = "the grammar of Rust may grow")]
fn look_at_part(item: &ImplItem, silent: &mut Vec<String>) {
    match item {
        ImplItem::Fn(item) => note(&item.vis, &item.attrs, &item.sig.ident, silent),
        ImplItem::Const(item) => note(&item.vis, &item.attrs, &item.ident, silent),
        _ => {}
    }
}

fn note(vis: &Visibility, attrs: &[Attribute], name: &syn::Ident, silent: &mut Vec<String>) {
    if matches!(vis, Visibility::Public(_)) && !is_documented(attrs) {
        silent.push(name.to_string());
    }
}

fn is_documented(attrs: &[Attribute]) -> bool {
    attrs.iter().any(|attribute| attribute.path().is_ident("doc"))
}
