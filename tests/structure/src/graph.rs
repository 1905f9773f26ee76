//! A graph of named nodes with its cycles and shortest chains.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// The set of nodes that each node uses.
#[derive(Clone, Debug, Default)]
pub struct Graph {
    uses: BTreeMap<String, BTreeSet<String>>,
}

impl Graph {
    /// Adds a node without edges unless it exists.
    pub fn add_node(&mut self, node: &str) {
        self.uses.entry(node.to_owned()).or_default();
    }

    /// Adds an edge and its nodes.
    pub fn add_edge(&mut self, from: &str, to: &str) {
        self.add_node(to);
        self.uses.entry(from.to_owned()).or_default().insert(to.to_owned());
    }

    /// Returns the nodes in name order.
    pub fn nodes(&self) -> impl Iterator<Item = &str> {
        self.uses.keys().map(String::as_str)
    }

    /// Returns the edges in name order.
    pub fn edges(&self) -> impl Iterator<Item = (&str, &str)> {
        self.uses
            .iter()
            .flat_map(|(from, used)| used.iter().map(move |to| (from.as_str(), to.as_str())))
    }

    /// True if the node has an edge.
    pub fn is_connected(&self, node: &str) -> bool {
        self.edges().any(|(from, to)| from == node || to == node)
    }

    /// Returns the shortest chain of nodes from `from` to `to`, including both.
    pub fn shortest_chain(&self, from: &str, to: &str) -> Option<Vec<String>> {
        let mut came_from: BTreeMap<&str, &str> = BTreeMap::new();
        let mut queue = VecDeque::from([from]);
        while let Some(node) = queue.pop_front() {
            for next in self.uses.get(node).into_iter().flatten() {
                let next = next.as_str();
                if next != from && !came_from.contains_key(next) {
                    came_from.insert(next, node);
                    queue.push_back(next);
                }
            }
        }
        let mut chain = vec![to.to_owned()];
        let mut at = to;
        while at != from {
            at = came_from.get(at)?;
            chain.push(at.to_owned());
        }
        chain.reverse();
        Some(chain)
    }

    /// Returns the shortest cycle through each edge on a cycle, without duplicates, shortest first. A cycle starts at
    /// its smallest name, and its last node is the first again.
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

    /// Returns the strongly connected components of two or more nodes.
    pub fn components(&self) -> Vec<Vec<String>> {
        let mut components: Vec<Vec<String>> = vec![];
        for node in self.nodes() {
            if components.iter().any(|tangle| tangle.iter().any(|member| member == node)) {
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

    /// Returns the nodes in layers from top to bottom: each node is one layer above the highest node that it uses. The
    /// nodes of a strongly connected component share a layer.
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
            for tangle in self.components() {
                let highest = tangle.iter().map(|node| heights[node.as_str()]).max().unwrap_or(0);
                for node in &tangle {
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
                let on_it = heights.iter().filter(|(_, at)| **at == height);
                on_it.map(|(node, _)| (*node).to_owned()).collect()
            })
            .collect()
    }
}
