//! Reading and writing items by address and proof. That the proof belongs to the address is left to the
//! caller: handles ([`Item`](super::Item)) are to take the place of all this.

use super::arena::Header;
use super::memory::Memory;
use super::proof::{MetaRight, OwnedChunk, ReadProof, ValueRight};
use super::state::Kind;
use crate::layout::{
    CHAIN_SIZE_BYTES, COST_SIZE_BYTES, ChunkAddress, HEADER_SIZE_BYTES, ItemLayout, ItemMeta,
};
use slabwise_base::{Cost, Expiry};

/// What stands there in an item of unknown cost: the code of no cost.
const UNKNOWN_COST: u16 = u16::MAX;

impl Memory {
    /// The header of a chunk.
    #[inline]
    pub fn header(&self, address: ChunkAddress) -> Header<'_> {
        self.arena.header(address)
    }

    /// An item's layout.
    #[inline]
    pub fn layout(&self, address: ChunkAddress) -> ItemLayout {
        self.header(address).state().load().layout()
    }

    /// An item's key.
    #[inline]
    pub fn key<'g>(&'g self, address: ChunkAddress, proof: ReadProof<'g>) -> &'g [u8] {
        let state = self.header(address).state().load();
        self.arena.bytes(address, state.layout().key(), state.key_len(), proof)
    }

    /// The part of an item's value that is in its first chunk, or the part in a body.
    #[inline]
    pub fn value_part<'g>(&'g self, address: ChunkAddress, proof: ReadProof<'g>) -> &'g [u8] {
        let header = self.header(address);
        let state = header.state().load();
        let start = match state.kind() {
            Kind::Body => HEADER_SIZE_BYTES,
            _ => state.layout().value(),
        };
        self.arena.bytes(address, start, header.len(), proof)
    }

    fn word(&self, address: ChunkAddress, at: usize, proof: ReadProof<'_>) -> u32 {
        let bytes = self.arena.bytes(address, at, 4, proof);
        u32::from_le_bytes(bytes.try_into().expect("four bytes were asked for"))
    }

    /// The client flags of an item.
    pub fn client_flags(&self, address: ChunkAddress, proof: ReadProof<'_>) -> u32 {
        let has_flags = self.header(address).state().load().fields().flags;
        if has_flags { self.word(address, HEADER_SIZE_BYTES, proof) } else { 0 }
    }

    /// When an item ends.
    #[inline]
    pub fn expiry(&self, address: ChunkAddress, proof: ReadProof<'_>) -> Expiry {
        let state = self.header(address).state().load();
        if !state.has_expiry() {
            return Expiry::NEVER;
        }
        Expiry::from_bits(self.word(address, state.layout().expiry(), proof))
    }

    /// Changes when an item that stores an expiry ends.
    pub fn set_expiry(&self, right: &MetaRight<'_>, expiry: Expiry) {
        let state = self.header(right.address()).state().load();
        assert!(state.has_expiry(), "an item without the field cannot take an expiry in place");
        let at = state.layout().expiry();
        self.arena.overwrite_meta(right, at, expiry.to_bits().to_le_bytes());
    }

    /// What an item costs to recompute, if that is known.
    #[inline]
    pub fn cost(&self, address: ChunkAddress, proof: ReadProof<'_>) -> Option<Cost> {
        let state = self.header(address).state().load();
        if !state.fields().cost {
            return None;
        }
        let bytes = self.arena.bytes(address, state.layout().cost(), COST_SIZE_BYTES, proof);
        let bits = u16::from_le_bytes(bytes.try_into().expect("two bytes were asked for"));
        (bits != UNKNOWN_COST).then(|| Cost::from_bits(bits))
    }

    /// What a client said of an item.
    pub fn meta(&self, address: ChunkAddress, proof: ReadProof<'_>) -> ItemMeta {
        let (client_flags, expiry) =
            (self.client_flags(address, proof), self.expiry(address, proof));
        ItemMeta { client_flags, expiry, cost: self.cost(address, proof) }
    }

    /// An item's rank in its class; 0 of an item that stores none.
    #[inline]
    pub fn rank(&self, address: ChunkAddress, proof: ReadProof<'_>) -> u32 {
        let state = self.header(address).state().load();
        if !state.fields().rank {
            return 0;
        }
        self.word(address, state.layout().rank(), proof)
    }

    /// Ranks an item that stores a rank.
    pub fn set_rank(&self, right: &MetaRight<'_>, rank: u32) {
        let at = self.layout(right.address()).rank();
        self.arena.overwrite_meta(right, at, rank.to_le_bytes());
    }

    /// Ranks an item that is not published yet and stores a rank.
    pub fn write_rank(&self, chunk: &mut OwnedChunk, rank: u32) {
        let at = self.layout(chunk.address()).rank();
        self.arena.owned_bytes(chunk, at, 4).copy_from_slice(&rank.to_le_bytes());
    }

    /// Bytes of an item's whole value.
    #[inline]
    pub fn value_len(&self, address: ChunkAddress, proof: ReadProof<'_>) -> usize {
        let header = self.header(address);
        let state = header.state().load();
        if !state.chained() {
            return header.len();
        }
        self.word(address, state.layout().chain(), proof) as usize
    }

    /// The first body of a chained item.
    pub fn first_body(&self, address: ChunkAddress, proof: ReadProof<'_>) -> Option<ChunkAddress> {
        let state = self.header(address).state().load();
        if !state.chained() {
            return None;
        }
        let mut bits = [0; 8];
        let at = state.layout().chain() + 4;
        bits[..5].copy_from_slice(self.arena.bytes(address, at, 5, proof));
        ChunkAddress::from_bits(u64::from_le_bytes(bits))
    }

    /// Lets a published chained item begin with another body, or parts it with its bodies, to which another
    /// chunk leads by now.
    pub fn set_first_body(&self, right: &ValueRight<'_>, body: Option<ChunkAddress>) {
        let at = self.layout(right.address()).chain() + 4;
        let bits = ChunkAddress::to_bits(body).to_le_bytes();
        self.arena.overwrite_value(right, at, &bits[..5]);
    }

    /// Writes a new item's key. The state word must be set.
    pub fn write_key(&self, chunk: &mut OwnedChunk, key: &[u8]) {
        let at = self.layout(chunk.address()).key();
        self.arena.owned_bytes(chunk, at, key.len()).copy_from_slice(key);
    }

    /// Writes those of a new item's fields that it stores.
    pub fn write_meta(&self, chunk: &mut OwnedChunk, meta: ItemMeta) {
        let state = self.header(chunk.address()).state().load();
        let (fields, layout) = (state.fields(), state.layout());
        let mut write = |at, bytes: &[u8]| {
            self.arena.owned_bytes(chunk, at, bytes.len()).copy_from_slice(bytes);
        };
        if fields.flags {
            write(HEADER_SIZE_BYTES, &meta.client_flags.to_le_bytes());
        }
        if fields.expiry {
            write(layout.expiry(), &meta.expiry.to_bits().to_le_bytes());
        }
        if fields.cost {
            write(layout.cost(), &meta.cost.map_or(UNKNOWN_COST, Cost::to_bits).to_le_bytes());
        }
        if fields.rank {
            write(layout.rank(), &[0; 4]);
        }
    }

    /// Writes where a new chained item's value is.
    pub fn write_chain(
        &self,
        chunk: &mut OwnedChunk,
        value_len: usize,
        first_body: Option<ChunkAddress>,
    ) {
        let at = self.layout(chunk.address()).chain();
        let field = self.arena.owned_bytes(chunk, at, CHAIN_SIZE_BYTES);
        field[..4].copy_from_slice(&(value_len as u32).to_le_bytes());
        field[4..].copy_from_slice(&ChunkAddress::to_bits(first_body).to_le_bytes()[..5]);
    }

    /// Makes a chunk the copy of another: header words but for state and links, and all contents.
    /// `proof`: the stripe of the item.
    pub fn copy_contents(&self, from: ChunkAddress, to: &mut OwnedChunk, proof: ReadProof<'_>) {
        let (old, new) = (self.header(from), self.header(to.address()));
        new.set_cas(old.cas());
        new.set_time(old.time());
        self.arena.set_len(to, old.len());
        let size = self.contents_size_bytes(from);
        let bytes = self.arena.bytes(from, HEADER_SIZE_BYTES, size, proof);
        self.arena.owned_bytes(to, HEADER_SIZE_BYTES, size).copy_from_slice(bytes);
    }

    /// Bytes of a chunk that are in use.
    pub fn size_in_use_bytes(&self, address: ChunkAddress) -> usize {
        HEADER_SIZE_BYTES + self.contents_size_bytes(address)
    }

    /// Bytes of a chunk in use beyond its header: what a move copies.
    fn contents_size_bytes(&self, address: ChunkAddress) -> usize {
        let header = self.header(address);
        let state = header.state().load();
        match state.kind() {
            Kind::Item => state.layout().value() + header.len() - HEADER_SIZE_BYTES,
            Kind::Body => header.len(),
            Kind::Free => 0,
        }
    }

    /// The same, of an item in the cache.
    pub fn counted_size_of(&self, address: ChunkAddress, proof: ReadProof<'_>) -> u64 {
        let state = self.header(address).state().load();
        let value_len = self.value_len(address, proof);
        self.counted_size_bytes(state.key_len(), value_len, state.fields()) as u64
    }
}
