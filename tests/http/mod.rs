//! The HTTP server (`-o http`): metrics, health checks, hot keys, TLS, and refusals.

mod attacks;
mod client;
mod documents;
mod exporter;
mod health;
mod hot_keys;
mod tls;
