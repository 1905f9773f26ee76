//! An HTTP server that answers `GET /metrics`.
//!
//! Invariants: one connection at a time, for one request; a client holds it for at most [`CLIENT_TIME_MAX`]; at most
//! [`HEADERS_BYTES_MAX`] bytes of the headers of a request are kept, and its body is not read.

use crate::error::SteerError;
use crate::figures::Figures;
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::CONTENT_TYPE;
use hyper::http::request::Parts;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Response, StatusCode};
use hyper_util::rt::TokioIo;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};

/// The longest time for reading a request and writing its response.
const CLIENT_TIME_MAX: Duration = Duration::from_secs(2);
/// The maximum size of the headers of a request, in bytes.
const HEADERS_BYTES_MAX: usize = 8 << 10;
/// The pause after a connection could not be accepted, as without free descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Starts the HTTP server in a thread of its own, which ends with the process. Returns the address that it listens on.
pub fn start(address: &str, figures: Figures) -> Result<SocketAddr, SteerError> {
    let failed = |error| SteerError::Metrics { address: address.to_owned(), error };
    let socket = std::net::TcpListener::bind(address).map_err(failed)?;
    socket.set_nonblocking(true).map_err(failed)?;
    let bound = socket.local_addr().map_err(failed)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build();
    let runtime = runtime.map_err(failed)?;
    let listener = {
        let _entered = runtime.enter();
        TcpListener::from_std(socket).map_err(failed)?
    };
    let run = move || runtime.block_on(serve(listener, &figures));
    std::thread::Builder::new().name("metrics".to_owned()).spawn(run).map_err(failed)?;
    Ok(bound)
}

async fn serve(listener: TcpListener, figures: &Figures) {
    loop {
        match listener.accept().await {
            // A client that is too slow or has gone is of no interest.
            Ok((stream, _)) => {
                drop(tokio::time::timeout(CLIENT_TIME_MAX, serve_client(stream, figures)).await);
            }
            Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
        }
    }
}

async fn serve_client(stream: TcpStream, figures: &Figures) -> hyper::Result<()> {
    let service = service_fn(|request: hyper::Request<Incoming>| {
        let (parts, _) = request.into_parts();
        std::future::ready(Ok::<_, Infallible>(answer(&parts, figures)))
    });
    let mut server = http1::Builder::new();
    server.keep_alive(false).max_buf_size(HEADERS_BYTES_MAX);
    server.serve_connection(TokioIo::new(stream), service).await
}

/// Returns the response to a request with these headers.
fn answer(request: &Parts, figures: &Figures) -> Response<Full<Bytes>> {
    let (status, body) = match (&request.method, request.uri.path()) {
        (&Method::GET, "/metrics") => match figures.text() {
            Ok(text) => (StatusCode::OK, text),
            Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")),
        },
        (&Method::GET, _) => (StatusCode::NOT_FOUND, "the path is /metrics\n".to_owned()),
        _ => (StatusCode::METHOD_NOT_ALLOWED, "send GET /metrics\n".to_owned()),
    };
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    let kind = hyper::header::HeaderValue::from_static(prometheus::TEXT_FORMAT);
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}

#[cfg(test)]
mod tests {
    use super::{HEADERS_BYTES_MAX, start};
    use crate::figures::Figures;
    use std::io::{Read, Write};
    use std::net::{SocketAddr, TcpStream};

    /// Sends a request, and returns the response.
    fn ask(address: SocketAddr, request: &[u8]) -> String {
        let mut stream = TcpStream::connect(address).expect("the server listens");
        stream.write_all(request).expect("the server reads");
        let mut response = String::new();
        stream.read_to_string(&mut response).expect("the server answers");
        response
    }

    #[test]
    fn only_get_of_the_path_is_answered() {
        let address = start("127.0.0.1:0", Figures::new()).expect("a port is free");
        for (request, status) in [
            ("GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n", "HTTP/1.1 200"),
            ("GET / HTTP/1.1\r\nHost: a\r\n\r\n", "HTTP/1.1 404"),
            ("POST /metrics HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n", "HTTP/1.1 405"),
            ("stats\r\n\r\n", "HTTP/1.1 400"),
        ] {
            let response = ask(address, request.as_bytes());
            assert!(response.starts_with(status), "{request}: {response}");
        }
        let response = ask(address, b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n");
        assert!(response.ends_with("slabwise_steer_shifts_total 0\n"), "{response}");
    }

    #[test]
    fn a_client_that_sends_too_much_or_nothing_does_not_stop_the_others() {
        let address = start("127.0.0.1:0", Figures::new()).expect("a port is free");
        let _silent = TcpStream::connect(address).expect("the server listens");
        let mut long = TcpStream::connect(address).expect("the server listens");
        // The server may close the connection before it has read all bytes.
        let _ = long.write_all(b"GET /metrics HTTP/1.1\r\nX: ");
        let _ = long.write_all(&vec![b'x'; 2 * HEADERS_BYTES_MAX]);
        let response = ask(address, b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n");
        assert!(response.starts_with("HTTP/1.1 200"), "{response}");
    }
}
