//! `page_mover=stock`: memcached 1.6's mover. Items are carried into chunks that are free already, and
//! dropped, hot or not, where there is none. One that is pinned is carried all the same, so that whoever
//! comes next pins the copy.

use super::Job;
use super::carry::Dropped;
use super::counters::{Busy, MoverCounters};
use super::warm::Met;
use crate::engine::Engine;
use crate::mem::{ChunkAddress, Kind};
use slabwise_base::Now;

impl Engine {
    /// Visits up to `budget_chunks` chunks; returns whether the pass has come to its end.
    pub(super) fn stock_pass(
        &self,
        job: &mut Job,
        counters: &mut MoverCounters,
        budget_chunks: usize,
        now: Now,
    ) -> bool {
        for _ in 0..budget_chunks.max(1) {
            let Some(address) = job.next_chunk(&self.memory) else { return true };
            counters.visits += 1;
            let visited = self.visit_stock(job, counters, address, now);
            job.note(visited, address, counters, now);
        }
        false
    }

    fn visit_stock(
        &self,
        job: &mut Job,
        counters: &mut MoverCounters,
        address: ChunkAddress,
        now: Now,
    ) -> Result<(), Busy> {
        {
            let mut class = self.class(job.order.victim).lock();
            match self.meet(job, address, &class) {
                Met::Free => return Ok(()),
                Met::Busy(why) => return Err(why),
                Met::Carriable => {}
            }
            if job.spares.is_empty() {
                job.spares.extend(class.take_free(&self.memory));
            }
        }
        if job.spares.is_empty() {
            return self.drop_for_move(job, counters, address, now);
        }
        self.carry_one(job, counters, address, now)
    }

    /// Carries what is in a chunk to the spare one.
    pub(super) fn carry_one(
        &self,
        job: &mut Job,
        counters: &mut MoverCounters,
        address: ChunkAddress,
        now: Now,
    ) -> Result<(), Busy> {
        let carried = match self.memory.header(address).state().load().kind() {
            Kind::Free => Some(Kind::Free),
            Kind::Item => self.move_item(job, address),
            Kind::Body => self.move_body(job, address),
        };
        match carried {
            Some(Kind::Body) => counters.bodies_rescued += 1,
            Some(Kind::Item) => counters.rescued += 1,
            Some(Kind::Free) => {}
            None => return Err(Busy::Held),
        }
        match self.memory.header(address).state().load().kind() {
            Kind::Free => Ok(()),
            // Who pins what was carried keeps the old chunk.
            _ => {
                job.progress(now);
                Err(Busy::Unlinked)
            }
        }
    }

    /// Drops the item that the chunk belongs to, and comes again to see the chunk free. Where eviction is off
    /// nothing is lost.
    pub(super) fn drop_for_move(
        &self,
        job: &mut Job,
        counters: &mut MoverCounters,
        address: ChunkAddress,
        now: Now,
    ) -> Result<(), Busy> {
        if !self.config.eviction_enabled {
            return Err(Busy::NoRoom);
        }
        match self.drop_holder(job, address, now) {
            Dropped::Item => {
                counters.evicted += 1;
                job.progress(now);
                Err(Busy::NoRoom)
            }
            Dropped::Nothing => Ok(()),
            Dropped::Held => Err(Busy::Held),
        }
    }
}
