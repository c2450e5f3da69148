//! Prepares kernels: compiles and registers them, by a call or when the first launch needs one.

use std::any::TypeId;
use std::sync::Arc;

use millstream_protocol::{Error, Kernel, KernelError, KernelId, LogLevel, Registration};

use crate::{DeviceShared, KernelHandle, Stream};

impl DeviceShared {
    /// Prepares a kernel ([`ComputeClient::kernel`](crate::ComputeClient::kernel)).
    pub(crate) fn prepare(self: &Arc<Self>, kernel: Kernel) -> Result<KernelHandle, Error> {
        self.check_process()?;
        kernel.check_needs(self.properties())?;
        let kernel = Arc::new(kernel);
        let span = tracing::debug_span!(target: "millstream", "prepare", kernel = %kernel.name());
        let _entered = span.enter();
        let code = match self.compiler.compile(&kernel) {
            Ok(code) => code,
            Err(KernelError::Lost { .. }) => {
                self.report_lost().wait()?;
                return Err(self.terminal_error());
            }
            Err(error) => return Err(error.into()),
        };
        if self.settings().logs.compilation >= LogLevel::Basic {
            tracing::debug!(target: "millstream::compilation", kernel = %kernel.name(), backend = self.properties().backend, "prepared");
        }
        let hold = self.slot(true)?;
        let id = KernelId(hold.id());
        self.register(Registration::Kernel {
            id,
            kernel: kernel.clone(),
            code,
        })?;
        Ok(KernelHandle { hold, kernel })
    }
}

impl Stream {
    /// Returns the kernel of the type `K` on this stream's device. The first call defines and compiles it, and so blocks as
    /// [`ComputeClient::kernel`](crate::ComputeClient::kernel); two first calls at once may both do so, and use the kernel
    /// of one. The device keeps the kernel.
    ///
    /// # Errors
    /// Those of `define`, and of [`ComputeClient::kernel`](crate::ComputeClient::kernel).
    #[inline]
    pub fn prepared<K: 'static>(
        &self,
        define: impl FnOnce() -> Result<Kernel, Error>,
    ) -> Result<&KernelHandle, Error> {
        match self.device().prepared.find(TypeId::of::<K>()) {
            Some(kernel) => Ok(kernel),
            None => self.prepare(TypeId::of::<K>(), define()?),
        }
    }

    #[cold]
    fn prepare(&self, key: TypeId, kernel: Kernel) -> Result<&KernelHandle, Error> {
        let device = self.device();
        let kernel = device.prepare(kernel)?;
        Ok(device.prepared.add(key, kernel))
    }
}
