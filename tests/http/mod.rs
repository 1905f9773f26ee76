//! The HTTP server (`-o http`): metrics, health checks, and refusals.

mod attacks;
mod client;
mod exporter;
mod health;
