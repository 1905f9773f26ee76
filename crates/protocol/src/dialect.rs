//! What a connection speaks.

use crate::request::{Get, Parsed, Request};
use crate::text::CostWire;
use crate::{binary, meta, text};

/// What a connection speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// Lines of the classic and of the meta protocol.
    Text(CostWire),
    /// Packets.
    Binary,
}

impl Dialect {
    /// Reads one request, up to where its value or its keys begin.
    #[inline]
    pub fn parse(self, input: &[u8]) -> Parsed<'_> {
        match self {
            Dialect::Text(_) if meta::begins(input) => meta::parse(input),
            Dialect::Text(cost_wire) => text::parse(input, cost_wire),
            Dialect::Binary => binary::parse(input),
        }
    }

    /// Reads one request as [`Dialect::parse`] does; but a retrieval of one key, all of which is at hand, is a
    /// [`Request::Get`].
    #[inline]
    pub fn parse_item(self, input: &[u8]) -> Parsed<'_> {
        let mut parsed = self.parse(input);
        if let Parsed::Request { request, consumed, .. } = &mut parsed
            && let Request::Retrieve(touch) = *request
            && let Some((key, len)) = text::sole_key(&input[*consumed..])
        {
            *request = Request::Get(Get { key, touch, ..Get::default() });
            *consumed += len;
        }
        parsed
    }
}
