//! Reads the product code of a crate into a tree of modules. Each module has the names that it defines and imports.
//!
//! The reader follows the `mod` declarations from `lib.rs` or `main.rs`. It leaves out test files, because their
//! declarations have `cfg(test)`. The code of an inline module belongs to the file that contains the module. If a
//! module is declared twice, with opposite `cfg` conditions, it has the code of both files.

use crate::test_code::remove_test_code;
use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use syn::Item;

/// The index of a module in [`Crate::modules`].
pub type ModuleId = usize;

/// The product code of a crate.
pub struct Crate {
    /// The crate's name in `use`: `slabwise_engine`.
    pub name: String,
    /// All modules. The root module is the first, and each module precedes its children.
    pub modules: Vec<Module>,
    /// All source files that contain product code.
    pub files: Vec<SourceFile>,
}

/// One module.
pub struct Module {
    /// The name of the module: the last segment of its path.
    pub name: String,
    /// The parent module; `None` for the root module.
    pub parent: Option<ModuleId>,
    /// The child modules by name.
    pub children: BTreeMap<String, ModuleId>,
    /// True for an inline module, whose code is in the file of its parent.
    pub is_inline: bool,
    /// The names that the module defines.
    pub definitions: Vec<String>,
    /// The names that `use` imports.
    pub imports: Vec<Import>,
    /// The items of the module except child modules, each with its file.
    pub items: Vec<(PathBuf, Item)>,
}

/// A name imported by `use`.
#[derive(Clone, Debug)]
pub struct Import {
    /// The imported name; `None` for a glob import.
    pub name: Option<String>,
    /// The segments of the path in the `use` declaration.
    pub path: Vec<String>,
    /// True if the `use` declaration has a visibility, such as `pub` or `pub(crate)`.
    pub is_public: bool,
    /// The file and the line of the import.
    pub place: Place,
}

/// A line of a file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The path of the file, relative to the repository's root.
    pub file: PathBuf,
    /// The number of the line, starting at 1.
    pub line: usize,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file.display(), self.line)
    }
}

/// A source file, with the lines that only test builds compile.
pub struct SourceFile {
    /// The path of the file, relative to the repository's root.
    pub path: PathBuf,
    /// The whole text of the file, including test code.
    pub text: String,
    /// The ranges of lines with test code. Ranges can overlap.
    pub test_lines: Vec<RangeInclusive<usize>>,
}

/// The reason why a crate cannot be read.
#[derive(Debug)]
pub struct SourceError(String);

impl fmt::Display for SourceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for SourceError {}

/// Returns the names of the folders in `crates/` that contain a crate, sorted.
pub fn crate_names(root: &Path) -> Result<Vec<String>, SourceError> {
    let folder = root.join("crates");
    let failed = |error: std::io::Error| SourceError(format!("{}: {error}", folder.display()));
    let mut names = vec![];
    for entry in fs::read_dir(&folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        if entry.path().join("Cargo.toml").is_file() {
            names.push(entry.file_name().to_string_lossy().into_owned());
        }
    }
    names.sort();
    Ok(names)
}

impl Crate {
    /// Reads the crate in `directory`, a path relative to `root`.
    pub fn read(root: &Path, directory: &Path) -> Result<Crate, SourceError> {
        let manifest = read_text(&root.join(directory).join("Cargo.toml"))?;
        let name = manifest
            .lines()
            .find_map(|line| line.strip_prefix("name = "))
            .map(|name| name.trim().trim_matches('"').replace('-', "_"))
            .ok_or_else(|| {
                SourceError(format!(
                    "{}/Cargo.toml: there is no line with the crate's name",
                    directory.display()
                ))
            })?;
        let main_file = ["src/lib.rs", "src/main.rs"]
            .map(|file| directory.join(file))
            .into_iter()
            .find(|file| root.join(file).is_file())
            .ok_or_else(|| {
                SourceError(format!(
                    "{}: there is no src/lib.rs and no src/main.rs",
                    directory.display()
                ))
            })?;
        let stem = main_file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let mut reader =
            Reader { root, modules: vec![Module::new(stem, None, false)], files: vec![] };
        let children_in = main_file.parent().unwrap_or(Path::new("")).to_owned();
        reader.read_file(0, &main_file, &children_in)?;
        Ok(Crate { name, modules: reader.modules, files: reader.files })
    }

    /// Returns the module whose file contains the module `id`: its nearest ancestor that is not inline, or itself.
    pub fn file_module(&self, id: ModuleId) -> ModuleId {
        match self.modules[id].parent {
            Some(parent) if self.modules[id].is_inline => self.file_module(parent),
            _ => id,
        }
    }

    /// Returns the modules from the root to `id`, including both.
    pub fn ancestry(&self, id: ModuleId) -> Vec<ModuleId> {
        let mut ancestry = vec![id];
        while let Some(parent) = self.modules[ancestry[ancestry.len() - 1]].parent {
            ancestry.push(parent);
        }
        ancestry.reverse();
        ancestry
    }

    /// Returns the path of a module, such as `a::b`. The path of the root module is empty.
    pub fn path(&self, id: ModuleId) -> String {
        let names: Vec<&str> = self
            .ancestry(id)
            .into_iter()
            .skip(1)
            .map(|id| self.modules[id].name.as_str())
            .collect();
        names.join("::")
    }
}

impl Module {
    fn new(name: String, parent: Option<ModuleId>, is_inline: bool) -> Module {
        Module {
            name,
            parent,
            children: BTreeMap::new(),
            is_inline,
            definitions: vec![],
            imports: vec![],
            items: vec![],
        }
    }
}

/// The state while a crate is read.
struct Reader<'a> {
    root: &'a Path,
    modules: Vec<Module>,
    files: Vec<SourceFile>,
}

impl Reader<'_> {
    /// Reads the file of a module. `children_in` is the folder with the files of its child modules.
    fn read_file(
        &mut self,
        id: ModuleId,
        path: &Path,
        children_in: &Path,
    ) -> Result<(), SourceError> {
        let text = read_text(&self.root.join(path))?;
        let mut syntax = syn::parse_file(&text).map_err(|error| {
            SourceError(format!("{}:{}: {error}", path.display(), error.span().start().line))
        })?;
        let test_lines = remove_test_code(&mut syntax);
        self.files.push(SourceFile { path: path.to_owned(), text, test_lines });
        self.read_items(id, path, children_in, syntax.items)
    }

    /// Adds items to a module, and reads the child modules among them.
    fn read_items(
        &mut self,
        id: ModuleId,
        path: &Path,
        children_in: &Path,
        items: Vec<Item>,
    ) -> Result<(), SourceError> {
        for item in items {
            match item {
                Item::Mod(module) => self.read_module(id, path, children_in, module)?,
                Item::Use(import) => {
                    let is_public = !matches!(import.vis, syn::Visibility::Inherited);
                    read_use_tree(&import.tree, &mut vec![], &mut |name, names, line| {
                        self.modules[id].imports.push(Import {
                            name,
                            path: names.to_vec(),
                            is_public,
                            place: Place { file: path.to_owned(), line },
                        });
                    });
                }
                item => {
                    self.modules[id].definitions.extend(defined_name(&item));
                    self.modules[id].items.push((path.to_owned(), item));
                }
            }
        }
        Ok(())
    }

    /// Reads a child module: its items if it is inline, otherwise its file.
    fn read_module(
        &mut self,
        parent: ModuleId,
        path: &Path,
        children_in: &Path,
        module: syn::ItemMod,
    ) -> Result<(), SourceError> {
        let name = module.ident.to_string();
        let id = match self.modules[parent].children.get(&name) {
            Some(&id) => id,
            None => {
                let id = self.modules.len();
                self.modules.push(Module::new(
                    name.clone(),
                    Some(parent),
                    module.content.is_some(),
                ));
                self.modules[parent].children.insert(name.clone(), id);
                id
            }
        };
        let below = children_in.join(&name);
        if let Some((_, items)) = module.content {
            return self.read_items(id, path, &below, items);
        }
        if let Some(file) = path_attribute(&module.attrs) {
            let folder = path.parent().unwrap_or(Path::new(""));
            return self.read_file(id, &folder.join(file), folder);
        }
        let file = [below.with_extension("rs"), below.join("mod.rs")]
            .into_iter()
            .find(|file| self.root.join(file).is_file())
            .ok_or_else(|| {
                SourceError(format!("{}: there is no file for `mod {name}`", path.display()))
            })?;
        self.read_file(id, &file, &below)
    }
}

fn read_text(path: &Path) -> Result<String, SourceError> {
    fs::read_to_string(path).map_err(|error| SourceError(format!("{}: {error}", path.display())))
}

/// Calls `found` for each name that a `use` tree imports, with the name, its path and its line.
pub fn read_use_tree(
    tree: &syn::UseTree,
    prefix: &mut Vec<String>,
    found: &mut impl FnMut(Option<String>, &[String], usize),
) {
    let mut leaf = |ident: &syn::Ident, name: &syn::Ident| {
        let line = ident.span().start().line;
        if ident == "self" {
            let name = if name == "self" { prefix.last().cloned() } else { Some(name.to_string()) };
            found(name, prefix, line);
        } else {
            prefix.push(ident.to_string());
            found(Some(name.to_string()), prefix, line);
            prefix.pop();
        }
    };
    match tree {
        syn::UseTree::Name(end) => leaf(&end.ident, &end.ident),
        syn::UseTree::Rename(end) => leaf(&end.ident, &end.rename),
        syn::UseTree::Glob(glob) => found(None, prefix, glob.star_token.spans[0].start().line),
        syn::UseTree::Path(path) => {
            prefix.push(path.ident.to_string());
            read_use_tree(&path.tree, prefix, found);
            prefix.pop();
        }
        syn::UseTree::Group(group) => {
            for tree in &group.items {
                read_use_tree(tree, prefix, found);
            }
        }
    }
}

/// Returns the value of the attribute `#[path = "..."]`, if a module has one.
fn path_attribute(attributes: &[syn::Attribute]) -> Option<String> {
    attributes.iter().find_map(|attribute| match &attribute.meta {
        syn::Meta::NameValue(pair) if pair.path.is_ident("path") => match &pair.value {
            syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(text), .. }) => Some(text.value()),
            _ => None,
        },
        _ => None,
    })
}

/// Returns the name that an item defines in its module, if it defines one.
fn defined_name(item: &Item) -> Option<String> {
    let ident = match item {
        Item::Const(item) => &item.ident,
        Item::Enum(item) => &item.ident,
        Item::Fn(item) => &item.sig.ident,
        Item::Macro(item) => item.ident.as_ref()?,
        Item::Static(item) => &item.ident,
        Item::Struct(item) => &item.ident,
        Item::Trait(item) => &item.ident,
        Item::Type(item) => &item.ident,
        Item::Union(item) => &item.ident,
        _ => return None,
    };
    Some(ident.to_string())
}
