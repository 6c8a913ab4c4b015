use std::sync::atomic::{AtomicUsize, Ordering};

use nanobot_testkit::NoteBook;

use super::*;

/// Counts signs of life, and keeps the last reason for degradation.
#[derive(Debug, Default)]
struct RecordedLiveness {
    alive: AtomicUsize,
    why: Mutex<String>,
}

impl Liveness for RecordedLiveness {
    fn alive(&self) {
        self.alive.fetch_add(1, Ordering::Relaxed);
    }

    fn degraded(&self, why: &str) {
        why.clone_into(&mut self.why.lock().unwrap());
    }

    fn impaired(&self, why: &str) {
        self.degraded(why);
    }
}

/// A process that begins with these notes, without a channel around it.
async fn process(notes: &Arc<NoteBook>) -> Quarantine {
    let quarantine = Quarantine::new("chat".into());
    let text = notes.read(NOTE).await.unwrap();
    {
        let mut state = quarantine.state();
        state.log = AttemptLog::parse(&text.unwrap_or_default());
        state.notes = Some(Arc::<NoteBook>::clone(notes));
        state.is_written = true;
    }
    quarantine
}

fn noted(notes: &NoteBook) -> String {
    notes.all().get(NOTE).cloned().unwrap_or_default()
}

fn keys(keys: &[&str]) -> Vec<String> {
    keys.iter().map(|key| (*key).to_owned()).collect()
}

#[tokio::test]
async fn repeatedly_crashing_message_is_set_aside_alone() {
    let notes = Arc::new(NoteBook::default());
    let progress = RecordedLiveness::default();
    // All of a batch is under way when the first process ends.
    process(&notes).await.begin(&keys(&["bad", "good"])).await;
    assert_eq!(noted(&notes), "1 bad\n1 good\n");
    for count in 2..=MAX_ATTEMPTS {
        let process = process(&notes).await;
        assert!(
            process.is_suspect("bad") && !process.is_exceeded("bad"),
            "{count}"
        );
        let handling = process.admit("bad", b"{}", &progress).await;
        assert_eq!(noted(&notes), format!("{count} bad\n1 good\n"));
        drop(handling);
    }
    let process = process(&notes).await;
    assert!(process.admit("bad", b"{}", &progress).await.is_none());
    assert_eq!(
        notes.all_quarantined().into_iter().collect::<Vec<_>>(),
        [("bad".to_owned(), b"{}".to_vec())]
    );
    process
        .admit("good", b"{}", &progress)
        .await
        .expect("it is handled")
        .end()
        .await;
    assert_eq!(noted(&notes), format!("{MAX_ATTEMPTS} bad\n"));
}

#[tokio::test]
async fn suspect_is_handled_exclusively() {
    let notes = Arc::new(NoteBook::default());
    process(&notes).await.begin(&keys(&["old"])).await;
    let process = process(&notes).await;
    let fresh = process.enter(&keys(&["new"])).await;
    let suspected = keys(&["old"]);
    let mut waiting = Box::pin(process.enter(&suspected));
    assert!(
        poll_once(&mut waiting).is_none(),
        "something else is under way"
    );
    fresh.end().await;
    let suspect = waiting.await;
    let others = keys(&["newer"]);
    let mut later = Box::pin(process.enter(&others));
    assert!(poll_once(&mut later).is_none(), "a suspect is under way");
    suspect.pause().await;
    assert_eq!(noted(&notes), "1 old\n", "nothing was noted meanwhile");
    later.await.end().await;
}

#[tokio::test(start_paused = true)]
async fn suspect_waits_a_minute_for_other_suspects() {
    let notes = Arc::new(NoteBook::default());
    process(&notes).await.begin(&keys(&["old"])).await;
    let (process, permit) = (process(&notes).await, Arc::new(Semaphore::new(1)));
    process.state().others = Some(OtherSuspects::of(&permit));
    let suspected = keys(&["old"]);

    let turn = permit.acquire().await.unwrap();
    process.enter(&keys(&["new"])).await.end().await;
    let mut waiting = Box::pin(process.enter(&suspected));
    assert!(poll_once(&mut waiting).is_none(), "a turn is under way");
    drop(turn);
    let suspect = waiting.await;
    assert_eq!(permit.available_permits(), 0, "no turn begins meanwhile");
    suspect.pause().await;

    let _turn = permit.acquire().await.unwrap();
    let opened = process.state().others.as_ref().unwrap().wait_until - OTHERS_TIMEOUT;
    process.enter(&suspected).await.pause().await;
    assert_eq!(opened.elapsed(), OTHERS_TIMEOUT);
    process.enter(&suspected).await.end().await;
    assert_eq!(opened.elapsed(), OTHERS_TIMEOUT, "the time is over");
}

/// Polls a future once.
fn poll_once<F: Future>(future: &mut std::pin::Pin<Box<F>>) -> Option<F::Output> {
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match future.as_mut().poll(&mut context) {
        std::task::Poll::Ready(output) => Some(output),
        std::task::Poll::Pending => None,
    }
}

#[tokio::test]
async fn ordinary_event_costs_one_write_and_close_clears_attempts() {
    let notes = Arc::new(NoteBook::default());
    let quarantine = process(&notes).await;
    quarantine.begin(&keys(&["1", "2", "3"])).await;
    let written = noted(&notes);
    for key in ["1", "2", "3"] {
        let handling = quarantine.enter(&keys(&[key])).await;
        assert_eq!(noted(&notes), written);
        handling.end().await;
        assert_eq!(noted(&notes), written, "the next write forgets it");
    }
    let under_way = quarantine.enter(&keys(&["4"])).await;
    assert_eq!(noted(&notes), "1 4\n");
    // The same process takes it again after its run ended with an error.
    drop(under_way);
    let under_way = quarantine.enter(&keys(&["4"])).await;
    assert_eq!(noted(&notes), "1 4\n");
    drop(under_way);
    quarantine.close().await;
    assert_eq!(noted(&notes), "");
}

/// Notes of one release are read by the next.
#[test]
fn key_digest_is_stable() {
    let short = "k".repeat(MAX_KEY_LENGTH);
    assert_eq!(bounded_key(&short), short);
    assert_eq!(
        bounded_key(&format!("{short}k")),
        "digest-f39cdc2584758c99cf81c1f41d2572f5"
    );
    assert_eq!(
        bounded_key("a\n"),
        "digest-87428fc522803d31065e7bce3cf03fe4"
    );
}

#[tokio::test]
async fn attempt_note_is_bounded() {
    let notes = Arc::new(NoteBook::default());
    let quarantine = process(&notes).await;
    let long = |number: usize| format!("{number}/{}", "x".repeat(1000));
    for number in 0..attempt_log::MAX_ENTRIES + 5 {
        quarantine.begin(&[long(number)]).await;
    }
    quarantine.begin(&keys(&["two\nlines"])).await;
    let text = noted(&notes);
    assert_eq!(text.lines().count(), attempt_log::MAX_ENTRIES);
    assert!(text.len() < nanobot_channel::MAX_NOTE_BYTES);
    assert!(
        !process(&notes).await.is_suspect(&long(0))
            && process(&notes).await.is_suspect("two\nlines")
    );
}

#[tokio::test(start_paused = true)]
async fn set_aside_messages_impair_liveness_until_removed() {
    let (notes, seen) = (
        Arc::new(NoteBook::default()),
        Arc::new(RecordedLiveness::default()),
    );
    let quarantine = process(&notes).await;
    let supervisor: Arc<dyn Liveness> = Arc::<RecordedLiveness>::clone(&seen);
    let reporting = quarantine.trouble.wrap(&supervisor);
    reporting.alive();
    assert_eq!(seen.alive.load(Ordering::Relaxed), 1);
    quarantine.set_aside("bad", b"{}", reporting.as_ref()).await;
    reporting.alive();
    let why = "1 message was set aside after ending the program 4 times; look at what is in memory and remove it";
    assert_eq!(
        (
            seen.alive.load(Ordering::Relaxed),
            seen.why.lock().unwrap().as_str()
        ),
        (1, why)
    );
    let watching = watch_set_aside(
        "chat".into(),
        Arc::<NoteBook>::clone(&notes),
        Arc::clone(&quarantine.trouble),
    );
    notes.remove_quarantined("bad");
    assert!(
        tokio::time::timeout(CHECK_INTERVAL * 2, watching)
            .await
            .is_err(),
        "the watch does not end"
    );
    reporting.alive();
    assert_eq!(seen.alive.load(Ordering::Relaxed), 2);
}
