//! Many threads, one device.
