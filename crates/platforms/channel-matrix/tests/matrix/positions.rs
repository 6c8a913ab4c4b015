//! positions.
