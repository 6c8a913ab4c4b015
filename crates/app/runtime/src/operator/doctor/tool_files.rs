//! Tools in files: those that are not loaded.

use super::FindingList;
use crate::error::chain;
use crate::{Runtime, ToolFileState, ToolFilesHome};

pub(super) async fn examine(list: &mut FindingList, runtime: &Runtime) {
    let home = match ToolFilesHome::of(runtime) {
        Ok(home) => home,
        Err(error) => {
            return list.fault("tools.files", chain(&error), "Correct tools.toolFiles.");
        }
    };
    for file in home.list().await {
        let remedy = match file.state {
            ToolFileState::Loaded | ToolFileState::Ignored => continue,
            ToolFileState::Refused => "Change or remove it; `nanobot tools check` tries it.",
            ToolFileState::Unavailable => "`nanobot tools check` tries it again.",
        };
        let problem = file.problem.unwrap_or_default();
        let what = format!(
            "tools/{} in the workspace is not loaded: {problem}",
            file.file
        );
        list.warn("tools.files", what, remedy);
    }
}
