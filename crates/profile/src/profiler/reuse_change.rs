//! The reuse times of classes after a change of the class table (`table_change.rs`).
//!
//! Reuse times count references of a class. If the class gets more or other keys, they are stretched by the ratio of the
//! references of both classes. If the keys of a class move to several classes, its references at a time are divided as
//! the recent references of the same rank among reuse times are.

use super::Profiler;
use super::table_change::{RECENT_COMPARED, Source, Target};
use crate::reuse_windows::{ClassReuses, UsedAt};

/// A source with reuse times.
struct Timed<'s> {
    source: &'s Source,
    reuses: ClassReuses,
    /// The weight of the references that each route has moved.
    flows: &'s [f64],
    /// The ranks of the reuse times among all references of the source ([`ClassReuses::ranks`]).
    ranks: Vec<(u64, f64)>,
    /// The routes of the recent references, in ascending order of their reuse times.
    recent: Vec<usize>,
}

impl Profiler {
    /// Moves the reuse times to the targets. `flows` has the weight of the references that each route of each source has
    /// moved. If all keys of a source, and no others, are those of a target, the reuse times do not change.
    pub(super) fn move_reuses(
        &mut self,
        sources: &[Source],
        targets: &[Target],
        flows: &[Vec<f64>],
    ) {
        let Some(mut windows) = self.reuses.take() else { return };
        let timed = sources.iter().zip(flows).filter_map(|(source, flows)| {
            let reuses = windows.take(source.class)?;
            Some(Timed::new(source, reuses, flows))
        });
        let timed: Vec<Timed> = timed.collect();
        for target in targets {
            let route = |timed| Some((timed, Timed::route_to(timed, target)?));
            let routes: Vec<(&Timed, usize)> = timed.iter().filter_map(route).collect();
            let all: f64 = routes.iter().map(|&(timed, route)| timed.flows[route]).sum();
            let mut reuses = ClassReuses::default();
            for &(timed, route) in &routes {
                timed.add_to(&mut reuses, route, timed.stretch(all));
            }
            for (timed, route) in routes {
                let stretch = timed.stretch(all);
                for &(rank, _) in &timed.source.routes[route].keys {
                    let (_, number) = timed.source.by_age[rank as usize];
                    let record = self.stacks.keys.get_mut(number);
                    let since = timed.reuses.now().wrapping_sub(record.used_at);
                    let stretched = (f64::from(since) * stretch) as UsedAt;
                    record.used_at = reuses.now().wrapping_sub(stretched);
                }
            }
            windows.give(target.class, reuses);
        }
        self.reuses = Some(windows);
    }
}

impl<'s> Timed<'s> {
    fn new(source: &'s Source, reuses: ClassReuses, flows: &'s [f64]) -> Timed<'s> {
        let mut recent: Vec<_> = source.recent[..source.first_infinite()].iter().collect();
        recent.sort_by_key(|it| it.reuse_time);
        let recent = recent.into_iter().map(|it| it.route).collect();
        Timed { source, ranks: reuses.ranks(), reuses, flows, recent }
    }

    /// Returns the index of the route to a target; `None` if there is none.
    fn route_to(&self, target: &Target) -> Option<usize> {
        self.source.routes.iter().position(|route| route.to == target.class)
    }

    /// Returns the number of references of a target for each reference of the source. The target receives references
    /// with the weight `all` from all sources.
    fn stretch(&self, all: f64) -> f64 {
        let own: f64 = self.flows.iter().sum();
        if own > 0.0 { all / own } else { 1.0 }
    }

    /// Adds the references of a route to the reuse times of its target.
    fn add_to(&self, reuses: &mut ClassReuses, route: usize, stretch: f64) {
        let own: f64 = self.flows.iter().sum();
        let share = if own > 0.0 { self.flows[route] / own } else { 0.0 };
        let infinite = self.source.shares(&self.source.recent[self.source.first_infinite()..]);
        let share_of = |time: Option<f64>| match time {
            None => infinite[route],
            Some(_) if self.source.routes.len() == 1 => 1.0,
            Some(time) => self.share_at_time(route, time),
        };
        reuses.add_share(&self.reuses, share, share_of, stretch);
    }

    /// Returns the share of a route in the recent references whose reuse times have nearly the rank of this time among the
    /// references of the source. Ranks are compared because the times have different units.
    fn share_at_time(&self, route: usize, time: f64) -> f64 {
        let after = self.ranks.partition_point(|&(first, _)| first as f64 <= time);
        let rank = after.checked_sub(1).map_or(0.0, |index| self.ranks[index].1);
        let at = (rank * self.recent.len() as f64) as usize;
        let from = at.saturating_sub(RECENT_COMPARED / 2);
        let compared = &self.recent[from..self.recent.len().min(at + RECENT_COMPARED / 2)];
        match compared.len() {
            0 => self.source.shares(&[])[route],
            all => compared.iter().filter(|&&it| it == route).count() as f64 / all as f64,
        }
    }
}
