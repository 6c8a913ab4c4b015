//! Prompts and rendered messages: section order, stability, attached files, and a fresh workspace.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "tests fail by panicking"
)]

#[path = "context/audiences.rs"]
mod audiences;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use chrono::NaiveDate;
use nanobot_context::{
    ContextBuilder, ContextError, ContextSettings, FilePromptStore, PromptRecord, PromptStore as _,
    Renewal, Renewed, SessionFacts, Stability, sync_templates,
};
use nanobot_memory::{DayNote, Facts, MemoryError, MemoryStore, Reason, Revision, Scope};
use nanobot_skill::{Blocker, Skill, SkillOrigin, SkillSource};
use nanobot_types::{
    ChatMessage, Content, MediaRef, SessionKey, Timestamp, Transcript, UserMessage,
};
use serde_json::{Value, json};
use tempfile::TempDir;

/// A memory with fixed content.
#[derive(Debug, Default)]
struct FixedMemory {
    facts: Mutex<String>,
    note: Option<&'static str>,
    broken: bool,
}

#[async_trait]
impl MemoryStore for FixedMemory {
    async fn facts(&self, _: &Scope) -> Result<Facts, MemoryError> {
        if self.broken {
            let path = PathBuf::from("memory/MEMORY.md");
            return Err(MemoryError::Io {
                action: "read",
                path,
                source: std::io::ErrorKind::PermissionDenied.into(),
            });
        }
        Ok(Facts {
            text: self.facts.lock().unwrap().clone(),
            revision: Revision(0),
        })
    }

    async fn replace_facts(
        &self,
        _: &Scope,
        text: String,
        _: Revision,
        _: &Reason,
    ) -> Result<Revision, MemoryError> {
        *self.facts.lock().unwrap() = text;
        Ok(Revision(1))
    }

    async fn append_history(&self, _: &Scope, _: Timestamp, _: &str) -> Result<(), MemoryError> {
        Ok(())
    }

    async fn has_history(&self, _: &Scope, _: &str) -> Result<bool, MemoryError> {
        Ok(false)
    }

    async fn day_note(&self, _: &Scope, date: NaiveDate) -> Result<Option<DayNote>, MemoryError> {
        let note = self.note.filter(|_| date == today());
        Ok(note.map(|text| DayNote {
            date,
            text: text.to_owned(),
        }))
    }

    async fn recent(&self, _: &Scope, _: u32) -> Result<Vec<DayNote>, MemoryError> {
        Ok(Vec::new())
    }
}

fn today() -> NaiveDate {
    NaiveDate::from_ymd_opt(2026, 11, 21).unwrap()
}

fn settings(workspace: &TempDir) -> ContextSettings {
    ContextSettings {
        today,
        ..ContextSettings::new(workspace.path())
    }
}

fn builder(workspace: &TempDir, memory: FixedMemory) -> ContextBuilder {
    ContextBuilder::new(settings(workspace), Arc::new(memory))
}

fn write(root: &Path, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
    let path = root.join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(&path, content).unwrap();
    path
}

/// A source with a fixed list of skills.
#[derive(Debug)]
struct FixedSkills(Vec<Skill>);

impl SkillSource for FixedSkills {
    fn skills(&self) -> Vec<Skill> {
        self.0.clone()
    }

    fn configuration(&self) -> String {
        String::new()
    }
}

fn skill(name: &str, description: &str, body: &str) -> Skill {
    Skill {
        name: name.to_owned(),
        description: description.to_owned(),
        origin: SkillOrigin::Library,
        location: format!("/skills/{name}/SKILL.md").into(),
        body: body.to_owned(),
        always: false,
        blockers: Vec::new(),
    }
}

fn facts(text: &str) -> FixedMemory {
    FixedMemory {
        facts: Mutex::new(text.to_owned()),
        ..FixedMemory::default()
    }
}

#[tokio::test]
async fn sections_are_in_order() {
    let workspace = tempfile::tempdir().unwrap();
    write(workspace.path(), "SOUL.md", "Calm.\n");
    write(workspace.path(), "AGENTS.md", "Be kind.\n");
    let needy = vec![
        Blocker::Program("no-such-program".to_owned()),
        Blocker::Variable("NO_SUCH_VARIABLE".to_owned()),
    ];
    let skills = FixedSkills(vec![
        Skill {
            always: true,
            ..skill("memory", "How to remember", "Use grep.")
        },
        Skill {
            blockers: needy,
            ..skill("needy", "needy", "")
        },
        skill("weather", "Rain & <sun>", "Body of weather."),
    ]);
    let settings = ContextSettings {
        skills: Arc::new(skills),
        ..settings(&workspace)
    };
    let memory = FixedMemory {
        note: Some("Met Ada.\n"),
        ..facts("Likes tea.\n")
    };
    let builder = ContextBuilder::new(settings, Arc::new(memory));
    let prompt = builder.system(&"cli:direct".into()).await;

    let sections: Vec<_> = prompt
        .sections()
        .map(|(name, stability, _)| (name, stability))
        .collect();
    assert_eq!(
        sections,
        [
            ("identity", Stability::Frozen),
            ("bootstrap", Stability::Frozen),
            ("memory", Stability::Epoch),
            ("active_skills", Stability::Epoch),
            ("skills", Stability::Epoch),
        ]
    );
    let (identity, rest) = prompt.text().split_once("\n\n---\n\n").unwrap();
    assert!(
        identity.starts_with("# nanobot 🐈\n")
            && identity.contains(workspace.path().to_str().unwrap())
    );
    let (layers, list) = rest.split_once("<skills>").unwrap();
    let (layers, how_to) = layers.split_once("# Skills\n\n").unwrap();
    assert_eq!(
        layers,
        "## AGENTS.md\n\nBe kind.\n\n## SOUL.md\n\nCalm.\n\n---\n\n\
         # Memory\n\n## Long-term Memory\nLikes tea.\n\n## Today's Notes\nMet Ada.\n\n---\n\n\
         # Active Skills\n\n### Skill: memory\n\nUse grep.\n\n---\n\n"
    );
    assert!(how_to.contains("read its file"));
    // The skill that is active is not listed again.
    let expected = "
<skill available=\"false\"><name>needy</name><description>needy</description>\
        <location>/skills/needy/SKILL.md</location>\
        <requires>CLI: no-such-program, ENV: NO_SUCH_VARIABLE</requires></skill>
<skill available=\"true\"><name>weather</name><description>Rain &amp; &lt;sun&gt;</description>\
        <location>/skills/weather/SKILL.md</location></skill>
</skills>";
    assert_eq!(list, expected);
}

#[tokio::test]
async fn memory_section_appears_only_with_content() {
    let long = "記".repeat(40_000);
    let table = [
        (facts(""), None),
        (facts(" \n"), None),
        (facts("A"), Some("# Memory\n\n## Long-term Memory\nA".to_owned())),
        (FixedMemory { note: Some("B"), ..facts("") }, Some("# Memory\n\n## Today's Notes\nB".to_owned())),
        (
            FixedMemory { broken: true, ..facts("") },
            Some(
                "# Memory\n\n## Long-term Memory\n[Memory could not be read: cannot read memory/MEMORY.md: permission denied]"
                    .to_owned(),
            ),
        ),
        (
            facts(&long),
            Some(format!(
                "# Memory\n\n## Long-term Memory\n{}\n\n[There is more in the file; search it.]",
                "記".repeat(32 * 1024)
            )),
        ),
    ];
    for (memory, expected) in table {
        let workspace = tempfile::tempdir().unwrap();
        let prompt = builder(&workspace, memory).system(&"s".into()).await;
        let memory = prompt
            .text()
            .split_once("\n\n---\n\n")
            .map(|(_, memory)| memory.to_owned());
        assert_eq!(memory, expected);
    }
}

#[tokio::test(start_paused = true)]
async fn session_keeps_its_prompt_until_renewed_or_cold() {
    let workspace = tempfile::tempdir().unwrap();
    let soul = write(workspace.path(), "SOUL.md", "Calm.");
    let memory = Arc::new(facts("Likes tea."));
    let settings = ContextSettings {
        cold_after: Duration::from_secs(600),
        ..settings(&workspace)
    };
    let builder = ContextBuilder::new(settings.clone(), memory.clone());
    let (first, second) = (
        SessionKey::from("telegram:1"),
        SessionKey::from("telegram:2"),
    );
    let before = builder.system(&first).await;

    std::fs::write(soul, "Wild.").unwrap();
    memory
        .replace_facts(
            &Scope::Shared,
            "Likes coffee.".to_owned(),
            Revision(0),
            &Reason::Found,
        )
        .await
        .unwrap();
    tokio::time::advance(Duration::from_secs(599)).await;
    assert!(
        Arc::ptr_eq(&before, &builder.system(&first).await),
        "neither the clock nor the files matter"
    );

    let other = builder.system(&second).await;
    assert!(other.text().contains("Likes coffee.") && other.text().contains("Wild."));
    let difference = other.difference(&before).unwrap();
    assert_eq!(difference.section, "bootstrap");

    builder.renew(&first);
    assert!(
        Arc::ptr_eq(&other, &builder.system(&first).await),
        "equal prompts are one"
    );

    memory
        .replace_facts(
            &Scope::Shared,
            "Likes water.".to_owned(),
            Revision(0),
            &Reason::Found,
        )
        .await
        .unwrap();
    tokio::time::advance(Duration::from_secs(600)).await;
    let cold = builder.system(&first).await;
    assert!(cold.text().contains("Likes water."));

    let restarted = ContextBuilder::new(settings, memory);
    assert_eq!(
        restarted.system(&first).await,
        cold,
        "a restart builds the same bytes"
    );
}

#[tokio::test]
async fn restart_reuses_the_sent_prompt() {
    let workspace = tempfile::tempdir().unwrap();
    let memory = Arc::new(facts("Likes tea."));
    let settings = settings(&workspace);
    let notes = Arc::new(FilePromptStore::new(workspace.path().join("prompts")));
    let process = |settings: &ContextSettings| {
        ContextBuilder::new(settings.clone(), memory.clone()).with_store(notes.clone())
    };
    let session = SessionKey::from("telegram:1");
    let at = |cursor, minutes: u64| SessionFacts {
        cursor: Some(cursor),
        silent: Duration::from_secs(minutes * 60),
        ..SessionFacts::default()
    };
    let first = process(&settings).epoch(&session, at(0, 0)).await;
    assert_eq!(
        first.renewed,
        Some(Renewed {
            why: Renewal::Unknown,
            difference: None
        })
    );
    memory
        .replace_facts(
            &Scope::Shared,
            "Likes coffee.".to_owned(),
            Revision(0),
            &Reason::Found,
        )
        .await
        .unwrap();
    write(workspace.path(), "AGENTS.md", "Edited.");

    let warm = process(&settings).epoch(&session, at(0, 59)).await;
    assert_eq!((warm.prompt, warm.renewed), (first.prompt.clone(), None));
    let few = ContextSettings {
        sessions_kept: 1,
        ..settings.clone()
    };
    let crowded = process(&few);
    for key in ["telegram:1", "telegram:2", "telegram:1"] {
        crowded.epoch(&key.into(), at(0, 0)).await;
    }
    assert_eq!(
        crowded.system(&session).await,
        first.prompt,
        "an evicted prompt is restored"
    );

    let renamed = ContextSettings {
        bot_name: "Mika".to_owned(),
        ..settings.clone()
    };
    let table = [
        (&settings, at(0, 60), Renewal::Cold, "bootstrap"),
        (&settings, at(4, 0), Renewal::Moved, "bootstrap"),
        (&renamed, at(0, 0), Renewal::Settings, "identity"),
    ];
    let saved = notes.load(&session, PromptRecord::Prompt).await.unwrap();
    for (settings, facts, why, section) in table {
        let renewed = process(settings)
            .epoch(&session, facts)
            .await
            .renewed
            .unwrap();
        assert_eq!(
            (renewed.why, renewed.difference.unwrap().section),
            (why, section.to_owned())
        );
        notes
            .save(&session, PromptRecord::Prompt, saved.clone())
            .await;
    }
    notes
        .save(&session, PromptRecord::Prompt, b"torn".to_vec())
        .await;
    assert_eq!(
        process(&settings)
            .epoch(&session, at(0, 0))
            .await
            .renewed
            .unwrap()
            .why,
        Renewal::Unknown
    );
}

#[tokio::test]
async fn naming_a_skill_includes_its_text() {
    let workspace = tempfile::tempdir().unwrap();
    let needy = vec![Blocker::Program("no-such-program".to_owned())];
    let skills = FixedSkills(vec![
        Skill {
            blockers: needy,
            ..skill("needy", "needy", "Never.")
        },
        skill("weather", "Rain", "Body of weather."),
    ]);
    let settings = ContextSettings {
        skills: Arc::new(skills),
        ..settings(&workspace)
    };
    let builder = ContextBuilder::new(settings, Arc::new(facts("")));
    let block = "[Skill weather, named in this message; its file: /skills/weather/SKILL.md]\nBody of weather.\n[/Skill weather]";
    assert_eq!(
        builder
            .named_skills("do it as $weather says")
            .await
            .as_deref(),
        Some(block)
    );
    for text in ["it costs $5", "echo $HOME", "$needy", "$unknown", "weather"] {
        assert_eq!(builder.named_skills(text).await, None, "{text}");
    }
}

fn user(content: impl Into<Content>, media: &[&Path]) -> Arc<ChatMessage> {
    let media = media
        .iter()
        .map(|path| MediaRef::new(path.to_str().unwrap()))
        .collect();
    Arc::new(ChatMessage::User(UserMessage {
        content: content.into(),
        media,
    }))
}

async fn rendered(builder: &ContextBuilder, message: &Arc<ChatMessage>) -> (Value, Vec<String>) {
    let rendered = builder
        .render(Transcript::repair([message.clone()]).transcript)
        .await;
    let message = serde_json::to_value(&*rendered.transcript.messages()[0]).unwrap();
    (message["content"].clone(), rendered.images_dropped)
}

fn image(url: &str) -> Value {
    json!({"type": "image_url", "image_url": {"url": url}})
}

#[tokio::test]
async fn images_precede_the_text_and_other_files_are_named() {
    let workspace = tempfile::tempdir().unwrap();
    let builder = builder(&workspace, facts(""));
    let root = workspace.path();
    let png = write(root, "a.bin", b"\x89PNG\r\n\x1a\n");
    let gif = write(root, "b.txt", b"GIF89a");
    let text = write(root, "notes.png", "no image");
    let missing = root.join("report.pdf");
    let gone = root.join("gone.JPG");
    let large = write(
        root,
        "large.gif",
        [b"GIF89a".as_slice(), &vec![0; 5 * 1024 * 1024]].concat(),
    );
    let (png_url, gif_url) = (
        "data:image/png;base64,iVBORw0KGgo=",
        "data:image/gif;base64,R0lGODlh",
    );
    let named = |path: &Path| format!("[file: {}]", path.display());
    let lost = format!("[image: {} (no longer available)]", gone.display());
    let text_line = format!("see {}", text.display());

    let table = [
        (user("hi", &[]), json!("hi"), vec![]),
        (
            user("hi", &[&png, &text, &gif]),
            json!([image(png_url), image(gif_url), {"type": "text", "text": format!("{}\n\nhi", named(&text))}]),
            vec![],
        ),
        (user("", &[&png]), json!([image(png_url)]), vec![]),
        (user("", &[&text]), json!(named(&text)), vec![]),
        (user(text_line.as_str(), &[&text]), json!(text_line), vec![]),
        (
            user("hi", &[&missing]),
            json!(format!("{}\n\nhi", named(&missing))),
            vec![],
        ),
        (
            user("hi", &[&gone]),
            json!(format!("{lost}\n\nhi")),
            vec![gone.display().to_string()],
        ),
        (user("hi", &[&gone]), json!(format!("{lost}\n\nhi")), vec![]),
        (
            user("hi", &[&large]),
            json!(format!(
                "[image: {} (larger than 5 MB, not shown)]\n\nhi",
                large.display()
            )),
            vec![],
        ),
        (
            user(
                Content::Blocks(vec![nanobot_types::ContentBlock::Text {
                    text: "[image]".to_owned(),
                }]),
                &[&png, &text],
            ),
            json!([image(png_url), {"type": "text", "text": named(&text)}, {"type": "text", "text": "[image]"}]),
            vec![],
        ),
    ];
    for (message, content, dropped) in table {
        assert_eq!(
            rendered(&builder, &message).await,
            (content, dropped),
            "{message:?}"
        );
    }
}

#[tokio::test]
async fn replayed_image_is_unchanged_until_a_restart() {
    let workspace = tempfile::tempdir().unwrap();
    let png = write(workspace.path(), "a.png", b"\x89PNG\r\n\x1a\n");
    let message = user("hi", &[&png]);
    let running = builder(&workspace, facts(""));
    let before = rendered(&running, &message).await;
    std::fs::remove_file(&png).unwrap();
    assert_eq!(rendered(&running, &message).await, before);

    let restarted = builder(&workspace, facts(""));
    let lost = json!(format!(
        "[image: {} (no longer available)]\n\nhi",
        png.display()
    ));
    assert_eq!(
        rendered(&restarted, &message).await,
        (lost.clone(), vec![png.display().to_string()])
    );
    write(workspace.path(), "a.png", b"\x89PNG\r\n\x1a\n");
    assert_eq!(
        rendered(&restarted, &message).await,
        (lost, vec![]),
        "a lost image stays lost"
    );
}

#[tokio::test]
async fn new_workspace_is_complete_and_its_prompt_small() {
    let parent = tempfile::tempdir().unwrap();
    let workspace = parent.path().join("deep/workspace");
    let created = sync_templates(&workspace).unwrap();
    let names = [
        "AGENTS.md",
        "SOUL.md",
        "USER.md",
        "TOOLS.md",
        "HEARTBEAT.md",
        "memory/MEMORY.md",
        "memory/HISTORY.md",
    ];
    assert_eq!(created, names.map(|name| workspace.join(name)));
    assert!(workspace.join("skills").is_dir());

    let memory = facts(&std::fs::read_to_string(workspace.join("memory/MEMORY.md")).unwrap());
    let builder = ContextBuilder::new(ContextSettings::new(&workspace), Arc::new(memory));
    let prompt = builder.system(&"cli:direct".into()).await;
    let sections: Vec<_> = prompt.sections().map(|(name, ..)| name).collect();
    assert_eq!(
        sections,
        ["identity", "bootstrap"],
        "unfilled templates are omitted"
    );
    assert!(prompt.text().len() <= 2500, "{} bytes", prompt.text().len());
}

#[test]
fn templates_are_restored_but_never_overwritten() {
    let directory = tempfile::tempdir().unwrap();
    let workspace = directory.path();
    let soul = write(workspace, "SOUL.md", "mine");
    let history = write(workspace, "memory/HISTORY.md", "[2026-01-01] something\n");
    assert_eq!(sync_templates(workspace).unwrap().len(), 5);
    assert_eq!(sync_templates(workspace).unwrap(), Vec::<PathBuf>::new());
    std::fs::remove_file(workspace.join("USER.md")).unwrap();
    assert_eq!(
        sync_templates(workspace).unwrap(),
        [workspace.join("USER.md")]
    );
    assert_eq!(std::fs::read_to_string(soul).unwrap(), "mine");
    assert_eq!(
        std::fs::read_to_string(history).unwrap(),
        "[2026-01-01] something\n"
    );

    let occupied = tempfile::tempdir().unwrap();
    write(occupied.path(), "memory", "a file where a folder belongs");
    let refused = sync_templates(occupied.path());
    assert!(
        matches!(refused, Err(ContextError::Create { path, .. }) if path == occupied.path().join("memory"))
    );
}
