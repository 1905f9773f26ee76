//! The paths of the HTTP server and their responses.

use super::api::{self, Sources};
use super::guard::{Guard, Refusal};
use super::history::History;
use super::hot_keys::HotKeys;
use super::page;
use crate::metrics;
use crate::shared::Shared;
use crate::stats::StatsContext;
use http_body_util::Full;
use hyper::StatusCode;
use hyper::body::Bytes;
use hyper::header::{self, HeaderName, HeaderValue};
use hyper::http::request::Parts;
use std::cell::RefCell;

pub(super) type Response = hyper::Response<Full<Bytes>>;

/// Answers requests.
pub(super) trait App {
    fn answer(&self, request: &Parts) -> Response;

    /// Does periodic work. The event loop calls this function once a second.
    fn tick(&self) {}
}

/// The headers of every response. The dashboard may use only files of this server, and no other site may use them.
const HEADERS: [(HeaderName, HeaderValue); 6] = [
    (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
    (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
    (header::REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
    (
        header::CONTENT_SECURITY_POLICY,
        HeaderValue::from_static(
            "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
             base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
        ),
    ),
    (
        HeaderName::from_static("cross-origin-resource-policy"),
        HeaderValue::from_static("same-origin"),
    ),
    (
        HeaderName::from_static("cross-origin-opener-policy"),
        HeaderValue::from_static("same-origin"),
    ),
];

const JSON: &str = "application/json";
const TEXT: &str = "text/plain; charset=utf-8";

/// Makes a response. `content_type` must be a valid header value.
fn respond(status: StatusCode, content_type: &'static str, body: impl Into<Bytes>) -> Response {
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.extend(HEADERS);
    response
}

fn refuse(refusal: Refusal) -> Response {
    let mut response = respond(refusal.status(), TEXT, refusal.text());
    let (name, value) = match refusal {
        Refusal::Method => (header::ALLOW, "GET, HEAD"),
        Refusal::Token => (header::WWW_AUTHENTICATE, "Bearer"),
        Refusal::Host => return response,
    };
    response.headers_mut().insert(name, HeaderValue::from_static(value));
    response
}

/// Answers a health check, or returns `None` for other paths. `is_ready` is true if the cache serves requests.
fn health(request: &Parts, is_ready: bool) -> Option<Response> {
    match request.uri.path() {
        "/healthz" => Some(respond(StatusCode::OK, TEXT, "ok\n")),
        "/readyz" if is_ready => Some(respond(StatusCode::OK, TEXT, "ready\n")),
        "/readyz" => Some(respond(StatusCode::SERVICE_UNAVAILABLE, TEXT, "not ready\n")),
        _ => None,
    }
}

/// The server while it restores its items.
pub(super) struct Starting;

impl App for Starting {
    fn answer(&self, request: &Parts) -> Response {
        let unavailable = || respond(StatusCode::SERVICE_UNAVAILABLE, TEXT, "the server starts\n");
        health(request, false).unwrap_or_else(unavailable)
    }
}

/// The server while it serves clients.
pub(super) struct Running<'r, 'e> {
    shared: &'r Shared<'e>,
    guard: &'r Guard,
    /// True if the metrics include those of classes.
    has_classes: bool,
    history: RefCell<History>,
    /// `None` without `-o http_hot_keys`.
    hot_keys: Option<RefCell<HotKeys>>,
}

impl<'r, 'e> Running<'r, 'e> {
    pub fn new(shared: &'r Shared<'e>, guard: &'r Guard, has_classes: bool) -> Running<'r, 'e> {
        let hot_keys = shared.key_samples.is_some().then(RefCell::default);
        Running { shared, guard, has_classes, history: RefCell::default(), hot_keys }
    }

    fn context(&self) -> StatsContext<'_> {
        StatsContext { shared: self.shared, now: self.shared.clock.now() }
    }

    /// Answers a request that may read statistics.
    fn answer_permitted(&self, request: &Parts) -> Response {
        let path = request.uri.path();
        if path == "/metrics" {
            let text = metrics::render(self.context(), self.has_classes);
            return respond(StatusCode::OK, metrics::CONTENT_TYPE, text);
        }
        let document = path.strip_prefix(api::PREFIX).and_then(|name| {
            let hot_keys = self.hot_keys.as_ref().map(RefCell::borrow);
            let sources =
                Sources { history: &self.history.borrow(), hot_keys: hot_keys.as_deref() };
            api::document(self.context(), &sources, name, request.uri.query())
        });
        match document {
            Some(json) => respond(StatusCode::OK, JSON, json),
            None => respond(StatusCode::NOT_FOUND, TEXT, not_found()),
        }
    }
}

impl App for Running<'_, '_> {
    fn answer(&self, request: &Parts) -> Response {
        if let Err(refusal @ Refusal::Method) = self.guard.check(request, false) {
            return refuse(refusal);
        }
        if let Some(response) = health(request, !self.shared.is_stopping()) {
            return response;
        }
        let file = page::file(request.uri.path());
        if let Err(refusal) = self.guard.check(request, file.is_none()) {
            return refuse(refusal);
        }
        if let Some(file) = file {
            return respond(StatusCode::OK, file.content_type, file.content);
        }
        self.answer_permitted(request)
    }

    fn tick(&self) {
        self.history.borrow_mut().record(self.context());
        if let Some(hot_keys) = &self.hot_keys {
            hot_keys.borrow_mut().record(self.shared);
        }
    }
}

/// Returns the text for an unknown path: all known paths.
fn not_found() -> String {
    let documents = api::NAMES.map(|name| format!("{}{name}\n", api::PREFIX)).concat();
    format!("not found; the paths are:\n/\n/metrics\n/healthz\n/readyz\n{documents}")
}
