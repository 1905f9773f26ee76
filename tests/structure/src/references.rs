//! Finds the references between modules, with the line of each.
//!
//! A name is followed through `use` and `pub use` to the module that defines it. A re-export of an item of a submodule
//! is not a reference, but code that uses the re-export is. Macro calls are read token by token. References that only
//! the type checker can resolve (methods, fields) are not found.

use crate::source::{Crate, Import, ModuleId, Place, read_use_tree};
use proc_macro2::{TokenStream, TokenTree};
use std::path::Path;
use syn::Item;
use syn::visit::{self, Visit};

/// One reference.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Reference {
    /// The module that contains the reference.
    pub from: ModuleId,
    /// The module or crate it refers to.
    pub to: Target,
    /// The file and line.
    pub place: Place,
    /// The path as written.
    pub text: String,
}

/// The target of a reference.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Target {
    /// A module of the same crate.
    Module(ModuleId),
    /// Another crate, by its name in `use`.
    Crate(String),
}

/// Returns all references in a crate, in the order of files and lines. `from` and `to` are modules with their own file.
pub fn references(code: &Crate) -> Vec<Reference> {
    let mut found = vec![];
    for id in 0..code.modules.len() {
        for import in &code.modules[id].imports {
            let targets = resolve_use(code, id, &import.path, &mut vec![]);
            for target in targets {
                if !(import.is_public && is_below(code, &target, id)) {
                    add(code, &mut found, id, target, &import.place, &import.path);
                }
            }
        }
        for (file, item) in &code.modules[id].items {
            ReferenceVisitor { code, module: id, file, found: &mut found }.visit_item(item);
            add_own_impl(code, &mut found, id, file, item);
        }
    }
    found.sort_by(|a, b| (&a.place, &a.to).cmp(&(&b.place, &b.to)));
    found.dedup_by(|a, b| (&a.place, &a.to) == (&b.place, &b.to));
    found
}

/// Methods of a type belong to the top-level module that contains the type, in all of its files. An `impl` elsewhere is
/// a reference from the type's module to that place.
fn add_own_impl(code: &Crate, found: &mut Vec<Reference>, id: ModuleId, file: &Path, item: &Item) {
    let Item::Impl(block) = item else { return };
    let syn::Type::Path(subject) = &*block.self_ty else { return };
    if block.trait_.is_some() {
        return;
    }
    let names: Vec<String> =
        subject.path.segments.iter().map(|segment| segment.ident.to_string()).collect();
    let place = Place { file: file.to_owned(), line: block.impl_token.span.start().line };
    for target in resolve(code, id, &names, &mut vec![]) {
        if let Target::Module(definer) = target
            && code.ancestry(definer).get(1) != code.ancestry(id).get(1)
        {
            let text = [format!("methods of {}", names.join("::"))];
            add(code, found, definer, Target::Module(id), &place, &text);
        }
    }
}

fn is_below(code: &Crate, target: &Target, module: ModuleId) -> bool {
    match target {
        Target::Module(id) => code.ancestry(*id).contains(&module),
        Target::Crate(_) => false,
    }
}

fn add(
    code: &Crate,
    found: &mut Vec<Reference>,
    from: ModuleId,
    to: Target,
    place: &Place,
    path: &[String],
) {
    let from = code.file_module(from);
    let to = match to {
        Target::Module(id) => Target::Module(code.file_module(id)),
        other => other,
    };
    if to != Target::Module(from) {
        found.push(Reference { from, to, place: place.clone(), text: path.join("::") });
    }
}

/// Returns the modules that define the items of `path` in a `use` of `module`.
fn resolve_use(
    code: &Crate,
    module: ModuleId,
    path: &[String],
    passed: &mut Vec<(ModuleId, String)>,
) -> Vec<Target> {
    let local = resolve(code, module, path, passed);
    match path.first() {
        Some(name) if local.is_empty() => vec![Target::Crate(name.clone())],
        _ => local,
    }
}

/// Returns the modules that define the items of `path` in `module`, none if the path does not start in this crate.
/// `passed` holds the names already followed, because imports may be circular.
fn resolve(
    code: &Crate,
    module: ModuleId,
    path: &[String],
    passed: &mut Vec<(ModuleId, String)>,
) -> Vec<Target> {
    let mut at = module;
    let mut rest = path;
    let mut is_anchored = false;
    while let Some(first) = rest.first() {
        at = match first.as_str() {
            "crate" => 0,
            "self" => at,
            "super" => code.modules[at].parent.unwrap_or(0),
            _ => break,
        };
        is_anchored = true;
        rest = &rest[1..];
    }
    let Some((first, below)) = rest.split_first() else {
        return if is_anchored { vec![Target::Module(at)] } else { vec![] };
    };
    match lookup(code, at, first, below, passed) {
        found if found.is_empty() && is_anchored => vec![Target::Module(at)],
        found => found,
    }
}

/// Follows `name` in the module `at`, then `below` inside its definition.
fn lookup(
    code: &Crate,
    at: ModuleId,
    name: &str,
    below: &[String],
    passed: &mut Vec<(ModuleId, String)>,
) -> Vec<Target> {
    let module = &code.modules[at];
    if let Some(&child) = module.children.get(name)
        && (!below.is_empty() || !module.definitions.iter().any(|item| item == name))
    {
        let Some((next, rest)) = below.split_first() else { return vec![Target::Module(child)] };
        // A name defined by a macro is unknown, so it belongs to the module reached so far.
        return match lookup(code, child, next, rest, passed) {
            found if found.is_empty() => vec![Target::Module(child)],
            found => found,
        };
    }
    if module.definitions.iter().any(|item| item == name) {
        return vec![Target::Module(at)];
    }
    let key = (at, name.to_owned());
    if passed.contains(&key) {
        return vec![];
    }
    passed.push(key);
    let mut found = vec![];
    for import in module.imports.iter().filter(|import| import.name.as_deref() == Some(name)) {
        let path: Vec<String> = import.path.iter().chain(below).cloned().collect();
        found.extend(resolve_use(code, at, &path, passed));
    }
    if found.is_empty() {
        for import in module.imports.iter().filter(|import| import.name.is_none()) {
            found.extend(lookup_in_glob(code, at, import, name, below, passed));
        }
    }
    passed.pop();
    found
}

fn lookup_in_glob(
    code: &Crate,
    at: ModuleId,
    import: &Import,
    name: &str,
    below: &[String],
    passed: &mut Vec<(ModuleId, String)>,
) -> Vec<Target> {
    let mut found = vec![];
    for target in resolve(code, at, &import.path, passed) {
        if let Target::Module(id) = target
            && id != at
        {
            found.extend(lookup(code, id, name, below, passed));
        }
    }
    found
}

struct ReferenceVisitor<'a> {
    code: &'a Crate,
    module: ModuleId,
    file: &'a Path,
    found: &'a mut Vec<Reference>,
}

impl ReferenceVisitor<'_> {
    fn add_path(&mut self, path: &[String], line: usize) {
        for target in resolve(self.code, self.module, path, &mut vec![]) {
            self.add(target, path, line);
        }
        // A path may also start with the name of another crate.
        if let Some(first) = path.first()
            && path.len() > 1
            && first.starts_with("slabwise_")
        {
            self.add(Target::Crate(first.clone()), path, line);
        }
    }

    fn add(&mut self, target: Target, path: &[String], line: usize) {
        let place = Place { file: self.file.to_owned(), line };
        add(self.code, self.found, self.module, target, &place, path);
    }

    /// Finds the paths in the tokens of a macro: names joined by `::`, and single type names.
    fn read_tokens(&mut self, tokens: TokenStream) {
        let mut path: Vec<String> = vec![];
        let mut line = 0;
        let mut colons = 0;
        let flush = |this: &mut Self, path: &mut Vec<String>, line: usize| {
            let starts_upper = |name: &String| name.starts_with(char::is_uppercase);
            if path.len() > 1 || path.first().is_some_and(starts_upper) {
                this.add_path(path, line);
            }
            path.clear();
        };
        for token in tokens {
            match token {
                TokenTree::Ident(ident) => {
                    if colons != 2 {
                        flush(self, &mut path, line);
                    }
                    if path.is_empty() {
                        line = ident.span().start().line;
                    }
                    path.push(ident.to_string());
                    colons = 0;
                }
                TokenTree::Punct(mark) if mark.as_char() == ':' => colons += 1,
                TokenTree::Group(group) => {
                    flush(self, &mut path, line);
                    colons = 0;
                    self.read_tokens(group.stream());
                }
                _ => {
                    flush(self, &mut path, line);
                    colons = 0;
                }
            }
        }
        flush(self, &mut path, line);
    }
}

impl<'ast> Visit<'ast> for ReferenceVisitor<'_> {
    fn visit_path(&mut self, path: &'ast syn::Path) {
        let names: Vec<String> =
            path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        let line = path.segments.first().map_or(0, |segment| segment.ident.span().start().line);
        self.add_path(&names, line);
        visit::visit_path(self, path);
    }

    fn visit_item_use(&mut self, import: &'ast syn::ItemUse) {
        read_use_tree(&import.tree, &mut vec![], &mut |_, path, line| {
            for target in resolve_use(self.code, self.module, path, &mut vec![]) {
                self.add(target, path, line);
            }
        });
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        self.read_tokens(call.tokens.clone());
        visit::visit_macro(self, call);
    }

    // Attributes such as `#[error("{}", crate::b::text())]` may contain paths. The compiler's own attributes do not.
    fn visit_attribute(&mut self, attribute: &'ast syn::Attribute) {
        let own = ["allow", "cfg", "cfg_attr", "derive", "doc", "expect", "must_use", "repr"];
        if let syn::Meta::List(list) = &attribute.meta
            && !own.iter().any(|name| list.path.is_ident(name))
        {
            self.read_tokens(list.tokens.clone());
        }
    }

    // `pub(crate)` is not a reference.
    fn visit_vis_restricted(&mut self, _: &'ast syn::VisRestricted) {}
}
