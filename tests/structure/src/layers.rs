//! Compares the references between the modules of a folder with the layers that docs/ARCHITECTURE.md declares.
//!
//! A declaration is a fenced block whose first line is `layers` and the folder's name. Each line is one layer, the
//! highest first. A line contains the names of modules, optionally followed by `#` and a comment. A module may use only
//! modules of layers below its own.

use crate::folders::Folder;
use crate::graph::Graph;
use crate::references::{Target, references};
use crate::source::Crate;
use std::collections::BTreeMap;

/// The declared layers of one folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Declaration {
    /// The folder: `engine`, `engine::mover`, or `crates` for the crates themselves.
    pub folder: String,
    /// The names of the modules in each layer, from top to bottom.
    pub layers: Vec<Vec<String>>,
}

/// Returns all declarations in a Markdown text.
pub fn declarations(markdown: &str) -> Vec<Declaration> {
    let mut found = vec![];
    let mut lines = markdown.lines();
    while let Some(line) = lines.next() {
        let Some(folder) = line.trim().strip_prefix("```layers ") else { continue };
        let layers = lines
            .by_ref()
            .take_while(|line| line.trim() != "```")
            .map(|line| line.split('#').next().unwrap_or_default())
            .map(|names| names.split_whitespace().map(str::to_owned).collect::<Vec<String>>())
            .filter(|layer| !layer.is_empty())
            .collect();
        found.push(Declaration { folder: folder.trim().to_owned(), layers });
    }
    found
}

/// Returns the graph of the crates: an edge is a reference in product code from one crate to another.
pub fn crate_graph(crates: &[Crate]) -> Folder {
    let short = |name: &str| name.strip_prefix("slabwise_").unwrap_or(name).to_owned();
    let mut folder = Folder {
        name: "crates".to_owned(),
        own_file: String::new(),
        graph: Graph::default(),
        references: BTreeMap::new(),
    };
    for code in crates {
        folder.graph.add_node(&short(&code.name));
        for reference in references(code) {
            if let Target::Crate(name) = &reference.to
                && crates.iter().any(|other| other.name == *name)
            {
                folder.graph.add_edge(&short(&code.name), &short(name));
                let edge = (short(&code.name), short(name));
                folder.references.entry(edge).or_default().push(reference);
            }
        }
    }
    folder
}

/// Returns a message for each violation of a folder: wrong declarations first, then upward references and cycles, from
/// the shortest chain to the longest.
pub fn violations(folder: &Folder, declaration: Option<&Declaration>) -> Vec<String> {
    let mut found: Vec<(usize, String)> = vec![];
    if let Some(declaration) = declaration {
        found.extend(
            declaration_errors(folder, declaration).into_iter().map(|message| (0, message)),
        );
        for chain in upward_edges(folder, declaration) {
            let message = format!(
                "{}: {} uses a module that is not in a lower layer",
                folder.name,
                chain.join(" -> ")
            );
            found.push((chain.len(), format!("{message}\n{}", folder.describe_chain(&chain))));
        }
    }
    for cycle in folder.graph.cycles() {
        let message = format!("{}: {} is a cycle", folder.name, cycle.join(" -> "));
        found.push((cycle.len(), format!("{message}\n{}", folder.describe_chain(&cycle))));
    }
    found.sort_by_key(|(length, _)| *length);
    found.into_iter().map(|(_, message)| message).collect()
}

/// Returns a message for each module that is declared twice, that is not declared, or that is declared but missing.
fn declaration_errors(folder: &Folder, declaration: &Declaration) -> Vec<String> {
    let mut wrong = vec![];
    let declared: Vec<&String> = declaration.layers.iter().flatten().collect();
    for (index, name) in declared.iter().enumerate() {
        if declared[..index].contains(name) {
            wrong.push(format!("{}: {name} is declared twice", folder.name));
        }
        if **name != folder.own_file && !folder.graph.nodes().any(|node| node == name.as_str()) {
            wrong.push(format!("{}: {name} is declared, but there is no such module", folder.name));
        }
    }
    for node in folder.graph.nodes() {
        let needs_layer = node != folder.own_file || folder.graph.is_connected(node);
        if needs_layer && !declared.iter().any(|name| *name == node) {
            wrong.push(format!("{}: {node} is in no declared layer", folder.name));
        }
    }
    wrong
}

/// Returns the edges to a module of the same layer or of a higher layer. Each edge is a chain of two nodes.
fn upward_edges(folder: &Folder, declaration: &Declaration) -> Vec<Vec<String>> {
    let depth = |name: &str| {
        declaration.layers.iter().position(|layer| layer.iter().any(|member| member == name))
    };
    let goes_up = |from: &str, to: &str| match (depth(from), depth(to)) {
        (Some(from), Some(to)) => to <= from,
        _ => false,
    };
    let edges = folder.graph.edges().filter(|(from, to)| goes_up(from, to));
    edges.map(|(from, to)| vec![from.to_owned(), to.to_owned()]).collect()
}
