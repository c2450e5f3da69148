//! The millstream command line: the demo and the doctor.
