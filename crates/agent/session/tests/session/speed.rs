//! The cost of a turn must not depend on the messages before the cursor. Bytes are counted, not
//! time.

use nanobot_session::{Entry, JsonlStore, ReadFrom, Seq, SessionStore as _};

use crate::support::{Home, assistant, end, key, messages, user, whole};

const LINE: &str = "{\"role\": \"user\", \"content\": \"some words that were said\", \"timestamp\": \"2026-03-15T14:30:00\"}\n";

/// Creates a session of the Python program with `count` messages, of which the last ten are not
/// consolidated.
fn python_file(count: usize) -> Home {
    let mut text = format!(
        "{{\"_type\": \"metadata\", \"key\": \"telegram:1\", \"created_at\": \"2026-03-01T10:00:00\", \"updated_at\": \"2026-03-15T14:30:00\", \"metadata\": {{}}, \"last_consolidated\": {}}}\n",
        count - 10
    );
    text.push_str(&LINE.repeat(count));
    Home::with_file(text.as_bytes())
}

async fn turn(store: &JsonlStore) -> u64 {
    let before = store.bytes_read();
    let view = store.read(&key(), ReadFrom::Cursor).await.unwrap();
    let head = store
        .append(&key(), view.head, vec![user("question")])
        .await
        .unwrap();
    store
        .append(&key(), head, vec![assistant("answer"), end(&[])])
        .await
        .unwrap();
    store.bytes_read() - before
}

#[tokio::test]
async fn read_cost_is_independent_of_the_log_length() {
    let mut costs = Vec::new();
    for count in [10, 100_000] {
        let home = python_file(count);
        let first = turn(&home.store()).await;
        assert!(
            first as usize >= LINE.len() * count,
            "a file without a count is read whole, once"
        );
        let store = home.store();
        let cold = turn(&store).await;
        let warm = turn(&store).await;
        assert_eq!(
            store
                .read(&key(), ReadFrom::Cursor)
                .await
                .unwrap()
                .records
                .len(),
            10 + 3 * 3
        );
        costs.push((cold, warm));
    }
    let (small, large) = (costs[0], costs[1]);
    // Files are read in blocks: the large file may cost one more block in each pass.
    assert!(large.0 <= small.0 + 2 * 32 * 1024, "cold: {costs:?}");
    assert!(large.1 <= small.1 + 32 * 1024, "warm: {costs:?}");
}

#[tokio::test]
async fn append_to_an_unchanged_file_reads_nothing() {
    let home = Home::new();
    let store = home.store();
    let mut head = store.append(&key(), Seq(0), vec![user("a")]).await.unwrap();
    let before = store.bytes_read();
    for _ in 0..50 {
        head = store
            .append(&key(), head, vec![assistant("b")])
            .await
            .unwrap();
    }
    assert_eq!(store.bytes_read(), before);
    std::fs::OpenOptions::new()
        .append(true)
        .open(home.file())
        .and_then(|mut file| std::io::Write::write_all(&mut file, LINE.as_bytes()))
        .unwrap();
    assert_eq!(
        whole(&store).await.head,
        Seq(52),
        "lines of another writer are seen"
    );
}

#[tokio::test]
async fn a_long_line_before_the_cursor_is_not_read() {
    let home = Home::new();
    let store = home.store();
    store
        .append(&key(), Seq(0), vec![user(&"x".repeat(10 << 20))])
        .await
        .unwrap();
    store
        .append(
            &key(),
            Seq(1),
            vec![user("y"), Entry::Consolidated { upto: Seq(1) }],
        )
        .await
        .unwrap();
    store
        .append(
            &key(),
            Seq(2),
            vec![assistant("z"), Entry::Consolidated { upto: Seq(2) }],
        )
        .await
        .unwrap();
    let store = home.store();
    let view = store.read(&key(), ReadFrom::Cursor).await.unwrap();
    assert_eq!(messages(&view).len(), 1);
    assert!(
        store.bytes_read() < 256 * 1024,
        "{} bytes",
        store.bytes_read()
    );
}
