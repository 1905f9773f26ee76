//! The state of rustls for one connection, and the size of its buffers.
//!
//! ```text
//!   decrypt --> input buffer --> plaintext --> take_plaintext
//!                          \---> certificates of the client
//!   encrypt --> output --> write_to
//! ```
//!
//! rustls does not report the sizes of its buffers, so this module derives them from what it gives to rustls and takes
//! from it.
//!
//! Invariants:
//! - COUNTED: [`TlsState::held_bytes`] is at least the size of the buffers that the client can make rustls hold, less 8
//!   KiB: the empty input buffer has 4 KiB, and up to 4 KiB are not counted if a handshake message begins in the same
//!   ciphertext as a request ends.
//! - BOUNDED: rustls refuses a message of a handshake that is longer than 64 KiB, so the input buffer has at most 64
//!   KiB. A handshake with more than [`HANDSHAKE_BYTES_MAX`] in all messages is refused, because rustls also keeps
//!   earlier messages until the handshake is complete.

use super::tls_records::RecordCursor;
use rustls::server::ServerConnection;
use rustls::{HandshakeKind, IoState};
use std::io::{self, IoSlice, Read, Write};

/// The maximum number of bytes that a client may send before its handshake is complete. A handshake without a client
/// certificate has about 2 KiB, and each certificate about 1 KiB.
pub(super) const HANDSHAKE_BYTES_MAX: usize = 64 << 10;
/// The maximum size of rustls's input buffer, in bytes.
const INPUT_BUFFER_BYTES_MAX: usize = 0xffff;
/// The size of rustls's input buffer while it is empty, in bytes.
const EMPTY_INPUT_BUFFER_BYTES: usize = 4 << 10;
/// The maximum difference between the ciphertext and the plaintext of a record, in bytes.
const RECORD_OVERHEAD_BYTES_MAX: usize = 5 + 8 + 16;
/// The maximum length of the plaintext of a record, in bytes.
const RECORD_PLAINTEXT_BYTES_MAX: usize = 16 << 10;

/// The reason why a connection ends with a TLS error.
#[derive(Debug, thiserror::Error)]
pub(super) enum TlsFault {
    #[error(transparent)]
    Protocol(#[from] rustls::Error),
    #[error("the input buffer refuses a record: {0}")]
    Record(io::Error),
    #[error("a record is longer than TLS allows")]
    RecordTooLong,
    #[error("a handshake has more than {HANDSHAKE_BYTES_MAX} bytes: send fewer certificates")]
    HandshakeTooLong,
}

/// The state of rustls for one connection.
pub(super) struct TlsState {
    tls: ServerConnection,
    /// The position of the client's ciphertext that rustls has received.
    cursor: RecordCursor,
    /// The maximum number of bytes of ciphertext that rustls has not decrypted completely. During the handshake it is
    /// the number of all received bytes.
    unfinished_bytes: usize,
    /// The maximum length of the input buffer.
    input_buffer_bytes: usize,
    /// The number of bytes of plaintext when there was last none before; 0 if there is none.
    plaintext_bytes: usize,
    /// The number of bytes of ciphertext that rustls has made since there was none; 0 if there is none.
    output_bytes: usize,
    /// The size of the client's certificates, which rustls keeps.
    certificate_bytes: usize,
    /// True if the client has sent the alert `close_notify`, which ends its side of the connection.
    peer_sent_close_notify: bool,
}

impl TlsState {
    pub fn new(tls: ServerConnection) -> TlsState {
        TlsState {
            tls,
            cursor: RecordCursor::default(),
            unfinished_bytes: 0,
            input_buffer_bytes: 0,
            plaintext_bytes: 0,
            output_bytes: 0,
            certificate_bytes: 0,
            peer_sent_close_notify: false,
        }
    }

    pub fn is_handshaking(&self) -> bool {
        self.tls.is_handshaking()
    }

    pub fn is_resumed(&self) -> bool {
        self.tls.handshake_kind() == Some(HandshakeKind::Resumed)
    }

    pub fn peer_sent_close_notify(&self) -> bool {
        self.peer_sent_close_notify
    }

    /// True if ciphertext waits for the socket.
    pub fn wants_write(&self) -> bool {
        self.tls.wants_write()
    }

    /// Returns the size of the buffers that the client makes rustls hold, in bytes. It is 0 for an idle connection of a
    /// client without a certificate.
    pub fn held_bytes(&self) -> usize {
        let messages = if self.is_handshaking() { self.unfinished_bytes } else { 0 };
        // The buffer is a vector, which may have allocated twice its length to grow. It is exact when it is empty.
        let input_buffer = match self.input_buffer_bytes {
            ..=EMPTY_INPUT_BUFFER_BYTES => 0,
            len => 2 * len,
        };
        input_buffer + messages + self.plaintext_bytes + self.output_bytes + self.certificate_bytes
    }

    /// Decrypts the first bytes of `ciphertext`, at most 4 KiB and at most `records_left` records. Removes these bytes,
    /// and subtracts the completed records. There is no plaintext, and `ciphertext` is not empty.
    pub fn decrypt(
        &mut self,
        ciphertext: &mut &[u8],
        records_left: &mut usize,
    ) -> Result<(), TlsFault> {
        debug_assert!(self.plaintext_bytes == 0, "the caller takes the plaintext first");
        let was_handshaking = self.is_handshaking();
        let count = self.read(ciphertext, records_left).map_err(TlsFault::Record)?;
        if count == 0 {
            return Err(TlsFault::RecordTooLong);
        }
        let state = self.tls.process_new_packets()?;
        self.count(&state);
        self.unfinished_bytes += count;
        if self.is_handshaking() {
            if self.unfinished_bytes > HANDSHAKE_BYTES_MAX {
                return Err(TlsFault::HandshakeTooLong);
            }
        } else if was_handshaking || self.plaintext_bytes > 0 {
            // A plaintext is never in the middle of a handshake message, so rustls has decrypted all complete records.
            self.unfinished_bytes = self.cursor.incomplete_bytes();
        }
        if was_handshaking && !self.is_handshaking() {
            let certificates = self.tls.peer_certificates().unwrap_or_default();
            self.certificate_bytes = certificates.iter().map(|it| it.len()).sum();
        }
        Ok(())
    }

    /// Gives the first bytes of `ciphertext` to rustls. Returns their number.
    fn read(&mut self, ciphertext: &mut &[u8], records_left: &mut usize) -> io::Result<usize> {
        let mut input =
            Input { ciphertext, cursor: &mut self.cursor, records_left, offered_bytes: 0 };
        let count = self.tls.read_tls(&mut input);
        let buffer_bytes = self.unfinished_bytes + input.offered_bytes;
        self.input_buffer_bytes = buffer_bytes.min(INPUT_BUFFER_BYTES_MAX);
        count
    }

    /// Records the buffers that rustls reports.
    fn count(&mut self, state: &IoState) {
        self.peer_sent_close_notify = state.peer_has_closed();
        self.plaintext_bytes = state.plaintext_bytes_to_read();
        self.output_bytes = self.output_bytes.max(state.tls_bytes_to_write());
    }

    /// Frees the input buffer if it is large and empty. The caller calls this function when it has no more ciphertext.
    pub fn free_input_buffer(&mut self) {
        if self.unfinished_bytes == 0 && self.input_buffer_bytes > EMPTY_INPUT_BUFFER_BYTES {
            // rustls frees the buffer when it reads. There is nothing to read, so the call returns an error.
            let _ = self.read(&mut &[][..], &mut 0);
        }
    }

    /// Moves plaintext to `target`. Returns the number of bytes.
    pub fn take_plaintext(&mut self, target: &mut [u8]) -> io::Result<usize> {
        match self.tls.reader().read(target) {
            Ok(0) => {}
            Ok(count) => return Ok(count),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
        self.plaintext_bytes = 0;
        Ok(0)
    }

    /// Encrypts at most `ssl_wbuf_size` bytes. Returns their number. No ciphertext waits for the socket.
    pub fn encrypt(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        let count = self.tls.writer().write_vectored(slices)?;
        // One more record may be the reply to a key update.
        let records = count.div_ceil(RECORD_PLAINTEXT_BYTES_MAX) + 1;
        self.output_bytes += count + records * RECORD_OVERHEAD_BYTES_MAX;
        Ok(count)
    }

    /// Makes the alert `close_notify`, which ends the server's side of the connection.
    pub fn send_close_notify(&mut self) {
        self.tls.send_close_notify();
        self.output_bytes += RECORD_OVERHEAD_BYTES_MAX + 2;
    }

    /// Writes all ciphertext. Returns the error `WouldBlock` if the socket accepts no more.
    pub fn write_to(&mut self, socket: &mut dyn Write) -> io::Result<()> {
        while self.wants_write() {
            match self.tls.write_tls(socket) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.output_bytes = 0;
        Ok(())
    }
}

/// The ciphertext that rustls reads.
struct Input<'a, 'c> {
    ciphertext: &'a mut &'c [u8],
    cursor: &'a mut RecordCursor,
    records_left: &'a mut usize,
    /// The number of bytes that the input buffer can take.
    offered_bytes: usize,
}

impl Read for Input<'_, '_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.offered_bytes = buffer.len();
        let available = &self.ciphertext[..self.ciphertext.len().min(buffer.len())];
        if available.is_empty() {
            // rustls would interpret 0 bytes as the end of the connection.
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let count = self.cursor.advance(available, self.records_left);
        let (given, rest) = self.ciphertext.split_at(count);
        buffer[..count].copy_from_slice(given);
        *self.ciphertext = rest;
        Ok(count)
    }
}
