//! A crate's mentions as one graph a folder.
//!
//! A mention belongs to the folder that holds both its ends, as an edge between the two children under
//! which they lie. Where an end is the folder's own file, that end is `lib`, `main` or `mod`.

use crate::graph::Graph;
use crate::references::{Reference, Target, references};
use crate::source::{Crate, ModuleId};
use std::collections::BTreeMap;

/// The graph among a folder's direct children.
pub struct Folder {
    /// `engine`, `engine::mover`.
    pub name: String,
    /// What the folder's own file is called in the graph.
    pub own_file: String,
    /// Among its children and, where it has edges, its own file.
    pub graph: Graph,
    /// The mentions behind each edge, in the order of files and lines.
    pub mentions: BTreeMap<(String, String), Vec<Reference>>,
}

/// The folders of a crate, the whole crate first, in the order of their names. `short_name` is the crate's.
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
            folders.insert(id, Folder { name, own_file, graph, mentions: BTreeMap::new() });
        }
    }
    for reference in references(code) {
        let Target::Module(to) = reference.to else { continue };
        let from_line = code.ancestry(reference.from);
        let to_line = code.ancestry(to);
        let shared = from_line.iter().zip(&to_line).take_while(|(a, b)| a == b).count();
        let Some(folder) = folders.get_mut(&from_line[shared - 1]) else { continue };
        let own_file = folder.own_file.clone();
        let node = |line: &[ModuleId]| match line.get(shared) {
            Some(&child) => code.modules[child].name.clone(),
            None => own_file.clone(),
        };
        let edge = (node(&from_line), node(&to_line));
        folder.graph.add_edge(&edge.0, &edge.1);
        folder.mentions.entry(edge).or_default().push(reference);
    }
    let mut folders: Vec<Folder> = folders.into_values().collect();
    folders.sort_by(|a, b| a.name.cmp(&b.name));
    folders
}

impl Folder {
    /// A chain of nodes, one edge a line, each with its first mention and how many there are.
    pub fn describe_chain(&self, chain: &[String]) -> String {
        let mut lines = vec![];
        for edge in chain.windows(2) {
            let mentions = self.mentions.get(&(edge[0].clone(), edge[1].clone()));
            let Some((first, others)) = mentions.and_then(|mentions| mentions.split_first()) else {
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
