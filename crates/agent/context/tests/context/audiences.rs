//! A prompt contains the memory of its session's audience only.

use std::sync::Arc;

use nanobot_context::{ContextBuilder, FilePromptStore, Renewal, SessionFacts};
use nanobot_memory::{Audience, MarkdownStore, MemorySettings};
use nanobot_types::SessionKey;

use crate::{settings, write};

#[tokio::test]
async fn prompt_is_reused_only_for_its_audience() {
    let workspace = tempfile::tempdir().unwrap();
    for (name, text) in [
        ("memory/MEMORY.md", "\u{feff}Everybody likes tea.\r\n"),
        ("memory/people/t_3a7/MEMORY.md", "Ann's PIN is 4711."),
        ("memory/people/t_3a7/2026-11-21.md", "Ann is ill today."),
        ("memory/rooms/s/MEMORY.md", "The group meets on Fridays."),
    ] {
        write(workspace.path(), name, text);
    }
    let notes = Arc::new(FilePromptStore::new(workspace.path().join("prompts")));
    let divided = MemorySettings {
        scopes: true,
        ..MemorySettings::default()
    };
    let process = |memory: MemorySettings| {
        let memory = MarkdownStore::new(workspace.path().join("memory")).with_settings(memory);
        ContextBuilder::new(settings(&workspace), Arc::new(memory)).with_store(notes.clone())
    };
    let session = SessionKey::from("s");
    let (ann, bob) = (
        Audience::Person("t:7".into()),
        Audience::Person("t:8".into()),
    );
    let room = Audience::Room(session.clone());
    let secrets = ["4711", "Ann is ill", "Fridays"];
    for restarts in [false, true] {
        let builder = process(divided);
        let mut why = Vec::new();
        for (audience, told) in [
            (&ann, vec!["4711", "Ann is ill"]),
            (&ann, vec!["4711", "Ann is ill"]),
            (&room, vec!["Fridays"]),
            (&bob, vec![]),
            (&Audience::Undivided, vec![]),
        ] {
            let facts = SessionFacts {
                audience: Some(audience),
                ..SessionFacts::default()
            };
            let again = process(divided);
            let epoch = if restarts { &again } else { &builder }
                .epoch(&session, facts)
                .await;
            let text = epoch.prompt.text();
            assert!(text.contains("Everybody likes tea."), "{text}");
            for secret in secrets {
                assert_eq!(
                    text.contains(secret),
                    told.contains(&secret),
                    "{secret} for {audience:?}: {text}"
                );
            }
            why.push(epoch.renewed.map(|renewed| renewed.why));
        }
        assert_eq!(why[1], None, "the same audience has the same prompt");
        assert_eq!(
            why[2..],
            [Some(Renewal::Audience); 3],
            "and another one never has it"
        );
    }
    let undivided = process(MemorySettings::default());
    let text = undivided.system(&"other".into()).await.text().clone();
    assert!(
        secrets.iter().all(|secret| !text.contains(secret)),
        "{text}"
    );
}
