//! Wiring and contract tests of the workspace; everything is in `tests/`.
