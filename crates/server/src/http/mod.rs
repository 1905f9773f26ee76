//! The HTTP server (`-o http`): metrics, health checks, the API and the dashboard. It has its own thread with one event
//! loop, and never uses a worker.
//!
//! ```text
//!   listen --connections--> serve: limits of number, time and size --request--> guard: method, host, token
//!                                                                                  |
//!            response <-- route: a page, /metrics, /api/v1/..., /healthz, /readyz <-'
//! ```
//!
//! While the server restores its items, a second thread answers only `/healthz` and `/readyz` ([`Early`]).
//!
//! Invariants:
//! - READ-ONLY: no request changes the cache or a setting.
//! - BOUNDED: there are at most [`CONNECTIONS_MAX`](serve::CONNECTIONS_MAX) connections. Each one is closed after a time,
//!   whatever its client does, and its request headers have a maximum size. The body of a request is never read.
//! - GUARDED: without a valid token, if there is one, and with a host name that is not the server's, a client gets only
//!   the answers of `/healthz` and `/readyz`, and the files of the dashboard, which contain no data.
//! - The thread holds no lock while it waits for a client.

mod api;
mod guard;
mod history;
mod hot_keys;
mod listen;
mod page;
mod route;
mod serve;

#[cfg(test)]
mod tests;

use crate::config::Settings;
use crate::shared::Shared;
use guard::Guard;
use listen::Listener;
use rustls::ServerConfig;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Builder, JoinHandle, Scope, ScopedJoinHandle};
use tokio::runtime::Runtime;
use tokio::sync::Notify;

/// An HTTP server that is bound to its address, with the event loop that serves it.
pub(crate) struct HttpServer {
    listener: Listener,
    runtime: Runtime,
    guard: Guard,
    waker: HttpWaker,
}

/// Wakes the event loop of the HTTP server, which then ends if the server stops.
#[derive(Clone, Default)]
pub(crate) struct HttpWaker(Arc<Notify>);

impl HttpWaker {
    pub fn wake(&self) {
        self.0.notify_one();
    }
}

impl HttpServer {
    /// Binds the address of `-o http`, and reads the token file. Returns `None` without `-o http`. If the address cannot
    /// be bound, logs a warning and returns `None`, because the cache can serve without it. Returns an error if the
    /// settings are not safe at this address, or if an upgrade would end the HTTP server of the running process.
    ///
    /// The caller starts threads, and confines the process, after this call.
    ///
    /// `inherited` is the listening socket of an earlier process.
    pub fn bind(
        settings: &Settings,
        inherited: Option<OwnedFd>,
    ) -> Result<Option<HttpServer>, String> {
        let Some(http) = &settings.http else { return Ok(None) };
        let guard = Guard::new(http)?;
        let has_inherited = inherited.is_some();
        let listener = match Listener::bind(http, settings.tls.is_some(), inherited) {
            Ok(listener) => listener,
            Err(listen::BindError::Unsafe(reason)) => return Err(reason),
            Err(listen::BindError::Unavailable(reason)) if has_inherited => return Err(reason),
            Err(listen::BindError::Unavailable(reason)) => {
                tracing::warn!("{reason}; the server starts without HTTP");
                return Ok(None);
            }
        };
        let runtime = serve::runtime().map_err(|error| format!("-o http: {error}"))?;
        tracing::info!("http: listening on {}", listener.url());
        Ok(Some(HttpServer { listener, runtime, guard, waker: HttpWaker::default() }))
    }

    /// From now on this process removes the file of an inherited Unix socket at its end.
    pub fn claim_file(&mut self, settings: &Settings) {
        settings.http.iter().for_each(|http| self.listener.claim_file(http));
    }

    /// Returns the descriptor of the listening socket.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.listener.descriptor()
    }

    pub fn waker(&self) -> HttpWaker {
        self.waker.clone()
    }

    /// Serves requests until the server stops.
    pub fn run(self, shared: &Shared<'_>) -> io::Result<()> {
        let has_classes = shared.settings.http.as_ref().is_some_and(|http| http.has_slab_metrics);
        let app = route::Running::new(shared, &self.guard, has_classes);
        let tls = || shared.tls.as_ref().map(|tls| tls.configuration());
        let ends = || shared.is_stopping();
        self.runtime.block_on(serve::serve(self.listener, &app, tls, &self.waker.0, ends))
    }

    /// Starts a thread that answers `/healthz` and `/readyz` while the server restores its items. `tls` is the
    /// configuration for the connections of a listener with TLS.
    pub fn start_early(&self, tls: Option<Arc<ServerConfig>>) -> io::Result<Early> {
        let listener = self.listener.try_clone()?;
        let runtime = serve::runtime()?;
        let (waker, ends) = (HttpWaker::default(), Arc::new(AtomicBool::new(false)));
        let (notify, ends_now) = (Arc::clone(&waker.0), Arc::clone(&ends));
        let run = move || {
            let is_ended = || ends_now.load(Ordering::Acquire);
            let app = route::Starting;
            runtime.block_on(serve::serve(listener, &app, || tls.clone(), &notify, is_ended))
        };
        let thread = Builder::new().name("http-start".to_owned()).spawn(run)?;
        Ok(Early { thread, waker, ends })
    }
}

/// Starts the thread of the HTTP server in `scope`. If its event loop fails, the thread ends with a warning, and the cache
/// serves without it.
pub(crate) fn start<'scope, 'e: 'scope>(
    http: HttpServer,
    scope: &'scope Scope<'scope, '_>,
    shared: &'e Shared<'e>,
) -> io::Result<ScopedJoinHandle<'scope, ()>> {
    Builder::new().name("http".to_owned()).spawn_scoped(scope, move || {
        if let Err(error) = http.run(shared) {
            tracing::warn!("http: the event loop failed: {error}; the cache serves without HTTP");
        }
    })
}

/// The thread that answers health checks while the server starts.
pub(crate) struct Early {
    thread: JoinHandle<io::Result<()>>,
    waker: HttpWaker,
    ends: Arc<AtomicBool>,
}

impl Early {
    /// Ends the thread.
    pub fn end(self) {
        self.ends.store(true, Ordering::Release);
        self.waker.wake();
        match self.thread.join() {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!("http: {error}"),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
}
