//! A million particles that millstream moves and Bevy draws, on one device and in one buffer.
//!
//! ```text
//! cargo run --release --manifest-path examples/bevy/Cargo.toml --example particles -- --output frames
//! ```
//! Draws without a window, to pictures, and prints the time of a frame.

mod draw;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use bevy::app::PluginsState;
use bevy::asset::RenderAssetUsages;
use bevy::camera::RenderTarget;
use bevy::log::LogPlugin;
use bevy::prelude::*;
use bevy::render::render_resource::{Buffer, BufferUsages, TextureFormat, TextureUsages};
use bevy::render::view::screenshot::{Screenshot, save_to_disk};
use bevy::render::{RenderApp, RenderPlugin};
use bevy::window::ExitCondition;
use bevy_millstream::{Compute, Millstream, MillstreamPlugin};
use clap::Parser;
use millstream::{CubeCount, Handle as Slice, Kernel, KernelHandle, Stream, update};

/// Move particles by millstream and draw them by Bevy.
#[derive(Parser, Resource, Clone)]
struct Options {
    /// The number of particles.
    #[arg(long, default_value_t = 1_000_000)]
    particles: u32,
    /// The number of frames.
    #[arg(long, default_value_t = 120)]
    frames: u32,
    /// Write every n-th frame to this folder, as PNG.
    #[arg(long)]
    output: Option<PathBuf>,
    /// Which frames to write.
    #[arg(long, default_value_t = 30)]
    every: u32,
    /// Draw the particles at rest, for comparison.
    #[arg(long)]
    still: bool,
}

const WIDTH: u32 = 1280;
const HEIGHT: u32 = 720;
/// Threads of a cube, as in the kernel.
const CUBE: u32 = 256;

/// The particles. A resource of the render world.
#[derive(Resource)]
struct Particles {
    stream: Stream,
    step: KernelHandle,
    /// Position and velocity of each.
    slice: Slice<f32>,
    /// The same memory, for Bevy.
    buffer: Buffer,
    count: u32,
    frame: u32,
}

fn main() -> ExitCode {
    let options = Options::parse();
    if let Some(folder) = &options.output
        && let Err(error) = std::fs::create_dir_all(folder)
    {
        let folder = folder.display();
        eprintln!(
            "error: folder `{folder}` cannot be created ({error}): name another one with --output"
        );
        return ExitCode::from(2);
    }
    let mut app = App::new();
    app.add_plugins(MillstreamPlugin)
        .add_plugins(
            DefaultPlugins
                .set(LogPlugin {
                    filter: "warn".into(),
                    ..default()
                })
                .set(WindowPlugin {
                    primary_window: None,
                    exit_condition: ExitCondition::DontExit,
                    ..default()
                })
                .set(RenderPlugin {
                    synchronous_pipeline_compilation: true,
                    ..default()
                }),
        )
        .add_plugins(draw::DrawParticles)
        .insert_resource(options.clone())
        .add_systems(Startup, camera);
    let render = app.sub_app_mut(RenderApp);
    render.insert_resource(options.clone());
    render.add_systems(
        Compute,
        (begin.run_if(not(resource_exists::<Particles>)), simulate).chain(),
    );
    run(&mut app, &options);
    ExitCode::SUCCESS
}

/// Runs the frames, and prints their times.
fn run(app: &mut App, options: &Options) {
    while app.plugins_state() == PluginsState::Adding {
        bevy::tasks::tick_global_task_pools_on_main_thread();
    }
    app.finish();
    app.cleanup();
    let bar = indicatif::ProgressBar::new(u64::from(options.frames));
    // The first frames compile shaders.
    (0..3).for_each(|_| app.update());
    let mut times = Vec::new();
    for frame in 0..options.frames {
        if let Some(folder) = &options.output
            && frame % options.every == 0
        {
            take_picture(app, folder, frame);
        }
        let began = Instant::now();
        app.update();
        times.push(began.elapsed());
        bar.inc(1);
    }
    // Pictures arrive some frames later.
    (0..10).for_each(|_| app.update());
    bar.finish_and_clear();
    times.sort_unstable();
    let at = |part: usize| {
        times
            .get(times.len() * part / 100)
            .copied()
            .unwrap_or_default()
    };
    println!(
        "{} particles, {} frames: median {:.1?}, 90 % below {:.1?}",
        options.particles,
        options.frames,
        at(50),
        at(90)
    );
}

#[derive(Resource)]
struct Target(Handle<Image>);

fn camera(mut commands: Commands, mut images: ResMut<Assets<Image>>) {
    let mut image = Image::new_target_texture(WIDTH, HEIGHT, TextureFormat::Rgba8UnormSrgb, None);
    image.asset_usage = RenderAssetUsages::RENDER_WORLD;
    image.texture_descriptor.usage |= TextureUsages::COPY_SRC;
    let image = images.add(image);
    commands.insert_resource(Target(image.clone()));
    let mut projection = OrthographicProjection::default_2d();
    projection.scaling_mode = bevy::camera::ScalingMode::FixedVertical {
        viewport_height: 2.0,
    };
    commands.spawn((
        Camera2d,
        Msaa::Off,
        Camera {
            clear_color: Color::srgb(0.01, 0.012, 0.03).into(),
            ..default()
        },
        RenderTarget::from(image),
        Projection::Orthographic(projection),
    ));
}

fn take_picture(app: &mut App, folder: &std::path::Path, frame: u32) {
    let Some(Target(image)) = app.world().get_resource::<Target>() else {
        return;
    };
    let picture = Screenshot::image(image.clone());
    let path = folder.join(format!("particles-{frame:04}.png"));
    app.world_mut().spawn(picture).observe(save_to_disk(path));
}

/// Creates the particles, in a disc at rest.
fn begin(
    mut commands: Commands,
    millstream: Res<Millstream>,
    options: Res<Options>,
) -> Result<(), BevyError> {
    let kernel = Kernel::new("swirl")
        .updates::<f32>("particles")
        .scalar::<f32>("time")
        .scalar::<f32>("step");
    let step = millstream
        .client()
        .kernel(kernel.wgsl(include_str!("swirl.wgsl")))?;
    let stream = millstream.client().new_stream();
    let slice = stream.create(&disc(options.particles))?;
    let buffer = millstream
        .link()
        .buffer(&stream, &slice, BufferUsages::VERTEX)?;
    commands.insert_resource(Particles {
        stream,
        step,
        slice,
        buffer: buffer.into(),
        count: options.particles,
        frame: 0,
    });
    Ok(())
}

/// Returns position and velocity of `count` particles in a disc.
fn disc(count: u32) -> Vec<f32> {
    let mut all = Vec::with_capacity(count as usize * 4);
    for index in 0..count {
        // Vogel's spiral: even spacing.
        let radius = 0.85 * (index as f32 / count as f32).sqrt();
        let (sin, cos) = (index as f32 * 2.399_963).sin_cos();
        all.extend([
            radius * cos,
            radius * sin,
            -0.35 * radius * sin,
            0.35 * radius * cos,
        ]);
    }
    all
}

/// Moves the particles by one step, after the frame before was drawn and before this one is.
fn simulate(
    millstream: Res<Millstream>,
    particles: Option<ResMut<Particles>>,
    options: Res<Options>,
) -> Result<(), BevyError> {
    let Some(mut particles) = particles else {
        return Ok(());
    };
    if options.still {
        return Ok(());
    }
    particles.frame += 1;
    let Particles {
        stream,
        step,
        slice,
        count,
        frame,
        ..
    } = &*particles;
    let link = millstream.link();
    link.acquire(stream, update(slice))?;
    let arguments = (update(slice), *frame as f32 / 60.0, 1.0_f32 / 60.0);
    stream.launch(step, CubeCount::d1(count.div_ceil(CUBE)), arguments)?;
    link.release(stream, update(slice))?;
    Ok(())
}
