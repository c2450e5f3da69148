//! The CPU as a millstream device: queues that truly overlap and native kernels.
