//! Finds the references from one module to another, with the line of each reference.
//!
//! A name is followed through `use` and `pub use` to the module that defines it. A `pub use` of an item of a submodule
//! is not a reference, but code that uses the re-exported name is a reference to the submodule. The tokens of macro
//! calls are searched for paths. References that only the type checker can resolve, to methods and fields, are not
//! found.

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
    /// The module or crate to which the code refers.
    pub to: Target,
    /// The file and the line of the reference.
    pub place: Place,
    /// The path in the code, such as `crate::a::B`.
    pub text: String,
}

/// The target of a reference.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Target {
    /// A module of the same crate.
    Module(ModuleId),
    /// Another crate, by its name in `use`: `slabwise_engine`.
    Crate(String),
}

/// Returns all references in a crate, in the order of files and lines. An inline module counts as the module whose file
/// contains it.
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

/// Adds a reference from a type's module to an `impl` block of the type that is in another top-level module. All files
/// of the type's own top-level module can contain its methods.
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
        if let Target::Module(defining) = target
            && code.ancestry(defining).get(1) != code.ancestry(id).get(1)
        {
            let text = [format!("methods of {}", names.join("::"))];
            add(code, found, defining, Target::Module(id), &place, &text);
        }
    }
}

/// True if the target is the module or one of its descendants.
fn is_below(code: &Crate, target: &Target, module: ModuleId) -> bool {
    match target {
        Target::Module(id) => code.ancestry(*id).contains(&module),
        Target::Crate(_) => false,
    }
}

/// Adds a reference, unless both ends are in the same file.
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

/// Returns the modules that define the items of `path`, which is in a `use` of `module`. If the path does not start in
/// this crate, returns the crate with the path's first name.
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

/// Returns the modules that define the items of `path`, which is in code of `module`. Returns no module if the path
/// does not start in this crate. `passed` contains the names that were followed already, because imports can be
/// circular.
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

/// Returns the modules that define the item with the path `name::below`, which starts in the module `at`.
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
        // A name that is not found may be defined by a macro. It counts as defined in the module that was reached.
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

/// Returns the modules that define `name` if the glob import of the module `at` contains it.
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

/// Collects the references in the items of one module.
struct ReferenceVisitor<'a> {
    code: &'a Crate,
    module: ModuleId,
    file: &'a Path,
    found: &'a mut Vec<Reference>,
}

impl ReferenceVisitor<'_> {
    /// Adds the references of a path in the code.
    fn add_path(&mut self, path: &[String], line: usize) {
        for target in resolve(self.code, self.module, path, &mut vec![]) {
            self.add(target, path, line);
        }
        // A path can also start with the name of another crate.
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

    /// Adds the references of the paths in the tokens of a macro call: names that are joined by `::`, and single names
    /// of types.
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

    // Attributes such as `#[error("{}", crate::b::text())]` can contain paths. The compiler's attributes do not.
    fn visit_attribute(&mut self, attribute: &'ast syn::Attribute) {
        let compiler_attributes =
            ["allow", "cfg", "cfg_attr", "derive", "doc", "expect", "must_use", "repr"];
        if let syn::Meta::List(list) = &attribute.meta
            && !compiler_attributes.iter().any(|name| list.path.is_ident(name))
        {
            self.read_tokens(list.tokens.clone());
        }
    }

    // The path in `pub(crate)` is not a reference.
    fn visit_vis_restricted(&mut self, _: &'ast syn::VisRestricted) {}
}
