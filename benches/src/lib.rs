//! Measurements against floor programs.
