//! Scripted models, platform fakes and conformance suites.
