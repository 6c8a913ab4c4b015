//! Clients of model vendors, the vendor table and the demo model.
