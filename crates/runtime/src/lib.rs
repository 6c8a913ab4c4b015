//! Builds the assistant from configuration and supervises it.
