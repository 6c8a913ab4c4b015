//! Skills that a message names.

use std::sync::Arc;

use nanobot_agent_core::{Agent, AgentParts, DirectRequest};
use nanobot_context::{ContextBuilder, ContextSettings, Purpose};
use nanobot_memory::MarkdownStore;
use nanobot_skill::{Blocker, Skill, SkillOrigin, SkillSource};
use nanobot_testkit::{Reply, ScriptedProvider};
use nanobot_types::{JobId, Origin};

use crate::world::{World, line};

/// A source with one skill, whose text contains how often it was read, and one unavailable skill.
#[derive(Debug, Default)]
struct Changing(std::sync::atomic::AtomicU32);

impl SkillSource for Changing {
    fn skills(&self) -> Vec<Skill> {
        let asked = self.0.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        let skill = |name: &str, body: String, blockers| Skill {
            name: name.to_owned(),
            description: format!("About {name}"),
            origin: SkillOrigin::Workspace,
            location: format!("/skills/{name}/SKILL.md").into(),
            body,
            always: false,
            blockers,
        };
        vec![
            skill(
                "needy",
                String::new(),
                vec![Blocker::Program("gh".to_owned())],
            ),
            skill("tax", format!("Version {asked}."), Vec::new()),
        ]
    }

    fn configuration(&self) -> String {
        String::new()
    }
}

fn agent(world: &World, workspace: &tempfile::TempDir) -> Agent {
    let settings = ContextSettings {
        skills: Arc::new(Changing::default()),
        ..ContextSettings::new(workspace.path())
    };
    let memory = Arc::new(MarkdownStore::new(workspace.path().join("memory")));
    let parts = world.parts(world.registry(), Purpose::Assistant);
    let context = Arc::new(ContextBuilder::new(settings, memory));
    Agent::new(AgentParts { context, ..parts }, world.settings())
}

#[tokio::test]
async fn named_skill_is_stored_with_its_message_and_replayed() {
    let workspace = tempfile::tempdir().unwrap();
    let world = World::new(ScriptedProvider::scripted(
        ["one", "two", "three", "four"].map(Reply::text),
    ));
    let agent = agent(&world, &workspace);
    for text in [
        "sort it by $tax.",
        "that was $5, not $needy or $HOME",
        "and again by $tax",
    ] {
        agent
            .process_direct(DirectRequest::new(text))
            .await
            .unwrap();
    }
    let by_job = DirectRequest {
        origin: Origin::Cron {
            job: JobId::from("j"),
        },
        ..DirectRequest::new("$tax")
    };
    agent.process_direct(by_job).await.unwrap();
    let requests = world.provider.requests();
    let last: Vec<String> = requests[3]
        .transcript
        .messages()
        .iter()
        .map(|message| line(message))
        .collect();
    for (request, length) in requests.iter().zip([1, 3, 5, 7]) {
        let sent: Vec<String> = request
            .transcript
            .messages()
            .iter()
            .map(|message| line(message))
            .collect();
        assert_eq!(
            sent,
            last[..length],
            "the stored text is replayed byte for byte"
        );
    }
    let block = |version: u32| {
        format!(
            "[/Runtime Context]\n\n[Skill tax, named in this message; its file: /skills/tax/SKILL.md]\nVersion {version}.\n[/Skill tax]"
        )
    };
    let version = |text: &str| {
        text.split_once("Version ")
            .and_then(|(_, rest)| rest.split('.').next()?.parse().ok())
    };
    let (first, third): (u32, u32) = (version(&last[0]).unwrap(), version(&last[4]).unwrap());
    assert!(first < third, "a message brings the skill as it is then");
    assert!(
        last[0].starts_with("user: sort it by $tax.\n\n[Runtime")
            && last[0].ends_with(&block(first)),
        "{last:?}"
    );
    assert!(last[2].ends_with("[/Runtime Context]"), "{last:?}");
    assert!(last[4].ends_with(&block(third)), "{last:?}");
    assert!(
        last[6].ends_with("[/Runtime Context]"),
        "a job is no person: {last:?}"
    );
    assert_eq!(
        world.log("cli:direct").await[0],
        "user: sort it by $tax.",
        "the message itself stays as it was"
    );
    world.assert_replays("cli:direct").await;
}

#[tokio::test]
async fn skills_are_listed_and_shown() {
    let workspace = tempfile::tempdir().unwrap();
    let agent = agent(&World::new(ScriptedProvider::scripted([])), &workspace);
    assert_eq!(
        agent.skill_overview("").await.unwrap(),
        "Skills ($NAME in a message loads one, /skill NAME shows it):\n\
         - needy (not available: CLI: gh): About needy\n\
         - tax: About tax"
    );
    assert_eq!(
        agent.skill_overview("$TAX").await.unwrap(),
        "tax (workspace): About tax\nWrite $tax in a message to load it.\n/skills/tax/SKILL.md\n\nVersion 1."
    );
    assert_eq!(
        agent.skill_overview("needy").await.unwrap(),
        "needy (workspace): About needy\nNot available: CLI: gh\n/skills/needy/SKILL.md"
    );
    assert_eq!(
        agent.skill_overview("nope").await.unwrap_err(),
        "There is no skill nope. /skill lists them."
    );
}
