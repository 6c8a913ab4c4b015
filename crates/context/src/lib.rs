//! Builds the prompt from stable and changing sections.
