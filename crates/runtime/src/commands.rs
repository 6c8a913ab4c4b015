//! The slash commands of this assistant: the built-in ones and those that need more than an agent.

use std::sync::Arc;

use nanobot_agent_core::{Command, CommandTable};
use nanobot_types::CommandInfo;

use crate::RuntimeError;
use crate::restart::{self, Restart};

/// All of them.
pub(crate) fn table(restart: &Restart) -> Result<CommandTable, RuntimeError> {
    let more: [Arc<dyn Command>; 1] = [Arc::new(restart.clone())];
    Ok(CommandTable::built_in().with(more)?)
}

/// What people are told about each of them, for help and completion at a terminal.
#[must_use]
pub fn command_infos() -> Vec<CommandInfo> {
    CommandTable::built_in().infos().chain([restart::INFO]).collect()
}

/// Whether a line that a person typed is a command, known or not, and no message to the model.
#[must_use]
pub fn is_command(line: &str) -> bool {
    CommandTable::built_in().takes(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_is_what_there_is() {
        let table = table(&Restart::default()).unwrap();
        assert_eq!(command_infos(), table.infos().collect::<Vec<_>>());
    }
}
