//! The documented WebSocket protocol for third parties.
