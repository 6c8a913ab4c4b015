//! The contract a chat platform implements.
