//! Search over memory and conversations: matches, positions, access, and changes of the files.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use nanobot_memory::{MemoryFolders, MemorySearch, Scope};
use nanobot_session::{Seq, SessionHit, SessionPaths, SessionReach, SessionSearch};
use nanobot_state::SearchIndex;
use serde_json::json;
use tempfile::TempDir;

/// A workspace and its index.
struct Place {
    root: TempDir,
    index: SearchIndex,
}

impl Place {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        for folder in ["memory", "sessions"] {
            fs::create_dir(root.path().join(folder)).unwrap();
        }
        let index = index(root.path());
        Self { root, index }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        fs::create_dir_all(self.path(name).parent().unwrap()).unwrap();
        fs::write(self.path(name), text).unwrap();
    }

    fn append(&self, name: &str, text: &str) {
        let mut file = fs::OpenOptions::new()
            .append(true)
            .create(true)
            .open(self.path(name))
            .unwrap();
        file.write_all(text.as_bytes()).unwrap();
    }

    /// Returns file, line and excerpt of the matches in memory.
    async fn memory(&self, scopes: &[Scope], query: &str) -> Vec<(String, u32, String)> {
        let hits = MemorySearch::search(&self.index, scopes, query, 10)
            .await
            .unwrap();
        let name = |path: &Path| {
            path.strip_prefix(self.path("memory"))
                .unwrap()
                .to_str()
                .unwrap()
                .to_owned()
        };
        hits.into_iter()
            .map(|hit| (name(&hit.path), hit.line, hit.excerpt))
            .collect()
    }

    async fn shared(&self, query: &str) -> Vec<(String, u32, String)> {
        self.memory(&[Scope::Shared], query).await
    }

    async fn sessions(&self, reach: &SessionReach, query: &str) -> Vec<SessionHit> {
        SessionSearch::search(&self.index, reach, query, 10)
            .await
            .unwrap()
    }

    /// Returns session, message and excerpt of the matches.
    async fn inbound_message(&self, query: &str) -> Vec<(String, u64, String)> {
        let hits = self.sessions(&SessionReach::All, query).await;
        hits.into_iter()
            .map(|hit| (hit.session.to_string(), hit.seq.0, hit.excerpt))
            .collect()
    }
}

fn index(root: &Path) -> SearchIndex {
    SearchIndex::new(
        root.join("index.db"),
        MemoryFolders::new(root.join("memory"), true),
        SessionPaths::only(root.join("sessions")),
    )
}

fn hit(file: &str, line: u32, excerpt: &str) -> (String, u32, String) {
    (file.to_owned(), line, excerpt.to_owned())
}

fn line(role: &str, text: &str) -> String {
    json!({"role": role, "content": text, "timestamp": "2026-03-15T14:30:00.000000"}).to_string()
        + "\n"
}

fn state(key: &str, audience: Option<&str>) -> String {
    let metadata = audience.map_or_else(|| json!({}), |audience| json!({"_audience": audience}));
    json!({"_type": "metadata", "key": key, "metadata": metadata, "last_consolidated": 0})
        .to_string()
        + "\n"
}

#[tokio::test]
async fn search_finds_words_of_every_script() {
    let place = Place::new();
    place.write(
        "memory/MEMORY.md",
        "# Facts\n\n## Family\n- wife: Ánna\n- 住在北京很久\n\n## Work\n- deploys on Fridays\n",
    );
    place.write(
        "memory/HISTORY.md",
        "[2026-03-15 14:30] 東京タワーで お茶\n\n",
    );
    place.write(
        "memory/2026-03-15.md",
        "met Zoë, \"quoted\" (brackets) 50% OFF\n",
    );
    place.write("memory/notes.txt", "北京 in no Markdown\n");
    place.write("memory/.hidden.md", "北京 hidden\n");
    place.write("memory/.versions/000001.md", "北京 in an old version\n");
    for (query, expected) in [
        ("北京", vec![hit("MEMORY.md", 5, "- 住在北京很久")]),
        ("住在北京", vec![hit("MEMORY.md", 5, "- 住在北京很久")]),
        ("京北", vec![]),
        (
            "タワー",
            vec![hit("HISTORY.md", 1, "[2026-03-15 14:30] 東京タワーで お茶")],
        ),
        (
            "茶",
            vec![hit("HISTORY.md", 1, "[2026-03-15 14:30] 東京タワーで お茶")],
        ),
        ("anna", vec![hit("MEMORY.md", 4, "- wife: Ánna")]),
        (
            "family",
            vec![
                hit("MEMORY.md", 3, "## Family"),
                hit("MEMORY.md", 4, "- wife: Ánna"),
                hit("MEMORY.md", 5, "- 住在北京很久"),
            ],
        ),
        ("DEPLOY", vec![hit("MEMORY.md", 8, "- deploys on Fridays")]),
        (
            "zoe",
            vec![hit(
                "2026-03-15.md",
                1,
                "met Zoë, \"quoted\" (brackets) 50% OFF",
            )],
        ),
        (
            "\"quoted\" AND (NOT",
            vec![hit(
                "2026-03-15.md",
                1,
                "met Zoë, \"quoted\" (brackets) 50% OFF",
            )],
        ),
        ("", vec![]),
        ("* ? ^", vec![]),
    ] {
        assert_eq!(place.shared(query).await, expected, "{query}");
    }
}

#[tokio::test]
async fn full_matches_rank_before_partial_ones() {
    let place = Place::new();
    place.write(
        "memory/MEMORY.md",
        "- trip to Rome\n- trip to Oslo\n- tickets for Oslo, trip in May\n- the trip home\n",
    );
    let lines = |hits: Vec<(String, u32, String)>| {
        hits.into_iter()
            .map(|(_, line, _)| line)
            .collect::<Vec<_>>()
    };
    assert_eq!(
        lines(place.shared("oslo tickets trip").await).first(),
        Some(&3)
    );
    assert_eq!(lines(place.shared("oslo zanzibar").await).len(), 2);
    assert_eq!(lines(place.shared("zanzibar").await), [0; 0]);
    place.append(
        "memory/MEMORY.md",
        "## Family\n- wife: Anna\n- dog: Bello\n",
    );
    assert_eq!(
        lines(place.shared("family wife").await).first(),
        Some(&6),
        "found by the heading above it"
    );
}

#[tokio::test]
async fn index_follows_file_changes() {
    let place = Place::new();
    assert_eq!(place.shared("tea").await, vec![]);
    place.write("memory/MEMORY.md", "- tea without a newline");
    assert_eq!(
        place.shared("tea").await,
        [hit("MEMORY.md", 1, "- tea without a newline")]
    );
    place.append("memory/MEMORY.md", ", and milk\n");
    assert_eq!(
        place.shared("tea").await,
        [hit("MEMORY.md", 1, "- tea without a newline, and milk")]
    );
    place.append("memory/HISTORY.md", "[2026-03-15 14:30] green tea\n\n");
    place.append("memory/HISTORY.md", "torn t");
    assert_eq!(place.shared("green").await.len(), 1);
    place.append("memory/HISTORY.md", "ea\n");
    assert_eq!(
        place.shared("torn").await,
        [hit("HISTORY.md", 3, "torn tea")]
    );
    place.write(
        "memory/MEMORY.md",
        "- coffee, which was never liked before\n",
    );
    assert_eq!(place.shared("milk").await, vec![]);
    assert_eq!(place.shared("coffee").await.len(), 1);
    fs::remove_file(place.path("memory/MEMORY.md")).unwrap();
    fs::create_dir(place.path("memory/MEMORY.md")).unwrap();
    assert_eq!(place.shared("coffee").await, vec![]);
    place.write(
        "memory/history.jsonl",
        "{\"cursor\":1,\"content\":\"[2026-03-15 14:30] green tea\"}\n{\"cursor\":2,\"content\":\"blue\"}\n",
    );
    assert_eq!(
        place.shared("green").await.len(),
        1,
        "a line that the mirror repeats is found once"
    );
    assert_eq!(
        place.shared("blue").await,
        [hit("history.jsonl", 2, "blue")]
    );
    place.write("memory/MEMORY.md.draft", "half");
    place.write("memory/bad.md", "");
    fs::write(place.path("memory/bad.md"), b"caf\xe9 \xff latte\r\n").unwrap();
    assert_eq!(
        place.shared("latte").await,
        [hit("bad.md", 1, "caf\u{fffd} \u{fffd} latte")]
    );
}

#[tokio::test]
async fn huge_lines_are_indexed_up_to_a_limit() {
    let place = Place::new();
    place.write("memory/MEMORY.md", &"tea 茶 ".repeat(800_000));
    place.write(
        "memory/HISTORY.md",
        &format!("{} behind\nand then\n", "x ".repeat(3 << 20)),
    );
    let found = place.shared("tea").await;
    assert_eq!(
        found
            .iter()
            .map(|(file, line, _)| (file.as_str(), *line))
            .collect::<Vec<_>>(),
        [("MEMORY.md", 1)]
    );
    assert!(found[0].2.starts_with("tea 茶 tea"), "{}", found[0].2);
    assert_eq!(
        place.shared("behind").await,
        vec![],
        "the end of a long line is not indexed"
    );
    assert_eq!(
        place.shared("then").await,
        [hit("HISTORY.md", 2, "and then")]
    );
}

#[tokio::test]
async fn session_search_returns_session_message_and_line() {
    let place = Place::new();
    let file = "sessions/telegram_1.jsonl";
    place.write(file, &state("telegram:1", None));
    place.append(file, &line("user", "我想去北京"));
    place.append(file, &line("tool", "北京 in a listing"));
    place.append(file, &line("assistant", "Beijing it is"));
    place.append(file, "{\"role\":\"user\",\"content\":\"half a li");
    assert_eq!(
        place.inbound_message("北京").await,
        [hit3("telegram:1", 0, "我想去北京")]
    );
    assert_eq!(place.inbound_message("half").await, vec![]);
    let found = place
        .sessions(&SessionReach::All, "beijing")
        .await
        .remove(0);
    assert_eq!(
        (
            found.seq,
            found.role.as_str(),
            found.line,
            found.path,
            found.at.unwrap().format("%F %R").to_string()
        ),
        (
            Seq(2),
            "assistant",
            4,
            place.path(file),
            "2026-03-15 14:30".to_owned()
        )
    );
    place.append(file, "ne\",\"x\":1}\n");
    place.append(file, &line("user", "and one more"));
    assert_eq!(
        place.inbound_message("half").await,
        [hit3("telegram:1", 3, "half a line")]
    );
    assert_eq!(
        place.inbound_message("one more").await,
        [hit3("telegram:1", 4, "and one more")]
    );
    place.write(
        file,
        &(state("telegram:1", None) + &line("user", "rewritten by another program")),
    );
    assert_eq!(
        place.inbound_message("rewritten").await,
        [hit3("telegram:1", 0, "rewritten by another program")]
    );
    assert_eq!(place.inbound_message("北京").await, vec![]);
    place.write(
        "sessions/cli_direct.jsonl",
        &line("user", "no state, but a name"),
    );
    assert_eq!(
        place.inbound_message("name").await,
        [hit3("cli:direct", 0, "no state, but a name")]
    );
}

fn hit3(session: &str, seq: u64, excerpt: &str) -> (String, u64, String) {
    (session.to_owned(), seq, excerpt.to_owned())
}

#[tokio::test]
async fn search_respects_scopes_and_audiences() {
    let place = Place::new();
    let (ann, bob) = (Scope::Person("t:1".into()), Scope::Person("t:2".into()));
    let room = Scope::Room("t:-1".into());
    place.write("memory/MEMORY.md", "- secret of all\n");
    place.write("memory/people/t_3a1/MEMORY.md", "- secret of ann\n");
    place.write("memory/people/t_3a2/2026-03-15.md", "- secret of bob\n");
    place.write("memory/rooms/t_3a-1/HISTORY.md", "secret of the room\n");
    for (scopes, expected) in [
        (vec![Scope::Shared], vec!["MEMORY.md"]),
        (
            vec![Scope::Shared, ann.clone()],
            vec!["MEMORY.md", "people/t_3a1/MEMORY.md"],
        ),
        (
            vec![Scope::Shared, bob.clone()],
            vec!["MEMORY.md", "people/t_3a2/2026-03-15.md"],
        ),
        (
            vec![Scope::Shared, room],
            vec!["MEMORY.md", "rooms/t_3a-1/HISTORY.md"],
        ),
        (vec![bob], vec!["people/t_3a2/2026-03-15.md"]),
        (vec![], vec![]),
    ] {
        let mut files: Vec<String> = place
            .memory(&scopes, "secret")
            .await
            .into_iter()
            .map(|hit| hit.0)
            .collect();
        files.sort();
        assert_eq!(files, expected, "{scopes:?}");
    }
    let too_long = Scope::Person("x".repeat(300).into());
    assert!(
        MemorySearch::search(&place.index, &[Scope::Shared, too_long], "secret", 5)
            .await
            .is_err()
    );

    for (file, key, audience) in [
        ("t_1", "t:1", Some("person:t:1")),
        ("other_1", "other:1", Some("person:t:1")),
        ("t_2", "t:2", Some("person:t:2")),
        ("t_-1", "t:-1", Some("room")),
        ("t_9", "t:9", None),
    ] {
        let text =
            state(key, None) + &line("user", &format!("secret of {key}")) + &state(key, audience);
        place.write(&format!("sessions/{file}.jsonl"), &text);
    }
    let of = |session: &str, audience: Option<&str>| SessionReach::Of {
        session: session.into(),
        audience: audience.map(str::to_owned),
    };
    for (reach, expected) in [
        (
            SessionReach::All,
            vec!["other:1", "t:-1", "t:1", "t:2", "t:9"],
        ),
        (of("t:1", Some("person:t:1")), vec!["other:1", "t:1"]),
        (of("t:-1", None), vec!["t:-1"]),
        (of("t:9", None), vec!["t:9"]),
        (of("t:8", Some("person:t:8")), vec![]),
    ] {
        let mut sessions: Vec<String> = place
            .sessions(&reach, "secret")
            .await
            .into_iter()
            .map(|hit| hit.session.to_string())
            .collect();
        sessions.sort();
        assert_eq!(sessions, expected, "{reach:?}");
    }
    // The audience of a conversation may change.
    place.append("sessions/other_1.jsonl", &state("other:1", Some("room")));
    assert_eq!(
        place
            .sessions(&of("t:1", Some("person:t:1")), "secret")
            .await
            .len(),
        1
    );
}

#[tokio::test]
async fn damaged_newer_or_missing_index_is_rebuilt() {
    let place = Place::new();
    place.write("memory/MEMORY.md", "- tea\n");
    let file = place.path("index.db");
    assert!(!file.exists(), "nothing is opened before the first search");
    assert_eq!(place.shared("tea").await.len(), 1);
    let found = async || {
        MemorySearch::search(&index(place.root.path()), &[Scope::Shared], "tea", 5)
            .await
            .unwrap()
            .len()
    };
    fs::write(
        &file,
        "this is no database, and long enough to be looked at as one",
    )
    .unwrap();
    for companion in ["index.db-wal", "index.db-shm"] {
        drop(fs::remove_file(place.path(companion)));
    }
    assert_eq!(found().await, 1, "not a database");
    for statement in [
        "PRAGMA user_version = 99",
        "PRAGMA application_id = 7",
        "DROP TABLE memory_words",
        "DROP TABLE memory_piece; CREATE TABLE memory_piece (id TEXT)",
    ] {
        let other = rusqlite::Connection::open(&file).unwrap();
        other.execute_batch(statement).unwrap();
        drop(other);
        place.append("memory/MEMORY.md", "- more\n");
        assert_eq!(found().await, 1, "{statement}");
    }
    let mut bytes = fs::read(&file).unwrap();
    for byte in bytes.iter_mut().skip(100) {
        *byte ^= 0x5a;
    }
    fs::write(&file, bytes).unwrap();
    assert_eq!(found().await, 1, "noise");
    fs::remove_file(&file).unwrap();
    assert_eq!(found().await, 1, "gone");
    fs::remove_file(&file).unwrap();
    fs::create_dir(&file).unwrap();
    assert_eq!(found().await, 1, "the file cannot be created");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_processes_index_nothing_twice() {
    let place = Place::new();
    for number in 0..20 {
        let text: String = (0..50)
            .map(|message| line("user", &format!("word{number}x{message} common")))
            .collect();
        place.write(&format!("sessions/t_{number}.jsonl"), &text);
    }
    let searches = (0..4).map(|_| {
        let index = index(place.root.path());
        async move {
            SessionSearch::search(&index, &SessionReach::All, "word7x33", 10)
                .await
                .unwrap()
                .len()
        }
    });
    assert_eq!(futures_util::future::join_all(searches).await, [1; 4]);
    place.append("sessions/t_7.jsonl", &line("user", "word7x50 common"));
    assert_eq!(
        place.inbound_message("word7x50").await,
        [hit3("t:7", 50, "word7x50 common")]
    );
    let pieces: i64 = rusqlite::Connection::open(place.path("index.db"))
        .unwrap()
        .query_row("SELECT count(*) FROM session_piece", [], |row| row.get(0))
        .unwrap();
    assert_eq!(pieces, 1001);
}
