//! MCP servers: those that failed to start, and changed tools.

use super::FindingList;
use crate::Runtime;
use crate::error::chain;
use crate::operator::mcp::problems;

pub(super) fn examine(list: &mut FindingList, runtime: &Runtime) {
    match problems(runtime) {
        Ok(problems) => {
            for (what, remedy) in problems {
                list.warn("mcp.server", what, remedy);
            }
        }
        Err(error) => list.fault("mcp.server", chain(&error), "Correct tools.mcpServers."),
    }
}
