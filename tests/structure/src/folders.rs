//! Groups the references of a crate by folder, and makes a graph of each folder.
//!
//! A reference belongs to the innermost folder that contains both of its modules. In the graph of this folder, the
//! reference is an edge between the two children that contain the modules. The folder's own file is a node named `lib`,
//! `main` or `mod`.

use crate::graph::Graph;
use crate::references::{Reference, Target, references};
use crate::source::{Crate, ModuleId};
use std::collections::BTreeMap;

/// A folder, with the graph of its direct children.
pub struct Folder {
    /// The path of the folder's module: `engine` for the crate, `engine::mover` for a folder in it.
    pub name: String,
    /// The name of the folder's own file in the graph: `lib`, `main` or `mod`.
    pub own_file: String,
    /// The graph of the children. The folder's own file is a node only if it has edges.
    pub graph: Graph,
    /// The references of each edge, in the order of files and lines.
    pub references: BTreeMap<(String, String), Vec<Reference>>,
}

/// Returns the folders of a crate, sorted by name. The first folder is the whole crate, which is named `short_name`.
pub fn folders(code: &Crate, short_name: &str) -> Vec<Folder> {
    let mut folders: BTreeMap<ModuleId, Folder> = BTreeMap::new();
    for id in 0..code.modules.len() {
        let children: Vec<ModuleId> = code.modules[id]
            .children
            .values()
            .copied()
            .filter(|&child| !code.modules[child].is_inline)
            .collect();
        if id == 0 || !children.is_empty() {
            let mut graph = Graph::default();
            for child in children {
                graph.add_node(&code.modules[child].name);
            }
            let path = code.path(id);
            let name =
                if id == 0 { short_name.to_owned() } else { format!("{short_name}::{path}") };
            let own_file = if id == 0 { code.modules[0].name.clone() } else { "mod".to_owned() };
            folders.insert(id, Folder { name, own_file, graph, references: BTreeMap::new() });
        }
    }
    for reference in references(code) {
        let Target::Module(to) = reference.to else { continue };
        let from_ancestry = code.ancestry(reference.from);
        let to_ancestry = code.ancestry(to);
        let shared = from_ancestry.iter().zip(&to_ancestry).take_while(|(a, b)| a == b).count();
        let Some(folder) = folders.get_mut(&from_ancestry[shared - 1]) else { continue };
        let own_file = folder.own_file.clone();
        let node = |ancestry: &[ModuleId]| match ancestry.get(shared) {
            Some(&child) => code.modules[child].name.clone(),
            None => own_file.clone(),
        };
        let edge = (node(&from_ancestry), node(&to_ancestry));
        folder.graph.add_edge(&edge.0, &edge.1);
        folder.references.entry(edge).or_default().push(reference);
    }
    let mut folders: Vec<Folder> = folders.into_values().collect();
    folders.sort_by(|a, b| a.name.cmp(&b.name));
    folders
}

impl Folder {
    /// Formats a chain of nodes: one line per edge, with the first reference of the edge and the number of its other
    /// references.
    pub fn describe_chain(&self, chain: &[String]) -> String {
        let mut lines = vec![];
        for edge in chain.windows(2) {
            let references = self.references.get(&(edge[0].clone(), edge[1].clone()));
            let Some((first, others)) = references.and_then(|references| references.split_first())
            else {
                continue;
            };
            let more = match others.len() {
                0 => String::new(),
                count => format!("  (and {count} more)"),
            };
            lines.push(format!(
                "    {} -> {}    {}  {}{more}",
                edge[0], edge[1], first.place, first.text
            ));
        }
        lines.join("\n")
    }
}
