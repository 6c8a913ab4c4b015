//! markup.
