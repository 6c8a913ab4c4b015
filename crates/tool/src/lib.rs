//! The tool contract, argument validation and the registry.
