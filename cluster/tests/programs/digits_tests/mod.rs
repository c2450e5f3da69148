//! Data-parallel training: the losses of one device with the whole batch, on any number of devices and ranks.

mod overlap;
mod values;
