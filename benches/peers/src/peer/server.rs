//! cubecl over a device that does nothing: a `Server` whose launch only touches its bindings.
//!
//! Memory is cubecl's own management over heap bytes, as its CPU runtimes use it.

use std::any::Any;
use std::hint::black_box;
use std::sync::Arc;

use cubecl_common::bytes::Bytes;
use cubecl_common::device::{DeviceId, DeviceService, ServiceId};
use cubecl_common::profile::{ProfileDuration, TimingMethod};
use cubecl_environment::future::DynFut;
use cubecl_environment::stream::StreamId;
use cubecl_ir::features::Features;
use cubecl_ir::{
    DeviceIdentity, DeviceProperties, HardwareProperties, MemoryDeviceProperties, TargetProperties,
    VectorSize,
};
use cubecl_server::allocator::ContiguousMemoryLayoutPolicy;
use cubecl_server::execution::LaunchMode;
use cubecl_server::kernel::CubeKernel;
use cubecl_server::logging::ServerLogger;
use cubecl_server::memory_management::{
    Cleanup, ErrorGraph, ManagedMemoryHandle, MemoryAllocationMode, MemoryConfiguration,
    MemoryManagement, MemoryManagementOptions, PageUpdate, StreamMemoryReport,
};
use cubecl_server::server::{
    BufferBinding, CopyDescriptor, CubeCount, KernelArguments, ProfileError, ProfilingToken,
    Server, ServerCommunication, ServerError, ServerStorage, ServerUtilities,
};
use cubecl_server::storage::{BytesStorage, ComputeStorage, ManagedResource};
use cubecl_server::timestamp_profiler::TimestampProfiler;

use super::kernels;
use crate::noop;

/// The no-op device.
#[derive(Debug)]
pub(super) struct NoopServer {
    memory: MemoryManagement<BytesStorage>,
    timestamps: TimestampProfiler,
    utilities: Arc<ServerUtilities>,
    failures: ErrorGraph,
}

/// Returns cubecl's memory management alone, with this configuration.
pub(super) fn memory(configuration: MemoryConfiguration) -> MemoryManagement<BytesStorage> {
    MemoryManagement::from_configuration(
        BytesStorage::default(),
        &memory_properties(),
        configuration,
        Arc::new(ServerLogger::default()),
        MemoryManagementOptions::new("peers"),
    )
}

fn memory_properties() -> MemoryDeviceProperties {
    MemoryDeviceProperties::new(512 << 20, 32)
}

fn device_properties() -> DeviceProperties {
    let hardware = HardwareProperties {
        load_width: 128,
        vector_register_count: None,
        plane_size_min: 32,
        plane_size_max: 32,
        max_bindings: 32,
        max_shared_memory_size: 48_000,
        max_cube_count: (65_535, 65_535, 65_535),
        max_units_per_cube: 1024,
        max_cube_dim: (1024, 1024, 64),
        num_streaming_multiprocessors: None,
        num_tensor_cores: None,
        min_tensor_cores_dim: None,
        num_cpu_cores: None,
        last_level_cache_size: None,
        max_vector_size: VectorSize::MAX,
        cube_mma_reserved_shared_memory: 0,
    };
    let identity = DeviceIdentity {
        name: "noop".into(),
        fingerprint: "noop".into(),
        physical: None,
    };
    DeviceProperties::new(
        Features::default(),
        memory_properties(),
        hardware,
        TimingMethod::System,
        identity,
    )
}

impl DeviceService for NoopServer {
    fn init(device_id: DeviceId) -> Self {
        let (utilities, _) = ServerUtilities::init(
            ServiceId::of::<Self>(device_id),
            "noop",
            device_properties(),
            TargetProperties::default(),
            Arc::new(ServerLogger::default()),
            ContiguousMemoryLayoutPolicy::new(4),
        );
        Self {
            memory: memory(MemoryConfiguration::default()),
            timestamps: TimestampProfiler::default(),
            utilities: Arc::new(utilities),
            failures: ErrorGraph::default(),
        }
    }

    fn utilities(&self) -> Arc<dyn Any + Send + Sync> {
        Server::utilities(self)
    }
}

impl ServerCommunication for NoopServer {}

impl Server for NoopServer {
    fn logger(&self) -> Arc<ServerLogger> {
        self.utilities.logger.clone()
    }

    fn utilities(&self) -> Arc<ServerUtilities> {
        self.utilities.clone()
    }

    fn initialize_memory(
        &mut self,
        memory: ManagedMemoryHandle,
        size: u64,
        _: StreamId,
    ) -> Result<(), ServerError> {
        let reserved = self
            .memory
            .reserve(size, PageUpdate::Allow, &mut self.failures)
            .expect("heap memory does not run out here");
        self.memory
            .bind(reserved, memory, 0, &mut self.failures)
            .expect("a slice just reserved can be bound");
        Ok(())
    }

    fn read(
        &mut self,
        descriptors: Vec<CopyDescriptor>,
        _: StreamId,
    ) -> DynFut<Result<Vec<Bytes>, ServerError>> {
        let resources: Vec<_> = descriptors
            .into_iter()
            .map(|descriptor| {
                let handle = descriptor.handle;
                let size = handle.size_in_used() as usize;
                let resource = self
                    .memory
                    .get_resource(
                        handle.memory.clone(),
                        handle.offset_start,
                        handle.offset_end,
                    )
                    .expect("a live handle resolves");
                (resource, size, handle.memory)
            })
            .collect();
        Box::pin(async move {
            let copy = |(resource, size, _held): (
                <BytesStorage as ComputeStorage>::Resource,
                usize,
                _,
            )| Bytes::from_bytes_vec(resource.read()[..size].to_vec());
            Ok(resources.into_iter().map(copy).collect())
        })
    }

    fn write(&mut self, descriptors: Vec<(CopyDescriptor, Bytes)>, _: StreamId) {
        for (descriptor, data) in descriptors {
            let storage = self
                .memory
                .get_storage(descriptor.handle.memory)
                .expect("a live handle has storage");
            let mut resource = self
                .memory
                .storage()
                .get(&storage)
                .expect("storage resolves");
            resource.write()[..data.len()].copy_from_slice(&data);
        }
    }

    fn sync(&mut self, _: Vec<BufferBinding>, _: StreamId) -> DynFut<Result<(), ServerError>> {
        Box::pin(async { Ok(()) })
    }

    fn check(&mut self, _: Vec<BufferBinding>, _: StreamId) -> Result<(), ServerError> {
        Ok(())
    }

    unsafe fn launch(
        &mut self,
        kernel: Box<dyn CubeKernel>,
        _: CubeCount,
        bindings: KernelArguments,
        _: StreamId,
        _: LaunchMode,
    ) {
        for binding in bindings.buffers() {
            black_box(binding.memory.id());
        }
        noop::launched(kernels::mark_of(&*kernel));
    }

    fn flush(&mut self, _: StreamId) -> Result<(), ServerError> {
        Ok(())
    }

    fn memory_report(&mut self, stream: StreamId) -> Option<StreamMemoryReport> {
        let pools = self.memory.memory_report();
        Some(StreamMemoryReport {
            stream,
            pools,
            auxiliary: Vec::new(),
        })
    }

    fn memory_cleanup(&mut self, _: StreamId) -> Result<(), ServerError> {
        self.memory.cleanup(Cleanup::Explicit, &mut self.failures);
        Ok(())
    }

    fn start_profile(&mut self, _: StreamId) -> Result<ProfilingToken, ServerError> {
        Ok(self.timestamps.start())
    }

    fn end_profile(
        &mut self,
        _: StreamId,
        token: ProfilingToken,
    ) -> Result<ProfileDuration, ProfileError> {
        self.timestamps.stop(token)
    }

    fn allocation_mode(&mut self, mode: MemoryAllocationMode, _: StreamId) {
        self.memory.mode(mode);
    }
}

impl ServerStorage for NoopServer {
    type Storage = BytesStorage;

    fn get_resource(
        &mut self,
        binding: BufferBinding,
        _: StreamId,
    ) -> Result<ManagedResource<<BytesStorage as ComputeStorage>::Resource>, ServerError> {
        let (start, end) = (binding.offset_start, binding.offset_end);
        let resource = self
            .memory
            .get_resource(binding.memory.clone(), start, end)?;
        Ok(ManagedResource::new(binding.memory, resource))
    }
}
