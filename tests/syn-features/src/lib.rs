//! Empty: see the manifest.
