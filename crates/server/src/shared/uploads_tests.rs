use super::{
    BUDGET_DIVISOR, QUEUE_NANOS, SILENCE_NANOS, STANDSTILL_NANOS_MIN, UploadTicket, Uploads,
    WAIT_NANOS_MAX,
};
use slabwise_base::Random;

const BUDGET_BYTES: u64 = 1_000;
/// The time after which a silent upload is refused if few uploads wait, in nanoseconds.
const SILENCE_NANOS_MAX: u64 = *SILENCE_NANOS.end();

fn uploads() -> Uploads {
    Uploads::new(BUDGET_BYTES * BUDGET_DIVISOR)
}

fn begin(uploads: &Uploads, size_bytes: u64, now_nanos: u64) -> UploadTicket<'_> {
    uploads.begin(0, size_bytes, now_nanos, || 0)
}

fn admit(uploads: &Uploads, now_nanos: u64) {
    uploads.admit_waiting(now_nanos, 0, |_| ());
}

#[test]
fn uploads_within_the_budget_are_admitted_at_once_and_others_wait() {
    let uploads = uploads();
    let first = begin(&uploads, 600, 0);
    let second = begin(&uploads, 400, 0);
    let third = begin(&uploads, 1, 0);
    assert_eq!(
        [&first, &second, &third].map(UploadTicket::is_admitted),
        [true, true, false],
        "600 + 400 bytes are the whole budget"
    );
    drop(first);
    admit(&uploads, 1);
    assert!(third.is_admitted(), "400 + 1 bytes fit");
    assert_eq!((uploads.stats().admitted_bytes, uploads.has_waiting()), (401, false));
}

#[test]
fn free_memory_admits_more_uploads_but_not_past_the_queue() {
    let uploads = uploads();
    let _first = begin(&uploads, 1_000, 0);
    let second = uploads.begin(0, 500, 0, || 500);
    assert!(!second.is_admitted(), "1,500 bytes do not fit into 500 free bytes");
    let third = uploads.begin(0, 100, 0, || 10_000);
    assert!(!third.is_admitted(), "the upload before it waits");
    uploads.admit_waiting(0, 1_600, |_| ());
    assert!(second.is_admitted() && third.is_admitted(), "1,600 bytes fit");
}

#[test]
fn a_value_larger_than_the_budget_is_admitted_if_no_other_upload_is() {
    let uploads = uploads();
    let small = begin(&uploads, 10, 0);
    let large = begin(&uploads, 5_000, 0);
    admit(&uploads, STANDSTILL_NANOS_MIN - 1);
    assert!(!large.is_admitted(), "another upload is admitted");
    drop(small);
    admit(&uploads, STANDSTILL_NANOS_MIN - 1);
    assert!(large.is_admitted());
}

#[test]
fn if_the_queue_stands_still_one_upload_exceeds_the_budget() {
    let uploads = Uploads::new(1_000_000 * BUDGET_DIVISOR);
    let mut slow = begin(&uploads, 1_000_000, 0);
    let waiting = [2_000_000, 3_000_000].map(|size| begin(&uploads, size, 0));
    for step in 1..=20 {
        let now_nanos = step * STANDSTILL_NANOS_MIN / 20;
        slow.note_received(1 << 10, false, now_nanos);
        admit(&uploads, now_nanos);
        assert!(!slow.refuse(now_nanos, None), "the upload makes progress");
        let admitted = waiting.iter().filter(|ticket| ticket.is_admitted()).count();
        assert_eq!(admitted, usize::from(step == 20), "step {step}");
    }
}

#[test]
fn only_one_upload_exceeds_the_budget() {
    let uploads = uploads();
    let first = begin(&uploads, 5_000, 0);
    assert!(first.is_admitted(), "no other upload is admitted");
    let second = begin(&uploads, 6_000, 0);
    admit(&uploads, 2 * STANDSTILL_NANOS_MIN);
    assert!(!second.is_admitted(), "the first one exceeds the budget");
    drop(first);
    admit(&uploads, 2 * STANDSTILL_NANOS_MIN);
    assert!(second.is_admitted());
}

#[test]
fn an_old_upload_is_admitted_although_newer_ones_begin_all_the_time() {
    let uploads = uploads();
    let mut tickets: Vec<_> = (0..20).map(|_| (begin(&uploads, 1_000, 0), true)).collect();
    // One upload ends in each step, and another one begins.
    for step in 0..40 {
        let now_nanos = WAIT_NANOS_MAX + step;
        tickets.push((begin(&uploads, 1_000, now_nanos), false));
        tickets.retain(|(ticket, _)| !ticket.is_admitted());
        admit(&uploads, now_nanos);
    }
    let old = tickets.iter().filter(|(ticket, is_old)| *is_old && !ticket.is_admitted()).count();
    assert_eq!(old, 0, "every second admission is that of an old upload");
}

#[test]
fn smaller_uploads_do_not_overtake_a_larger_one_forever() {
    const SMALL_UPLOAD_STEPS: u64 = 3;
    let uploads = uploads();
    let mut small = vec![(begin(&uploads, 300, 0), 0)];
    let large = begin(&uploads, 800, 0);
    // A small upload begins in each step, and ends some steps after its admission.
    for step in 1..200 {
        let now_nanos = step * 10_000_000;
        small.push((begin(&uploads, 300, now_nanos), step));
        admit(&uploads, now_nanos);
        if large.is_admitted() {
            return;
        }
        small.retain(|(ticket, begun)| !ticket.is_admitted() || step < begun + SMALL_UPLOAD_STEPS);
    }
    panic!("an upload of 800 bytes has waited for two seconds: {:?}", uploads.stats());
}

#[test]
fn the_upload_that_was_silent_longest_is_refused_while_others_wait() {
    let uploads = uploads();
    let mut older = begin(&uploads, 500, 0);
    let mut newer = begin(&uploads, 500, 1);
    let mark = |now_nanos| uploads.mark_silent(now_nanos, |_| ());
    mark(2 * SILENCE_NANOS_MAX);
    assert!(!older.refuse(2 * SILENCE_NANOS_MAX, None), "no other upload waits");
    let _waiting = begin(&uploads, 500, 0);
    mark(SILENCE_NANOS_MAX - 1);
    assert!(!older.refuse(SILENCE_NANOS_MAX - 1, None), "the upload is not silent yet");
    mark(SILENCE_NANOS_MAX + 1);
    assert!(!newer.refuse(SILENCE_NANOS_MAX + 1, None), "one refusal per upload that waits");
    assert!(older.refuse(SILENCE_NANOS_MAX + 1, None));
    assert_eq!(uploads.stats().counts.refused_silent, 1);
}

#[test]
fn a_marked_upload_that_makes_progress_is_not_refused_but_a_few_bytes_are_no_progress() {
    let uploads = uploads();
    let mut first = begin(&uploads, 1_000, 0);
    let _waiting = begin(&uploads, 1_000, 0);
    uploads.mark_silent(SILENCE_NANOS_MAX, |_| ());
    first.note_received(1 << 10, false, SILENCE_NANOS_MAX);
    assert!(!first.refuse(SILENCE_NANOS_MAX, None));
    first.note_received(10, false, 2 * SILENCE_NANOS_MAX - 1);
    uploads.mark_silent(2 * SILENCE_NANOS_MAX, |_| ());
    assert!(first.refuse(2 * SILENCE_NANOS_MAX, None), "it received 10 bytes in 100 ms");
}

#[test]
fn an_upload_that_receives_no_byte_for_the_timeout_is_refused() {
    let uploads = uploads();
    let mut ticket = begin(&uploads, 100, 0);
    ticket.note_received(1, false, 50);
    assert!(!ticket.refuse(149, Some(100)));
    assert!(!ticket.refuse(1_000, None), "there is no timeout");
    assert!(ticket.refuse(150, Some(100)));
    assert_eq!(uploads.stats().counts.refused_timeout, 1);
}

/// Random uploads, of which many stop. Every value is admitted at last, and the admitted values fit, except one at a
/// time.
#[test]
fn admitted_values_fit_and_every_upload_ends() {
    const SIZE_BYTES_MAX: u64 = 2_000;
    for seed in 0..300 {
        let mut random = Random::new(seed);
        let uploads = uploads();
        let mut tickets: Vec<(UploadTicket<'_>, u64, bool)> = Vec::new();
        let (mut now_nanos, mut begun, mut ended) = (0, 0, 0);
        while ended < 200 {
            now_nanos += 10_000_000;
            if begun < 200 {
                let size_bytes = 1 + random.below(SIZE_BYTES_MAX);
                let stalls = random.below(2) == 0;
                tickets.push((begin(&uploads, size_bytes, now_nanos), size_bytes, stalls));
                begun += 1;
            }
            admit(&uploads, now_nanos);
            uploads.mark_silent(now_nanos, |_| ());
            let before = tickets.len();
            tickets.retain_mut(|(ticket, left, stalls)| {
                if !ticket.is_admitted() {
                    return true;
                }
                if !*stalls {
                    let count = (1 + random.below(500)).min(*left);
                    *left -= count;
                    ticket.note_received(count as usize, *left == 0, now_nanos);
                }
                *left > 0 && !ticket.refuse(now_nanos, Some(10_000_000_000))
            });
            ended += before - tickets.len();
            let stats = uploads.stats();
            assert_eq!(stats.admitted + stats.waiting, tickets.len(), "seed {seed}");
            assert!(
                stats.admitted_bytes <= BUDGET_BYTES + SIZE_BYTES_MAX,
                "seed {seed}: {stats:?}"
            );
            assert!(now_nanos < 100_000_000_000, "seed {seed}: an upload waits forever: {stats:?}");
        }
        assert_eq!(uploads.stats().admitted_bytes, 0, "seed {seed}");
    }
}

#[test]
fn a_long_queue_of_silent_uploads_ends_soon() {
    const UPLOADS: usize = 80;
    /// The time between two calls of a worker, in nanoseconds.
    const STEP_NANOS: u64 = 5_000_000;
    let uploads = uploads();
    let mut waiting: Vec<_> = (0..UPLOADS).map(|_| begin(&uploads, 300, 0)).collect();
    let mut now_nanos = 0;
    while uploads.has_waiting() {
        now_nanos += STEP_NANOS;
        admit(&uploads, now_nanos);
        uploads.mark_silent(now_nanos, |_| ());
        waiting.retain_mut(|ticket| !ticket.refuse(now_nanos, None));
    }
    assert!(
        now_nanos <= QUEUE_NANOS + QUEUE_NANOS / 4,
        "{UPLOADS} uploads, of which three fit, waited for {now_nanos} ns"
    );
}
