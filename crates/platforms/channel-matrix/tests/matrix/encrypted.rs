//! Encrypted rooms.
