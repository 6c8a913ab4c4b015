//! Vocabulary shared by every crate: ids, messages, transcripts, tool results.
