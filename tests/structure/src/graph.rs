//! A directed graph of named nodes, with functions that find its cycles, its shortest chains and its layers.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// A directed graph. An edge from one node to another means that the first node uses the second.
#[derive(Clone, Debug, Default)]
pub struct Graph {
    /// The set of nodes that each node uses.
    uses: BTreeMap<String, BTreeSet<String>>,
}

impl Graph {
    /// Adds a node without edges, unless the node exists.
    pub fn add_node(&mut self, node: &str) {
        self.uses.entry(node.to_owned()).or_default();
    }

    /// Adds an edge, and its nodes if they do not exist.
    pub fn add_edge(&mut self, from: &str, to: &str) {
        self.add_node(to);
        self.uses.entry(from.to_owned()).or_default().insert(to.to_owned());
    }

    /// Returns the nodes, sorted by name.
    pub fn nodes(&self) -> impl Iterator<Item = &str> {
        self.uses.keys().map(String::as_str)
    }

    /// Returns the edges, sorted by their names.
    pub fn edges(&self) -> impl Iterator<Item = (&str, &str)> {
        self.uses
            .iter()
            .flat_map(|(from, used)| used.iter().map(move |to| (from.as_str(), to.as_str())))
    }

    /// True if an edge begins or ends at the node.
    pub fn is_connected(&self, node: &str) -> bool {
        self.edges().any(|(from, to)| from == node || to == node)
    }

    /// Returns the shortest chain of nodes from `from` to `to`, including both nodes. Returns `None` if there is no
    /// chain.
    pub fn shortest_chain(&self, from: &str, to: &str) -> Option<Vec<String>> {
        let mut predecessor: BTreeMap<&str, &str> = BTreeMap::new();
        let mut queue = VecDeque::from([from]);
        while let Some(node) = queue.pop_front() {
            for next in self.uses.get(node).into_iter().flatten() {
                let next = next.as_str();
                if next != from && !predecessor.contains_key(next) {
                    predecessor.insert(next, node);
                    queue.push_back(next);
                }
            }
        }
        let mut chain = vec![to.to_owned()];
        let mut at = to;
        while at != from {
            at = predecessor.get(at)?;
            chain.push(at.to_owned());
        }
        chain.reverse();
        Some(chain)
    }

    /// Returns cycles, the shortest first: for each edge that is part of a cycle, the shortest cycle through this edge.
    /// No cycle is returned twice. A cycle starts with the node whose name is the smallest, and ends with the same
    /// node.
    pub fn cycles(&self) -> Vec<Vec<String>> {
        let mut cycles = BTreeSet::new();
        for (from, to) in self.edges() {
            if let Some(mut cycle) = self.shortest_chain(to, from) {
                let smallest =
                    (0..cycle.len()).min_by_key(|&index| &cycle[index]).unwrap_or_default();
                cycle.rotate_left(smallest);
                cycle.push(cycle[0].clone());
                cycles.insert((cycle.len(), cycle));
            }
        }
        cycles.into_iter().map(|(_, cycle)| cycle).collect()
    }

    /// Returns the strongly connected components that have two or more nodes.
    pub fn components(&self) -> Vec<Vec<String>> {
        let mut components: Vec<Vec<String>> = vec![];
        for node in self.nodes() {
            if components.iter().any(|component| component.iter().any(|member| member == node)) {
                continue;
            }
            let members: Vec<String> = self
                .nodes()
                .filter(|other| {
                    self.shortest_chain(node, other).is_some()
                        && self.shortest_chain(other, node).is_some()
                })
                .map(str::to_owned)
                .collect();
            if members.len() > 1 {
                components.push(members);
            }
        }
        components
    }

    /// Returns the nodes in layers from top to bottom. A node is one layer above the highest node that it uses. The
    /// nodes of a strongly connected component are in the same layer.
    pub fn layers(&self) -> Vec<Vec<String>> {
        let mut heights: BTreeMap<&str, usize> = self.nodes().map(|node| (node, 0)).collect();
        let nodes = heights.len();
        for _ in 0..nodes {
            for (from, to) in self.edges() {
                if self.shortest_chain(to, from).is_none() {
                    let above = heights[to] + 1;
                    if let Some(height) = heights.get_mut(from) {
                        *height = above.max(*height);
                    }
                }
            }
            for component in self.components() {
                let highest =
                    component.iter().map(|node| heights[node.as_str()]).max().unwrap_or(0);
                for node in &component {
                    if let Some(height) = heights.get_mut(node.as_str()) {
                        *height = highest;
                    }
                }
            }
        }
        let top = heights.values().copied().max().unwrap_or(0);
        (0..=top)
            .rev()
            .map(|height| {
                let at_height = heights.iter().filter(|(_, at)| **at == height);
                at_height.map(|(node, _)| (*node).to_owned()).collect()
            })
            .collect()
    }
}
