//! Rules for the files of an installation that tools may read or change.
//!
//! Decision: the data folder is closed as a whole, and only what tools work with is opened in it. A
//! file that is added later (a copy of the configuration, a journal, a token) is then closed
//! without being listed. Folders that only the program uses are also secret, because a workspace
//! may be anywhere, even inside one of them.

use std::path::{Path, PathBuf};

use nanobot_channels::PairingStore;
use nanobot_config::Config;
use nanobot_guard::{CREDENTIAL_PATHS, PathRules};
use nanobot_memory::MemoryStore as _;
use nanobot_tools::ToolsConfig;

use crate::assembly::approvals::approval_store;
use crate::assembly::memory;
use crate::assembly::skills;
use crate::{Runtime, RuntimeError, control_socket, memory_store};

/// Folders in the data folder or the home that only the program itself reads.
const PRIVATE_FOLDERS: [&str; 7] = [
    "channels",
    "cron",
    "history",
    "outbox",
    "prompts",
    "provider-logins",
    "sessions",
];

/// Files in the data folder that decide which MCP tools the model sees, and tokens of logins.
const MCP_FILES: [&str; 2] = ["mcp.json", "mcp-tokens.json"];

/// Returns the folder of tool results that are too long for a prompt.
pub(crate) fn results_folder(config: &Config) -> PathBuf {
    config.paths().data_dir.join("tool-results")
}

/// Returns the folder of attachments of messages that are still to be sent.
pub(crate) fn outbox_folder(config: &Config) -> PathBuf {
    config.paths().data_dir.join("outbox")
}

/// Returns the rules for file tools and for the command guard.
pub(crate) fn path_rules(
    runtime: &Runtime,
    tools: &ToolsConfig,
    workspace: &Path,
) -> Result<PathRules, RuntimeError> {
    let config = runtime.config();
    let paths = config.paths();
    let skills = skills::skills(runtime)?;
    let folders = [&paths.data_dir, &paths.home];
    // Its pairing codes grant access.
    let pairing = PairingStore::in_folder(&paths.data_dir).path().to_owned();
    let mut secret_paths = vec![
        paths.config_file.clone(),
        paths.state_db.clone(),
        control_socket(config),
        pairing,
        // It says which calls need no answer.
        approval_store(config).path().to_owned(),
    ];
    secret_paths.extend(
        folders
            .iter()
            .flat_map(|folder| PRIVATE_FOLDERS.map(|name| folder.join(name))),
    );
    secret_paths.extend(MCP_FILES.map(|name| paths.data_dir.join(name)));
    secret_paths.extend(CREDENTIAL_PATHS.map(PathBuf::from));
    secret_paths.extend(memory::private_paths(config)?);
    let mut read_only_roots = skills::read_only(&skills);
    read_only_roots.extend([
        paths.data_dir.join("library"),
        paths.media.clone(),
        results_folder(config),
    ]);
    read_only_roots.push(paths.logs.clone());
    let mut rules = tools.path_rules(workspace);
    // A workspace that is or contains the data folder opens only the default workspace in it.
    let default_workspace = paths.data_dir.join("workspace");
    if !rules.restrict || default_workspace.starts_with(workspace) {
        rules.allowed_paths.push(default_workspace);
    }
    rules.protected_paths.push(paths.logs.clone());
    // A conversation must not be able to write into another one's past.
    let sessions = memory::session_paths(config)?.searched();
    rules.protected_paths.extend(sessions);
    rules.protected_paths.push(skills::protected(&skills));
    rules
        .protected_paths
        .push(memory_store(config)?.folders().versions());
    // File names there are derived from the content. A session that was given a name may read the
    // file; no other can find it.
    let unlisted_roots = match memory_store(config)?.is_divided() {
        true => vec![paths.media.clone(), results_folder(config)],
        false => Vec::new(),
    };
    let closed_roots = folders.into_iter().cloned().collect();
    Ok(PathRules {
        secret_paths,
        read_only_roots,
        unlisted_roots,
        closed_roots,
        ..rules
    })
}
