//! The event loop of the HTTP server: accepts connections, and limits what each one can take.

use super::listen::{Listener, Socket};
use super::route::{App, Response};
use futures_util::stream::{FuturesUnordered, StreamExt};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use rustls::ServerConfig;
use std::collections::VecDeque;
use std::convert::Infallible;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::Notify;
use tokio::time::{Instant, MissedTickBehavior};
use tokio_rustls::TlsAcceptor;

/// The maximum number of open connections. A new connection beyond it closes the oldest one, so that slow clients keep
/// no other client from being served.
pub(super) const CONNECTIONS_MAX: usize = 32;
/// The time in which a client must send the headers of a request, and in which it must begin the next request.
const HEADER_TIMEOUT: Duration = Duration::from_secs(5);
/// The time in which a client must complete the TLS handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);
/// The time after which a connection is closed. Clients connect again for later requests.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(60);
/// The maximum size of the headers of a request, in bytes.
const HEADERS_BYTES_MAX: usize = 16 << 10;
/// The maximum number of headers of a request.
const HEADERS_MAX: usize = 64;
/// The pause after a connection could not be accepted, as without free descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The time between two calls of [`App::tick`].
const TICK: Duration = Duration::from_secs(1);

/// Makes the event loop, which runs in the thread that calls [`serve`].
pub(super) fn runtime() -> io::Result<Runtime> {
    Builder::new_current_thread().enable_io().enable_time().build()
}

/// A stream of a client.
trait Stream: AsyncRead + AsyncWrite + Unpin {}
impl<S: AsyncRead + AsyncWrite + Unpin> Stream for S {}

/// A listener that is registered with the event loop.
enum Acceptor {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl Acceptor {
    async fn accept(&self) -> io::Result<Box<dyn Stream>> {
        Ok(match self {
            Acceptor::Tcp(listener) => {
                let (stream, _) = listener.accept().await?;
                // Without this option, the kernel may delay the end of a response. A failure only costs time.
                let _ = stream.set_nodelay(true);
                Box::new(stream)
            }
            Acceptor::Unix(listener) => Box::new(listener.accept().await?.0),
        })
    }
}

/// The connections that are open, oldest first.
#[derive(Default)]
struct Open {
    closers: VecDeque<Rc<Notify>>,
}

impl Open {
    /// Adds a connection, and closes the oldest one if there are too many.
    fn add(&mut self) -> Rc<Notify> {
        if self.closers.len() >= CONNECTIONS_MAX
            && let Some(oldest) = self.closers.pop_front()
        {
            oldest.notify_one();
        }
        let closer = Rc::new(Notify::new());
        self.closers.push_back(Rc::clone(&closer));
        closer
    }

    fn remove(&mut self, closer: &Rc<Notify>) {
        self.closers.retain(|it| !Rc::ptr_eq(it, closer));
    }
}

/// Serves connections until `ends` returns true, which is checked when `woken` is notified. `tls` returns the
/// configuration for new connections of a listener with TLS.
pub(super) async fn serve(
    listener: Listener,
    app: &impl App,
    tls: impl Fn() -> Option<Arc<ServerConfig>>,
    woken: &Notify,
    ends: impl Fn() -> bool,
) -> io::Result<()> {
    // The file of a Unix socket is removed at the end of this function.
    let Listener { socket, has_tls, file: _file } = listener;
    let acceptor = match socket {
        Socket::Tcp(socket) => Acceptor::Tcp(TcpListener::from_std(socket)?),
        Socket::Unix(socket) => Acceptor::Unix(UnixListener::from_std(socket)?),
    };
    let (mut open, mut connections) = (Open::default(), FuturesUnordered::new());
    let mut ticks = tokio::time::interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // After a failed accept, the open connections are served while no other is accepted.
    let mut paused_until = None;
    while !ends() {
        tokio::select! {
            () = woken.notified() => {}
            _ = ticks.tick() => app.tick(),
            Some(closer) = connections.next(), if !connections.is_empty() => open.remove(&closer),
            accepted = accept(&acceptor, paused_until) => match accepted {
                Ok(stream) => {
                    let closer = open.add();
                    let tls = has_tls.then(&tls).flatten();
                    connections.push(async move {
                        tokio::select! {
                            () = serve_stream(stream, app, tls) => {}
                            () = closer.notified() => {}
                            () = tokio::time::sleep(CONNECTION_TIMEOUT) => {}
                        }
                        closer
                    });
                }
                Err(error) => {
                    tracing::debug!("http: cannot accept a connection: {error}");
                    paused_until = Some(Instant::now() + ACCEPT_PAUSE);
                }
            },
        }
    }
    Ok(())
}

/// Accepts a connection, but not before this time.
async fn accept(acceptor: &Acceptor, paused_until: Option<Instant>) -> io::Result<Box<dyn Stream>> {
    if let Some(until) = paused_until {
        tokio::time::sleep_until(until).await;
    }
    acceptor.accept().await
}

/// Serves the requests of a client. The errors of its connection end it.
async fn serve_stream(stream: Box<dyn Stream>, app: &impl App, tls: Option<Arc<ServerConfig>>) {
    let Some(configuration) = tls else { return serve_requests(stream, app).await };
    let handshake = TlsAcceptor::from(configuration).accept(stream);
    if let Ok(Ok(stream)) = tokio::time::timeout(HANDSHAKE_TIMEOUT, handshake).await {
        serve_requests(Box::new(stream), app).await;
    }
}

async fn serve_requests(stream: Box<dyn Stream>, app: &impl App) {
    let service = service_fn(|request: hyper::Request<Incoming>| {
        // The body is dropped unread.
        let (parts, _) = request.into_parts();
        let response: Result<Response, Infallible> = Ok(app.answer(&parts));
        std::future::ready(response)
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .max_buf_size(HEADERS_BYTES_MAX)
        .max_headers(HEADERS_MAX)
        .serve_connection(TokioIo::new(stream), service)
        .await;
    if let Err(error) = served {
        tracing::debug!("http: connection ended: {error}");
    }
}
