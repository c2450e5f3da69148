//! The pipeline cache on disk.

use std::fs;
use std::path::{Path, PathBuf};

use millstream::vulkan::Vulkan;
use millstream::{CubeCount, Device, Kernel, update};

use crate::subject::{checked, module, unavailable};

/// A folder that is removed at the end.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).collect()
}

/// Opens a device with a cache in this folder and runs one kernel.
fn run(folder: &Path) {
    let opening = checked(Vulkan::ordinal(0).queues(1).pipeline_cache(folder));
    let device = Device::open(opening.kind).unwrap();
    let client = device.new_client();
    let (module, descriptors) = module("add_one").unwrap();
    let options = millstream::vulkan::VulkanLaunch::default().descriptors(descriptors);
    let kernel = Kernel::new("add_one")
        .updates::<u32>("values")
        .scalar::<u32>("n");
    let kernel = client.kernel(kernel.spirv(module).with(options)).unwrap();
    let stream = client.new_stream();
    let values = stream.create(&[1_u32, 2, 3]).unwrap();
    stream
        .launch(&kernel, CubeCount::d1(1), (update(&values), 3_u32))
        .unwrap();
    assert_eq!(stream.read(&values).wait().unwrap(), [2, 3, 4]);
    drop((values, stream, kernel, client));
    device.close(std::time::Duration::from_secs(60));
    drop(device);
    drop(opening.checks);
}

#[test]
fn pipelines_are_kept_and_a_damaged_file_is_replaced() {
    if let Some(why) = unavailable() {
        return eprintln!("SKIPPED: {why}");
    }
    let name = format!("millstream-pipelines-{}", std::process::id());
    let folder = Folder(std::env::temp_dir().join(name));
    run(&folder.0);
    let [file] = files(&folder.0).try_into().unwrap();
    let intact = fs::read(&file).unwrap();
    assert!(intact.len() > 40, "{} bytes", intact.len());
    run(&folder.0);
    assert_eq!(files(&folder.0), std::slice::from_ref(&file));
    for damaged in [&intact[..intact.len() / 2], &[0_u8; 100], &[]] {
        fs::write(&file, damaged).unwrap();
        run(&folder.0);
        assert_eq!(fs::read(&file).unwrap().len(), intact.len());
    }
}

#[test]
fn folder_that_cannot_be_written_only_costs_the_cache() {
    if let Some(why) = unavailable() {
        return eprintln!("SKIPPED: {why}");
    }
    let name = format!("millstream-no-folder-{}", std::process::id());
    let file = std::env::temp_dir().join(name);
    fs::write(&file, "a file, not a folder").unwrap();
    run(&file);
    fs::remove_file(&file).unwrap();
}
