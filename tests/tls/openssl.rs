//! OpenSSL's client `s_client`, for requests that rustls's client refuses to send.

use std::io::{Read, Write};
use std::net::SocketAddr;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// A running `s_client`. It ends when this value is dropped, because its standard input then ends.
pub struct OpenSslClient {
    process: Child,
    stdin: ChildStdin,
    stdout: ChildStdout,
}

impl OpenSslClient {
    /// Connects with these arguments. The client does not verify the server.
    pub fn connect(address: SocketAddr, arguments: &[&str]) -> OpenSslClient {
        let mut process = Command::new("openssl")
            .args(["s_client", "-connect", &address.to_string()])
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("openssl can be started (run ./test to install it)");
        let stdin = process.stdin.take().expect("stdin is a pipe");
        let stdout = process.stdout.take().expect("stdout is a pipe");
        OpenSslClient { process, stdin, stdout }
    }

    /// Writes to the process. It sends the bytes to the server, unless they are a command of its own.
    pub fn write(&mut self, bytes: &[u8]) {
        // If the process has ended, a later read shows it.
        let _ = self.stdin.write_all(bytes).and_then(|()| self.stdin.flush());
    }

    /// Reads the output of the process until it ends with `end`. Panics if the output ends first.
    pub fn read_until(&mut self, end: &[u8]) {
        let mut output = Vec::new();
        let mut byte = [0];
        while !output.ends_with(end) {
            let count = self.stdout.read(&mut byte).expect("the output can be read");
            output.extend(&byte[..count]);
            let (end, output) = (end.escape_ascii(), output.escape_ascii());
            assert!(count > 0, "the output should contain '{end}': {output}");
        }
    }

    /// Waits until the process ends, which it does when the connection ends. Returns the rest of its output, and its
    /// errors.
    pub fn wait(self) -> String {
        let OpenSslClient { process, stdin, mut stdout } = self;
        let mut output = Vec::new();
        stdout.read_to_end(&mut output).expect("the output can be read");
        drop(stdin);
        let errors = process.wait_with_output().expect("the process can be waited for").stderr;
        output.extend(errors);
        String::from_utf8_lossy(&output).into_owned()
    }
}
