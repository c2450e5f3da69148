//! Running: the device, stream and GC actors of millstream, their threads, and the driver.
