//! Circles of files: files of a crate that import each other in a loop.
//!
//! An arrow leads from a file to the file that defines a name it uses. A name that a module only
//! hands on (`pub use`) is followed to its definition, and handing it on is no arrow. What a module
//! takes from the modules inside it is no arrow either: it brings them together. Tests inside files
//! do not count.

use std::collections::{BTreeMap, BTreeSet};
use syn::visit::{self, Visit};

/// A module: the names from the crate's root to it.
type Module = Vec<String>;

/// The circles of a crate: of each, its modules in order. A `path` is that of the file below `src`.
pub fn circles(files: &[(String, syn::File)]) -> Vec<Vec<String>> {
    let modules: BTreeMap<Module, Uses> =
        files.iter().map(|(path, file)| (module_of(path), Uses::of(path, file))).collect();
    let arrows: BTreeMap<&Module, BTreeSet<&Module>> =
        modules.iter().map(|(module, uses)| (module, targets(&modules, module, uses))).collect();
    loops(&arrows)
}

/// The module of a file: `a/b.rs` and `a/b/mod.rs` are `[a, b]`, the root is empty.
fn module_of(path: &str) -> Module {
    let mut parts: Module = path.trim_end_matches(".rs").split('/').map(str::to_owned).collect();
    if matches!(parts.last().map(String::as_str), Some("mod" | "lib" | "main")) {
        parts.pop();
    }
    parts
}

/// Paths that a file uses, from the crate's root on.
#[derive(Default)]
struct Uses {
    module: Module,
    /// What an inline module adds to the file's module.
    inside: Module,
    paths: BTreeSet<Module>,
    /// Names that `use` brings in, and the paths behind them.
    names: BTreeMap<String, Module>,
    /// What is visited is `pub use`.
    hands_on: bool,
}

impl Uses {
    fn of(path: &str, file: &syn::File) -> Uses {
        let mut uses = Uses { module: module_of(path), ..Uses::default() };
        uses.visit_file(file);
        uses
    }

    /// The path from the root; `None` if it leads out of the crate.
    fn absolute(&self, segments: &[String]) -> Option<Module> {
        let mut base = [self.module.as_slice(), &self.inside].concat();
        let mut rest = segments;
        match segments.first().map(String::as_str) {
            Some("crate") => (base, rest) = (Module::new(), &segments[1..]),
            Some("self") => rest = &segments[1..],
            Some("super") => {
                while rest.first().is_some_and(|segment| segment == "super") {
                    base.pop();
                    rest = &rest[1..];
                }
            }
            _ => return None,
        }
        base.extend(rest.iter().cloned());
        Some(base)
    }

    fn add_tree(&mut self, before: &mut Vec<String>, tree: &syn::UseTree) {
        match tree {
            syn::UseTree::Path(path) => {
                before.push(path.ident.to_string());
                self.add_tree(before, &path.tree);
                before.pop();
            }
            syn::UseTree::Group(group) => {
                for tree in &group.items {
                    self.add_tree(before, tree);
                }
            }
            syn::UseTree::Name(name) => self.add_use(before, name.ident.to_string(), &name.ident),
            syn::UseTree::Rename(rename) => {
                self.add_use(before, rename.ident.to_string(), &rename.rename);
            }
            syn::UseTree::Glob(_) => {
                let path = self.absolute(before).unwrap_or_else(|| self.child(before));
                self.add_path(path);
            }
        }
    }

    fn add_use(&mut self, before: &[String], last: String, name: &syn::Ident) {
        let mut segments = before.to_vec();
        if last != "self" {
            segments.push(last);
        }
        let path = self.absolute(&segments).unwrap_or_else(|| self.child(&segments));
        if self.inside.is_empty() {
            self.names.insert(name.to_string(), path.clone());
        }
        self.add_path(path);
    }

    fn add_path(&mut self, path: Module) {
        if !self.hands_on {
            self.paths.insert(path);
        }
    }

    /// A path without a beginning: of a child module, or of another crate, which is no module here.
    fn child(&self, segments: &[String]) -> Module {
        [self.module.as_slice(), &self.inside, segments].concat()
    }
}

fn is_test(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| match &attribute.meta {
        syn::Meta::List(list) => {
            list.path.is_ident("cfg") && list.tokens.to_string().starts_with("test")
        }
        _ => false,
    })
}

impl<'ast> Visit<'ast> for Uses {
    fn visit_item_mod(&mut self, module: &'ast syn::ItemMod) {
        if !is_test(&module.attrs) {
            self.inside.push(module.ident.to_string());
            visit::visit_item_mod(self, module);
            self.inside.pop();
        }
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        if !is_test(&item.attrs) {
            self.hands_on = !matches!(item.vis, syn::Visibility::Inherited);
            self.add_tree(&mut Vec::new(), &item.tree);
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let segments: Vec<String> =
            path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        if let Some(absolute) = self.absolute(&segments) {
            self.paths.insert(absolute);
        } else if segments.len() > 1 {
            self.paths.insert(self.child(&segments));
        }
        visit::visit_path(self, path);
    }
}

/// The modules that define what a module uses.
fn targets<'a>(
    modules: &'a BTreeMap<Module, Uses>,
    from: &Module,
    uses: &Uses,
) -> BTreeSet<&'a Module> {
    let found = uses.paths.iter().filter_map(|path| definition(modules, path, 0));
    found.filter(|to| !to.starts_with(from)).collect()
}

/// Names that are handed on are followed so many times.
const STEPS_MAX: usize = 8;

fn definition<'a>(
    modules: &'a BTreeMap<Module, Uses>,
    path: &Module,
    steps: usize,
) -> Option<&'a Module> {
    // A path into another crate ends at the module itself, which begins with the same names.
    let (length, (module, uses)) = (0..=path.len())
        .rev()
        .find_map(|length| Some((length, modules.get_key_value(&path[..length])?)))?;
    match path.get(length).and_then(|name| uses.names.get(name)) {
        Some(next) if steps < STEPS_MAX && next != path => {
            let next = [next.as_slice(), &path[length + 1..]].concat();
            definition(modules, &next, steps + 1)
        }
        _ => Some(module),
    }
}

/// Groups of modules that reach each other, each with two or more.
fn loops(arrows: &BTreeMap<&Module, BTreeSet<&Module>>) -> Vec<Vec<String>> {
    let reached: BTreeMap<&Module, BTreeSet<&Module>> =
        arrows.keys().map(|from| (*from, reachable(arrows, from))).collect();
    let mut seen = BTreeSet::new();
    let mut found = Vec::new();
    for (from, reaches) in &reached {
        let both = |to: &&&Module| reached.get(**to).is_some_and(|back| back.contains(*from));
        if reaches.contains(from) && !seen.contains(from) {
            let group: Vec<&Module> = reaches.iter().filter(both).copied().collect();
            seen.extend(group.iter().copied());
            found.push(group.iter().map(|module| name(module)).collect());
        }
    }
    found
}

fn name(module: &Module) -> String {
    if module.is_empty() { "the root".to_owned() } else { module.join("::") }
}

fn reachable<'a>(
    arrows: &BTreeMap<&'a Module, BTreeSet<&'a Module>>,
    from: &Module,
) -> BTreeSet<&'a Module> {
    let mut found = BTreeSet::new();
    let mut left: Vec<&Module> = arrows[from].iter().copied().collect();
    while let Some(module) = left.pop() {
        if found.insert(module) {
            left.extend(arrows.get(module).into_iter().flatten().copied());
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn crate_of(files: &[(&str, &str)]) -> Vec<(String, syn::File)> {
        let parse = |text| syn::parse_file(text).expect("Rust");
        files.iter().map(|(path, text)| ((*path).to_owned(), parse(text))).collect()
    }

    #[test]
    fn two_files_that_use_each_other_are_a_circle() {
        let files = crate_of(&[
            ("lib.rs", "mod a; mod b; mod c; pub use a::A;"),
            ("a.rs", "use crate::b::B; pub struct A;"),
            (
                "b.rs",
                "pub struct B; fn f(_: &super::a::A) {} #[cfg(test)] mod tests { use crate::c::C; }",
            ),
            ("c.rs", "use crate::A; pub struct C;"),
        ]);
        assert_eq!(circles(&files), [["a", "b"]]);
    }

    #[test]
    fn a_name_that_a_parent_hands_on_leads_to_its_definition() {
        let files = crate_of(&[
            ("lib.rs", "mod room;"),
            ("room/mod.rs", "mod low; mod high; use low::Low; pub use high::High;"),
            ("room/low.rs", "pub struct Low;"),
            ("room/high.rs", "use super::Low; pub struct High;"),
        ]);
        assert!(circles(&files).is_empty());
    }

    #[test]
    fn a_module_and_its_parts_are_no_circle_but_a_neighbour_in_between_makes_one() {
        let files = crate_of(&[
            ("lib.rs", "mod room; mod other;"),
            ("room.rs", "mod child; pub struct Parent(child::Child);"),
            ("room/child.rs", "pub struct Child; impl Child { fn f(_: &super::Parent) {} }"),
            ("other.rs", ""),
        ]);
        assert!(circles(&files).is_empty());
        let files = crate_of(&[
            ("room.rs", "mod child; pub struct Parent(crate::other::Other);"),
            ("room/child.rs", "fn f(_: &super::Parent) {} pub struct Child;"),
            ("other.rs", "pub struct Other(crate::room::child::Child);"),
        ]);
        assert_eq!(circles(&files), [["other", "room", "room::child"]]);
    }
}
