//! parsers.
