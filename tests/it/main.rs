//! Flows across rooms, in one binary.

mod snp;
