//! The slash commands of this assistant: the built-in ones and those that need more than an agent.

use std::sync::Arc;

use nanobot_agent_core::{Command, CommandTable};
use nanobot_state::SqliteSpendLedger;
use nanobot_types::CommandInfo;

use crate::RuntimeError;
use crate::assembly::access::HomeAccess;
use crate::gateway::budget::{self, BudgetCommand};
use crate::gateway::pairing::{self, PairingCommand};
use crate::gateway::restart::{self, Restart};

/// Returns the table of all commands.
pub(crate) fn table(
    restart: &Restart,
    access: HomeAccess,
    ledger: Arc<SqliteSpendLedger>,
) -> Result<CommandTable, RuntimeError> {
    let more: [Arc<dyn Command>; 3] = [
        Arc::new(BudgetCommand {
            ledger,
            access: access.clone(),
        }),
        Arc::new(PairingCommand { access }),
        Arc::new(restart.clone()),
    ];
    Ok(CommandTable::built_in().with(more)?)
}

/// Returns the descriptions of all commands, for help and for completion at a terminal.
#[must_use]
pub fn command_infos() -> Vec<CommandInfo> {
    CommandTable::built_in()
        .infos()
        .chain([budget::INFO, pairing::INFO, restart::INFO])
        .collect()
}

/// `true` if a line is a slash command, known or not, instead of a message to the model.
#[must_use]
pub fn is_command(line: &str) -> bool {
    CommandTable::built_in().is_command(line)
}

#[cfg(test)]
mod tests {
    use nanobot_config::Environment;

    use super::*;
    use crate::LoadOptions;
    use crate::assembly::runtime::in_environment;
    use crate::assembly::spending;

    #[test]
    fn command_infos_match_the_command_table() {
        let home = tempfile::tempdir().unwrap();
        let environment = Environment::new([], Some(home.path().into()), "/".into());
        let config = in_environment(environment, LoadOptions::default());
        let ledger = spending::open(config.config()).unwrap();
        let table = table(&Restart::default(), HomeAccess::of(&config), ledger).unwrap();
        assert_eq!(command_infos(), table.infos().collect::<Vec<_>>());
    }
}
