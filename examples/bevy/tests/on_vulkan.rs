//! The plugin in an app without a window. Skipped on machines without Vulkan, unless `MILLSTREAM_VULKAN=required`.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::sync::{Arc, Mutex};

use bevy::app::PluginsState;
use bevy::log::LogPlugin;
use bevy::prelude::*;
use bevy::render::RenderApp;
use bevy::render::render_resource::BufferUsages;
use bevy::render::renderer::{RenderDevice, RenderQueue};
use bevy::window::ExitCondition;
use bevy_millstream::{Compute, Millstream, MillstreamPlugin};
use millstream::{Handle, Stream, update};
use millstream_wgpu::wgpu;

/// A slice that millstream and wgpu write in turns.
#[derive(Resource)]
struct Counter {
    stream: Stream,
    slice: Handle<u32>,
    buffer: wgpu::Buffer,
}

/// What the systems have seen, for the test.
#[derive(Resource, Clone, Default)]
struct Seen(Arc<Mutex<Vec<u32>>>);

fn app() -> App {
    let mut app = App::new();
    app.add_plugins(MillstreamPlugin).add_plugins(
        DefaultPlugins
            .build()
            .disable::<LogPlugin>()
            .set(WindowPlugin {
                primary_window: None,
                exit_condition: ExitCondition::DontExit,
                ..default()
            }),
    );
    app
}

fn run(app: &mut App, frames: usize) {
    while app.plugins_state() == PluginsState::Adding {
        bevy::tasks::tick_global_task_pools_on_main_thread();
    }
    app.finish();
    app.cleanup();
    (0..frames).for_each(|_| app.update());
}

/// Whether this machine has Vulkan. Bevy panics without it.
fn has_vulkan() -> bool {
    let found = millstream::vulkan::gpus();
    if let Err(error) = &found {
        let is_required = std::env::var("MILLSTREAM_VULKAN").is_ok_and(|value| value == "required");
        assert!(!is_required, "{error}");
        println!("skipped: {error}");
    }
    found.is_ok()
}

fn count(
    mut commands: Commands,
    counter: Option<Res<Counter>>,
    millstream: Res<Millstream>,
    queue: Res<RenderQueue>,
    seen: Res<Seen>,
) -> Result<(), BevyError> {
    let Some(counter) = counter else {
        let stream = millstream.client().new_stream();
        let slice = stream.create(&[0_u32; 2])?;
        let usages = BufferUsages::COPY_DST | BufferUsages::COPY_SRC;
        let buffer = millstream.link().buffer(&stream, &slice, usages)?;
        commands.insert_resource(Counter {
            stream,
            slice,
            buffer,
        });
        return Ok(());
    };
    let Counter {
        stream,
        slice,
        buffer,
    } = &*counter;
    millstream.link().acquire(stream, update(slice))?;
    let words = stream.read(slice).wait()?;
    seen.0.lock().unwrap().push(words[0]);
    stream.write(slice, &[words[0] + 1, 0])?;
    millstream.link().release(stream, update(slice))?;
    // Bevy submits this with its frame: the high word becomes a copy of the low one.
    queue.write_buffer(buffer, 4, &words[0].to_le_bytes());
    Ok(())
}

#[test]
fn tasks_run_once_per_frame_and_share_a_buffer_with_bevy() {
    if !has_vulkan() {
        return;
    }
    let mut app = app();
    let seen = Seen::default();
    let render = app.sub_app_mut(RenderApp);
    render.insert_resource(seen.clone());
    render.add_systems(Compute, count);
    run(&mut app, 6);
    assert_eq!(*seen.0.lock().unwrap(), [0, 1, 2, 3, 4]);

    let render = app.sub_app(RenderApp).world();
    let (counter, millstream) = (
        render.resource::<Counter>(),
        render.resource::<Millstream>(),
    );
    let device = render.resource::<RenderDevice>();
    millstream
        .link()
        .acquire(&counter.stream, update(&counter.slice))
        .unwrap();
    assert_eq!(counter.stream.read(&counter.slice).wait().unwrap(), [5, 4]);
    assert!(
        device
            .wgpu_device()
            .features()
            .contains(wgpu::Features::SHADER_INT64)
    );
}

#[test]
fn app_without_compute_systems_runs() {
    if has_vulkan() {
        run(&mut app(), 3);
    }
}
