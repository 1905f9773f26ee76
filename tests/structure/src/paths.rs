//! Checks the request paths in docs/ARCHITECTURE.md: lists of the functions that a request passes through.
//!
//! A path is a fenced block whose first line is `path` and a title. Each line is `file: function`. The file is relative
//! to `crates/`, and `src/` is left out. A method has its type as a prefix: `engine/handle.rs: Handle::get`. Text after
//! `#` is a comment.

use crate::test_code::remove_test_code;
use std::fs;
use std::path::Path;
use syn::visit::{self, Visit};

/// One step of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The title of the path.
    pub title: String,
    /// The file relative to `crates/`, without `src/`: `engine/mover/warm.rs`.
    pub file: String,
    /// The function, `step`, or the method, `Warm::step`.
    pub function: String,
}

/// Returns the steps of all paths in a Markdown text. Returns an error for a line that is not `file: function`.
pub fn steps(markdown: &str) -> Result<Vec<Step>, String> {
    let mut steps = vec![];
    let mut lines = markdown.lines();
    while let Some(line) = lines.next() {
        let Some(title) = line.trim().strip_prefix("```path ") else { continue };
        for line in lines.by_ref().take_while(|line| line.trim() != "```") {
            let entry = line.split('#').next().unwrap_or_default().trim();
            if entry.is_empty() {
                continue;
            }
            let (file, function) = entry.split_once(": ").ok_or_else(|| {
                format!("path {title}: write the step as `file: function`: {entry}")
            })?;
            steps.push(Step {
                title: title.trim().to_owned(),
                file: file.trim().to_owned(),
                function: function.trim().to_owned(),
            });
        }
    }
    Ok(steps)
}

/// Returns an error if the function of a step does not exist in the source tree below `root`.
pub fn missing(root: &Path, step: &Step) -> Option<String> {
    let Some((name, file)) = step.file.split_once('/') else {
        return Some(format!(
            "path {}: {} does not begin with a crate and /",
            step.title, step.file
        ));
    };
    let path = root.join("crates").join(name).join("src").join(file);
    let Ok(text) = fs::read_to_string(&path) else {
        return Some(format!("path {}: there is no file {}", step.title, step.file));
    };
    let mut functions = Functions { scope: String::new(), names: vec![] };
    match syn::parse_file(&text) {
        Ok(mut syntax) => {
            remove_test_code(&mut syntax);
            functions.visit_file(&syntax);
        }
        Err(error) => return Some(format!("{}: {error}", step.file)),
    }
    (!functions.names.contains(&step.function))
        .then(|| format!("path {}: {} has no function {}", step.title, step.file, step.function))
}

/// Collects the functions of a file as `function` and `Type::function`.
struct Functions {
    /// The prefix `Type::` inside an `impl` block or a trait; empty elsewhere.
    scope: String,
    /// The names of the functions that were found.
    names: Vec<String>,
}

impl Functions {
    /// Calls `visit` while `scope` is the prefix.
    fn within(&mut self, scope: String, visit: impl FnOnce(&mut Functions)) {
        let outer = std::mem::replace(&mut self.scope, scope);
        visit(self);
        self.scope = outer;
    }
}

impl<'ast> Visit<'ast> for Functions {
    fn visit_item_impl(&mut self, block: &'ast syn::ItemImpl) {
        let scope = match &*block.self_ty {
            syn::Type::Path(path) => {
                path.path.segments.last().map(|last| format!("{}::", last.ident))
            }
            _ => None,
        };
        self.within(scope.unwrap_or_default(), |this| visit::visit_item_impl(this, block));
    }

    fn visit_item_trait(&mut self, definition: &'ast syn::ItemTrait) {
        let scope = format!("{}::", definition.ident);
        self.within(scope, |this| visit::visit_item_trait(this, definition));
    }

    fn visit_item_fn(&mut self, function: &'ast syn::ItemFn) {
        self.names.push(function.sig.ident.to_string());
        visit::visit_item_fn(self, function);
    }

    fn visit_impl_item_fn(&mut self, function: &'ast syn::ImplItemFn) {
        self.names.push(format!("{}{}", self.scope, function.sig.ident));
        visit::visit_impl_item_fn(self, function);
    }

    fn visit_trait_item_fn(&mut self, function: &'ast syn::TraitItemFn) {
        self.names.push(format!("{}{}", self.scope, function.sig.ident));
        visit::visit_trait_item_fn(self, function);
    }
}
