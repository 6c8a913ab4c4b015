//! Risk of changing a file for the assistant itself.

use std::{path::Path, sync::Arc};

use nanobot_guard::PathPolicy;
use nanobot_tool::{CallReview, CallRisk, ToolContext};
use nanobot_types::ToolResult;

use super::with_policy;

/// Files of the workspace whose text every later turn obeys.
const INSTRUCTIONS: [&str; 6] = [
    "agents.md",
    "soul.md",
    "user.md",
    "tools.md",
    "identity.md",
    "heartbeat.md",
];

/// Folders of the workspace that later turns read or run.
const LASTING: [(&str, &str); 4] = [
    ("memory", "changes what I remember"),
    ("skills", "changes my skills"),
    (TOOLS, "changes my tools"),
    ("cron", "changes my jobs"),
];

/// Folder of the workspace with the assistant's own tools.
const TOOLS: &str = "tools";

/// Returns the result of a call that changes one of the assistant's own tools before a person
/// confirmed it; `None` for other calls. A tool runs again and again, without anyone looking at it.
pub(super) async fn unconfirmed(
    policy: &Arc<PathPolicy>,
    context: &ToolContext,
    paths: Vec<String>,
) -> Option<ToolResult> {
    if context.is_confirmed {
        return None;
    }
    let changes = with_policy(policy, context, move |policy| {
        Ok(paths.iter().any(|path| is_tool(policy, path)))
    });
    changes.await.unwrap_or_default().then(|| ToolResult {
        requires_user_confirmation: true,
        ..ToolResult::error("It changes my own tools, so the user has to confirm it.")
    })
}

fn is_tool(policy: &PathPolicy, path: &str) -> bool {
    let file = policy.write(path).ok();
    let within = file
        .as_ref()
        .and_then(|file| file.path().strip_prefix(policy.base()).ok());
    let first = within.and_then(|path| path.components().next());
    first.is_some_and(|first| first.as_os_str().eq_ignore_ascii_case(TOOLS))
}

/// Describes a call that changes these files. A file that cannot be written is no risk.
pub(super) async fn review_changes(
    policy: &Arc<PathPolicy>,
    context: &ToolContext,
    paths: Vec<String>,
) -> CallReview {
    let risks = with_policy(policy, context, move |policy| {
        Ok(paths.iter().map(|path| risk(policy, path)).collect())
    });
    let risks: Vec<CallRisk> = risks.await.unwrap_or_default();
    let is_refused = |risk: &&CallRisk| matches!(risk, CallRisk::Refused(_));
    let gravest = risks
        .iter()
        .find(is_refused)
        .or_else(|| risks.iter().find(|risk| **risk != CallRisk::None));
    CallReview {
        risk: gravest.cloned().unwrap_or_default(),
        ..CallReview::default()
    }
}

fn risk(policy: &PathPolicy, path: &str) -> CallRisk {
    let Ok(file) = policy.write(path) else {
        return CallRisk::None;
    };
    file.path()
        .strip_prefix(policy.base())
        .map_or(CallRisk::None, risk_within)
}

/// Returns the risk of a path in the workspace. Names are compared as a file system that ignores
/// case does.
fn risk_within(path: &Path) -> CallRisk {
    let mut parts = path
        .components()
        .map(|part| part.as_os_str().to_string_lossy().to_lowercase());
    let (Some(first), rest) = (parts.next(), parts.next()) else {
        return CallRisk::None;
    };
    if rest.is_none() && INSTRUCTIONS.contains(&first.as_str()) {
        return CallRisk::Refused("changes my instructions".to_owned());
    }
    let lasting = LASTING.iter().find(|(folder, _)| *folder == first);
    lasting.map_or(CallRisk::None, |(_, why)| {
        CallRisk::NeedsConsent((*why).to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_outlast_the_turn_are_a_risk() {
        for (path, expected) in [
            ("AGENTS.md", "refused"),
            ("agents.MD", "refused"),
            ("HEARTBEAT.md", "refused"),
            ("docs/AGENTS.md", "none"),
            ("memory/MEMORY.md", "consent"),
            ("skills/helper/SKILL.md", "consent"),
            ("tools/x.py", "consent"),
            ("Tools/x.py", "consent"),
            ("notes.md", "none"),
            ("src/tools/x.py", "none"),
        ] {
            let risk = match risk_within(Path::new(path)) {
                CallRisk::None => "none",
                CallRisk::NeedsConsent(_) => "consent",
                CallRisk::Refused(_) => "refused",
            };
            assert_eq!(risk, expected, "{path}");
        }
    }
}
