//! Draws the particles, in a render pass of Bevy's 2D graph.

use bevy::core_pipeline::{Core2d, Core2dSystems};
use bevy::mesh::VertexBufferLayout;
use bevy::prelude::*;
use bevy::render::render_resource::binding_types::uniform_buffer;
use bevy::render::render_resource::*;
use bevy::render::renderer::{RenderContext, RenderDevice, ViewQuery};
use bevy::render::view::{ViewTarget, ViewUniform, ViewUniformOffset, ViewUniforms};
use bevy::render::{RenderApp, RenderStartup};

use super::Particles;

/// Adds the pass.
pub(super) struct DrawParticles;

impl Plugin for DrawParticles {
    fn build(&self, app: &mut App) {
        let shader = Shader::from_wgsl(include_str!("draw.wgsl"), "draw.wgsl");
        let shader = app.world_mut().resource_mut::<Assets<Shader>>().add(shader);
        app.sub_app_mut(RenderApp)
            .insert_resource(DrawShader(shader))
            .add_systems(RenderStartup, prepare)
            .add_systems(
                Core2d,
                draw.after(Core2dSystems::MainPass)
                    .before(Core2dSystems::PostProcess),
            );
    }
}

#[derive(Resource)]
struct DrawShader(Handle<Shader>);

#[derive(Resource)]
struct Pipeline {
    layout: BindGroupLayoutDescriptor,
    id: CachedRenderPipelineId,
}

fn prepare(mut commands: Commands, shader: Res<DrawShader>, cache: Res<PipelineCache>) {
    let entries =
        BindGroupLayoutEntries::single(ShaderStages::VERTEX, uniform_buffer::<ViewUniform>(true));
    let layout = BindGroupLayoutDescriptor::new("particles", &entries);
    let particle = VertexAttribute {
        format: VertexFormat::Float32x4,
        offset: 0,
        shader_location: 0,
    };
    let add = BlendComponent {
        src_factor: BlendFactor::One,
        dst_factor: BlendFactor::One,
        operation: BlendOperation::Add,
    };
    let id = cache.queue_render_pipeline(RenderPipelineDescriptor {
        label: Some("particles".into()),
        layout: vec![layout.clone()],
        vertex: VertexState {
            shader: shader.0.clone(),
            buffers: vec![VertexBufferLayout {
                array_stride: 16,
                step_mode: VertexStepMode::Vertex,
                attributes: vec![particle],
            }],
            ..default()
        },
        primitive: PrimitiveState {
            topology: PrimitiveTopology::PointList,
            ..default()
        },
        fragment: Some(FragmentState {
            shader: shader.0.clone(),
            targets: vec![Some(ColorTargetState {
                format: TextureFormat::Rgba8UnormSrgb,
                blend: Some(BlendState {
                    color: add,
                    alpha: add,
                }),
                write_mask: ColorWrites::ALL,
            })],
            ..default()
        }),
        ..default()
    });
    commands.insert_resource(Pipeline { layout, id });
}

fn draw(
    view: ViewQuery<(&ViewTarget, &ViewUniformOffset)>,
    particles: Option<Res<Particles>>,
    pipeline: Res<Pipeline>,
    cache: Res<PipelineCache>,
    uniforms: Res<ViewUniforms>,
    device: Res<RenderDevice>,
    mut context: RenderContext,
) {
    let (target, offset) = view.into_inner();
    let ready = cache
        .get_render_pipeline(pipeline.id)
        .zip(uniforms.uniforms.binding());
    let (Some((ready, uniform)), Some(particles)) = (ready, particles) else {
        return;
    };
    let layout = cache.get_bind_group_layout(&pipeline.layout);
    let group = device.create_bind_group("particles", &layout, &BindGroupEntries::single(uniform));
    let attachments = [Some(target.get_color_attachment())];
    let mut pass = context.begin_tracked_render_pass(RenderPassDescriptor {
        label: Some("particles"),
        color_attachments: &attachments,
        ..default()
    });
    pass.set_render_pipeline(ready);
    pass.set_bind_group(0, &group, &[offset.offset]);
    pass.set_vertex_buffer(0, particles.buffer.slice(..));
    pass.draw(0..particles.count, 0..1);
}
