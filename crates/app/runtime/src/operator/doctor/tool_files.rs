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
        let name = &file.file;
        if let Some(problem) = &file.problem
            && file.state != ToolFileState::Ignored
        {
            list.warn(
                "tools.files",
                format!("tools/{name} in the workspace is not loaded: {problem}"),
                "Change or remove it; `nanobot tools check` tries it.",
            );
        }
    }
}
