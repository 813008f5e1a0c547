//! Tests of activation and selection.
