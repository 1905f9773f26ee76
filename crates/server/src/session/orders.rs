//! Requests about no item: version, quit, statistics, orders to the server, authentication.

use super::authentication::authenticate;
use crate::admin::commands::{self, Then};
use crate::admin::debug;
use crate::context::WorkerContext;
use crate::out::Out;
use crate::sasl::Exchange;
use crate::shared::CloseReason;
use crate::stats;
use crate::wire::VERSION;
use crate::wire::rows::{Rows, StatsForm};
use crate::wire::text::Reply;
use slabwise_engine::Pinned;
use slabwise_protocol::binary::{Head, Status, compose};
use slabwise_protocol::{Admin, Exptime, Request, StatsRequest, TextAnswer};

pub(super) fn line<'e>(
    worker: &mut WorkerContext<'e>,
    request: Request<'_>,
    answer: TextAnswer,
    held: &mut Vec<Pinned<'e>>,
    out: &mut Out<'e>,
) -> Then<'e> {
    match request {
        Request::Version => {
            let out = out.bytes();
            out.extend_from_slice(b"VERSION ");
            out.extend_from_slice(VERSION.as_bytes());
            out.extend_from_slice(b"\r\n");
            Then::Nothing
        }
        Request::Quit => Then::Close(CloseReason::Normal),
        Request::Stats(question) => {
            match stats::answer(worker, question, &mut Rows::text(out.bytes())) {
                Some(crawl) => Then::Crawl(Box::new(crawl)),
                None => Then::Nothing,
            }
        }
        Request::Admin(Admin::Watch(kinds)) => commands::watch(worker, kinds, out),
        Request::Admin(Admin::Debug(order)) => {
            debug::carry_out(worker, order, held, &mut Reply::new(worker, out, answer.noreply));
            Then::Nothing
        }
        Request::Admin(order) => {
            let reply = &mut Reply::new(worker, out, answer.noreply);
            commands::carry_out(worker, order, reply)
        }
        _ => unreachable!("the caller has sent others elsewhere"),
    }
}

pub(super) fn packet<'e>(
    worker: &mut WorkerContext<'e>,
    request: Request<'_>,
    head: &Head,
    exchange: &mut Exchange,
    out: &mut Vec<u8>,
) -> Then<'e> {
    match request {
        Request::Version => compose::text(out, head, Status::Success, VERSION.as_bytes()),
        Request::Quit => {
            if !head.quiet {
                compose::success(out, head, 0);
            }
            return Then::Close(CloseReason::Normal);
        }
        Request::Stats(StatsRequest::Detail(_)) if !worker.shared.settings.dump_enabled => {
            compose::error(out, head, Status::NotFound);
        }
        Request::Stats(question) => {
            let form = StatsForm::Binary { opaque: head.opaque };
            if let Some(crawl) = stats::answer(worker, question, &mut Rows::new(out, form)) {
                return Then::Crawl(Box::new(crawl));
            }
        }
        Request::Admin(Admin::FlushAll { exptime }) => flush(worker, head, exptime, out),
        Request::Sasl(request) => authenticate(worker, exchange, head, request, out),
        _ => unreachable!("no packet asks for another"),
    }
    Then::Nothing
}

fn flush(worker: &WorkerContext<'_>, head: &Head, exptime: Exptime, out: &mut Vec<u8>) {
    if !worker.shared.settings.flush_enabled {
        compose::error(out, head, Status::AuthError);
        return;
    }
    commands::end_all_items(worker, exptime);
    if !head.quiet {
        compose::success(out, head, 0);
    }
}
