//! Wiring and contract tests of the workspace.
