//! `page_mover=stock`: memcached's mover of today. Items are carried into chunks that are free already, and
//! dropped, hot or not, where there is none.

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
            match self.visit_stock(job, counters, address, now) {
                Ok(()) => job.progress(now),
                Err(why) => {
                    counters.note_busy(why);
                    job.held.push(address);
                }
            }
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
            match self.meet(address, &class) {
                Met::Free => return Ok(()),
                Met::Held => return Err(Busy::Held),
                Met::Carriable => {}
            }
            if job.spares.is_empty() {
                job.spares.extend(class.take_free(&self.memory));
            }
        }
        if job.spares.is_empty() {
            return self.drop_where_allowed(job, counters, address, now);
        }
        self.carry_one(job, counters, address)
    }

    /// Carries what is in a chunk to the spare one.
    pub(super) fn carry_one(
        &self,
        job: &mut Job,
        counters: &mut MoverCounters,
        address: ChunkAddress,
    ) -> Result<(), Busy> {
        let carried = match self.memory.header(address).state().load().kind() {
            Kind::Free => Some(Kind::Free),
            Kind::Item => self.move_item(&mut job.spares, address),
            Kind::Body => self.move_body(job, address),
        };
        match carried {
            Some(Kind::Body) => counters.bodies_rescued += 1,
            Some(Kind::Item) => counters.rescued += 1,
            Some(Kind::Free) => {}
            None => return Err(Busy::Held),
        }
        Ok(())
    }

    /// Drops the item that the chunk belongs to; where eviction is off nothing is lost.
    fn drop_where_allowed(
        &self,
        job: &Job,
        counters: &mut MoverCounters,
        address: ChunkAddress,
        now: Now,
    ) -> Result<(), Busy> {
        if !self.config.eviction_enabled {
            return Err(Busy::NoRoom);
        }
        match self.drop_holder(job, address, now) {
            Dropped::Item => counters.evicted += 1,
            Dropped::Nothing => {}
            Dropped::Held => return Err(Busy::Held),
        }
        Ok(())
    }
}
