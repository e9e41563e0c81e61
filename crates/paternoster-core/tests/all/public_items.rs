// SPDX-License-Identifier: MIT OR Apache-2.0
//! The public items of a crate, one a line, in its `public-items.txt`: what a change takes from its
//! users, adds or renames shows where the change is reviewed.
//!
//! ```text
//! for crate in core schedulers; do
//!   PATERNOSTER_GOLDEN=1 cargo test -p paternoster-$crate --test all -- public_items::
//! done
//! ```
//!
//! writes the lists again (the tests of `paternoster-schedulers` include this file). The sources
//! are read with `syn` (rustdoc gives its own list to nightly compilers only): an item counts if it
//! is `pub` in a public module, or re-exported by `pub use`. Hidden modules and those of features
//! for tests do not. Bodies and documentation are left out.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use quote::ToTokens;
use syn::{Attribute, Fields, ImplItem, Item, ItemImpl, TraitItem, Type, UseTree, Visibility};

const LIST: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/public-items.txt");
const SOURCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src");

/// A module by its path (`paternoster_schedulers::noop`; empty for the crate), and its contents.
struct Module {
    is_public: bool,
    items: Vec<Item>,
}

/// An item by the path of its module and its name.
type Place = (String, String);

fn join(module: &str, name: &str) -> String {
    if module.is_empty() { name.to_owned() } else { format!("{module}::{name}") }
}

/// Tokens, formatted as a person writes them.
fn text(tokens: &impl ToTokens) -> String {
    let mut text = tokens.to_token_stream().to_string();
    for (spaced, tight) in [
        (" :: ", "::"),
        (":: ", "::"),
        (" < ", "<"),
        (" > ", "> "),
        (" >", ">"),
        ("& ", "&"),
        (" ,", ","),
        (" (", "("),
        ("( ", "("),
        (" )", ")"),
        (" : ", ": "),
        (" ;", ";"),
        (" [", "["),
        ("[ ", "["),
        (" ]", "]"),
        ("# [", "#["),
        (" ?", "?"),
        ("? ", "?"),
        (",)", ")"),
        (",>", ">"),
        ("- > ", "-> "),
        ("->&", "-> &"),
        ("* const", "*const"),
        ("' ", "'"),
        ("> (", ">("),
        ("< ", "<"),
        ("> ,", ">,"),
        ("> )", ">)"),
        ("->(", "-> ("),
    ] {
        text = text.replace(spaced, tight);
    }
    text.trim().to_owned()
}

/// Whether it is for tests, or hidden in the documentation.
fn is_hidden(attributes: &[Attribute]) -> bool {
    let told = attributes.iter().map(text);
    told.into_iter().any(|told| {
        let is_of_a_test =
            ["test", "doctest", "planted-bugs", "testing", "conformance", "debug_assertions"];
        told == "#[doc(hidden)]"
            || told.starts_with("#[cfg(") && is_of_a_test.iter().any(|word| told.contains(word))
    })
}

/// Which of an item's attributes its users see.
fn seen(attributes: &[Attribute]) -> String {
    let mut seen = String::new();
    for attribute in attributes {
        let path = attribute.path();
        if path.is_ident("must_use") {
            seen.push_str("#[must_use] ");
        } else if path.is_ident("non_exhaustive") || path.is_ident("derive") {
            seen.push_str(&text(attribute));
            seen.push(' ');
        }
    }
    seen
}

const fn is_pub(visibility: &Visibility) -> bool {
    matches!(visibility, Visibility::Public(_))
}

/// Reads a module's file, and those of the modules in it.
fn collect(path: &str, file: &Path, folder: &Path, is_public: bool, found: &mut Modules) {
    let source = fs::read_to_string(file).expect("a source file");
    let items = syn::parse_file(&source).expect("it compiles").items;
    for item in &items {
        let Item::Mod(module) = item else { continue };
        if is_hidden(&module.attrs) || module.content.is_some() {
            continue;
        }
        let name = module.ident.to_string();
        let within = folder.join(&name);
        let file = Some(within.with_extension("rs")).filter(|file| file.exists());
        let file = file.unwrap_or_else(|| within.join("mod.rs"));
        let is_public = is_public && is_pub(&module.vis);
        collect(&join(path, &name), &file, &within, is_public, found);
    }
    found.insert(path.to_owned(), Module { is_public, items });
}

type Modules = BTreeMap<String, Module>;

/// The leaves of a `use`: the path, and the name it introduces.
fn leaves(tree: &UseTree, before: &str, found: &mut Vec<(String, String)>) {
    match tree {
        UseTree::Path(path) => leaves(&path.tree, &join(before, &path.ident.to_string()), found),
        UseTree::Name(name) => {
            let name = name.ident.to_string();
            found.push((join(before, &name), name));
        }
        UseTree::Rename(rename) => {
            found.push((join(before, &rename.ident.to_string()), rename.rename.to_string()));
        }
        UseTree::Group(group) => group.items.iter().for_each(|tree| leaves(tree, before, found)),
        UseTree::Glob(_) => panic!("`use {before}::*` hides what is public"),
    }
}

/// What a path in `module` means, from the crate root; `None` if it leaves this crate.
fn absolute(modules: &Modules, module: &str, path: &str) -> Option<String> {
    if let Some(rest) = path.strip_prefix("crate::") {
        return Some(rest.to_owned());
    }
    if let Some(rest) = path.strip_prefix("self::") {
        return Some(join(module, rest));
    }
    if let Some(rest) = path.strip_prefix("super::") {
        let above = module.rsplit_once("::").map_or("", |(above, _)| above);
        return Some(join(above, rest));
    }
    let first = path.split("::").next().unwrap_or(path);
    modules.contains_key(&join(module, first)).then(|| join(module, path))
}

fn name_of(item: &Item) -> Option<String> {
    let name = match item {
        Item::Const(item) => &item.ident,
        Item::Enum(item) => &item.ident,
        Item::Fn(item) => &item.sig.ident,
        Item::Struct(item) => &item.ident,
        Item::Trait(item) => &item.ident,
        Item::Type(item) => &item.ident,
        _ => return None,
    };
    Some(name.to_string())
}

/// Where `name`, as `module` uses it, is defined.
fn defined(modules: &Modules, module: &str, name: &str) -> Option<Place> {
    let items = &modules.get(module)?.items;
    if items.iter().any(|item| name_of(item).as_deref() == Some(name)) {
        return Some((module.to_owned(), name.to_owned()));
    }
    let mut used = Vec::new();
    for item in items {
        if let Item::Use(item) = item {
            leaves(&item.tree, "", &mut used);
        }
    }
    let (path, _) = used.into_iter().find(|(_, known)| known == name)?;
    let path = absolute(modules, module, &path)?;
    let (module, name) = path.rsplit_once("::").unwrap_or(("", &path));
    defined(modules, module, name)
}

/// The public names of each item that has some.
fn public_names(modules: &Modules) -> BTreeMap<Place, BTreeSet<String>> {
    let mut names: BTreeMap<Place, BTreeSet<String>> = BTreeMap::new();
    for (path, module) in modules.iter().filter(|(_, module)| module.is_public) {
        for item in &module.items {
            let (visibility, attributes) = match item {
                Item::Const(item) => (&item.vis, &item.attrs),
                Item::Enum(item) => (&item.vis, &item.attrs),
                Item::Fn(item) => (&item.vis, &item.attrs),
                Item::Struct(item) => (&item.vis, &item.attrs),
                Item::Trait(item) => (&item.vis, &item.attrs),
                Item::Type(item) => (&item.vis, &item.attrs),
                Item::Use(item) => (&item.vis, &item.attrs),
                _ => continue,
            };
            if !is_pub(visibility) || is_hidden(attributes) {
                continue;
            }
            if let Item::Use(item) = item {
                let mut used = Vec::new();
                leaves(&item.tree, "", &mut used);
                for (_, name) in used {
                    let place = defined(modules, path, &name).expect("an item of this crate");
                    names.entry(place).or_default().insert(join(path, &name));
                }
            } else if let Some(name) = name_of(item) {
                let public = join(path, &name);
                names.entry((path.clone(), name)).or_default().insert(public);
            }
        }
    }
    names
}

/// The lines of an item by the shortest of its names.
fn describe(item: &Item, name: &str, lines: &mut Vec<String>) {
    let fields = |name: &str, fields: &Fields, all: bool, lines: &mut Vec<String>| {
        for (place, field) in fields.iter().enumerate() {
            let known = field.ident.as_ref().map_or_else(|| place.to_string(), ToString::to_string);
            if all || is_pub(&field.vis) {
                lines.push(format!("{name}::{known}: {}", text(&field.ty)));
            }
        }
    };
    match item {
        Item::Const(item) => lines.push(format!("const {name}: {}", text(&item.ty))),
        Item::Fn(item) => {
            lines.push(format!("{name}: {}{}", seen(&item.attrs), text(&item.sig)));
        }
        Item::Type(item) => lines.push(format!("type {name} = {}", text(&item.ty))),
        Item::Struct(item) => {
            let generics = text(&item.generics);
            lines.push(format!("struct {name}{generics} {}", seen(&item.attrs)));
            fields(name, &item.fields, false, lines);
        }
        Item::Enum(item) => {
            lines.push(format!("enum {name}{} {}", text(&item.generics), seen(&item.attrs)));
            for variant in &item.variants {
                let name = format!("{name}::{}", variant.ident);
                lines.push(name.clone());
                fields(&name, &variant.fields, true, lines);
            }
        }
        Item::Trait(item) => {
            let above = text(&item.supertraits);
            lines.push(format!("trait {name}: {above}"));
            for item in &item.items {
                let TraitItem::Fn(item) = item else {
                    lines.push(format!("{name}::{}", text(item).split(" =").next().unwrap_or("")));
                    continue;
                };
                let kind = if item.default.is_some() { "default" } else { "required" };
                lines.push(format!(
                    "{name}::{}: {kind} {}{}",
                    item.sig.ident,
                    seen(&item.attrs),
                    text(&item.sig)
                ));
            }
        }
        _ => {}
    }
}

/// What an `impl` adds to a type with this public name.
fn describe_impl(item: &ItemImpl, name: &str, lines: &mut Vec<String>) {
    if let Some((implemented, _)) = &item.trait_ {
        let generics = text(&item.generics);
        lines.push(format!("{name}: impl{generics} {}", text(implemented)));
        return;
    }
    for item in &item.items {
        match item {
            ImplItem::Fn(method) if is_pub(&method.vis) && !is_hidden(&method.attrs) => {
                lines.push(format!(
                    "{name}::{}: {}{}",
                    method.sig.ident,
                    seen(&method.attrs),
                    text(&method.sig)
                ));
            }
            ImplItem::Const(item) if is_pub(&item.vis) && !is_hidden(&item.attrs) => {
                lines.push(format!("const {name}::{}: {}", item.ident, text(&item.ty)));
            }
            _ => {}
        }
    }
}

fn listed() -> String {
    let mut modules = Modules::new();
    let sources = PathBuf::from(SOURCES);
    collect("", &sources.join("lib.rs"), &sources, true, &mut modules);
    let names = public_names(&modules);
    let shortest = |names: &BTreeSet<String>| {
        let by_length = |name: &&String| (name.matches("::").count(), name.len());
        names.iter().min_by_key(by_length).cloned().expect("a name")
    };
    let mut lines = Vec::new();
    for (path, module) in &modules {
        for item in &module.items {
            if let Item::Impl(item) = item {
                let Type::Path(of) = &*item.self_ty else { continue };
                let of = of.path.segments.last().expect("a name").ident.to_string();
                let place = defined(&modules, path, &of);
                let public = place.and_then(|place| names.get(&place));
                if let Some(public) = public.filter(|_| !is_hidden(&item.attrs)) {
                    describe_impl(item, &shortest(public), &mut lines);
                }
                continue;
            }
            let Some(name) = name_of(item) else { continue };
            let Some(public) = names.get(&(path.clone(), name)) else { continue };
            let short = shortest(public);
            describe(item, &short, &mut lines);
            let others = public.iter().filter(|name| **name != short);
            lines.extend(others.map(|other| format!("use {short} as {other}")));
        }
    }
    let mut lines: Vec<&str> = lines.iter().map(|line| line.trim_end()).collect();
    lines.sort_unstable();
    lines.dedup();
    lines.join("\n") + "\n"
}

/// Does the list of public items match the sources? Every difference is a change that users of the
/// library notice: it belongs to the commit that makes it, and, if it removes something, to
/// CHANGELOG.md.
#[test]
fn the_list_of_public_items_is_kept() {
    let found = listed();
    if std::env::var_os("PATERNOSTER_GOLDEN").is_some() {
        fs::write(LIST, found).expect("room");
        return;
    }
    let kept = fs::read_to_string(LIST).expect("the list");
    let (kept, found): (BTreeSet<_>, BTreeSet<_>) =
        (kept.lines().collect(), found.lines().collect());
    let gone = kept.difference(&found).map(|line| format!("- {line}"));
    let new = found.difference(&kept).map(|line| format!("+ {line}"));
    let differs: Vec<String> = gone.chain(new).collect();
    let again = concat!(
        "PATERNOSTER_GOLDEN=1 cargo test -p ",
        env!("CARGO_PKG_NAME"),
        " --test all -- public_items::"
    );
    assert!(differs.is_empty(), "{}\n{again}\nwrites the list anew", differs.join("\n"));
}
