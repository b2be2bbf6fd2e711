// Included by every shader: the parameters of a step (step.h declares the same struct), access to memory by address,
// and reductions over a workgroup. Operands are addresses, so descriptors do not limit their size.
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_arithmetic : require

#ifdef kWorkgroup  // a shader with a fixed workgroup size
layout(local_size_x = kWorkgroup) in;
#else
layout(local_size_x_id = 0) in;
#endif
layout(constant_id = 1) const uint kVariant = 1;
layout(constant_id = 2) const uint kFormat = 0;  // value of a DType
layout(constant_id = 3) const uint kFormat2 = 0;

struct Operand {
  uint64_t data;  // 0: absent
  uint ne[4];
  uint nb[4];  // bytes
};

layout(buffer_reference, std430, buffer_reference_align = 8) readonly buffer StepParams {
  Operand y;
  Operand x[10];
  uint64_t tables;  // the codebooks
  uint64_t extra;   // additional words of this step
  uint64_t fault;
  uint64_t scratch;  // shared by the two dispatches of a node
  uint id;
  uint n_groups;
  uint u[12];
};
layout(push_constant) uniform Push { StepParams step; };

layout(buffer_reference, std430, buffer_reference_align = 4) buffer Words { uint at[]; };
layout(buffer_reference, std430, buffer_reference_align = 4) buffer Ints { int at[]; };
layout(buffer_reference, std430, buffer_reference_align = 4) buffer Floats { float at[]; };

#define kInfinity uintBitsToFloat(0x7f800000u)

uint lane() { return gl_LocalInvocationID.x; }
uint n_lanes() { return gl_WorkGroupSize.x; }

/// The index of this workgroup. The grid is two-dimensional if one dimension would be too long, so there may be more
/// workgroups than step.n_groups.
uint group_index() { return gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x; }

/// The address of row (i1, i2, i3).
uint64_t row_of(Operand o, uint i1, uint i2, uint i3) {
  return o.data + uint64_t(i1) * o.nb[1] + uint64_t(i2) * o.nb[2] + uint64_t(i3) * o.nb[3];
}
/// The address of the i-th row in row-major order.
uint64_t nth_row(Operand o, uint i) { return row_of(o, i % o.ne[1], i / o.ne[1] % o.ne[2], i / o.ne[1] / o.ne[2]); }

/// Records that `value` is not in [0, limit). The first report is kept and fails the run. `what` is a Fault of step.h.
void report(uint what, int value, uint limit) {
  Words fault = Words(step.fault);
  if (atomicCompSwap(fault.at[0], 0u, step.id + 1u) != 0u) return;
  fault.at[1] = what;
  fault.at[2] = uint(value);
  fault.at[3] = limit;
}

/// barrier(), or only a memory barrier if the workgroup is a single subgroup, whose invocations run in lockstep. CPU
/// drivers run eight invocations in this way, and with full barriers they compile many times longer.
void sync_group() {
  if (gl_WorkGroupSize.x == 8u && gl_SubgroupSize == 8u)
    subgroupBarrier();
  else
    barrier();
}

const uint kMaxSubgroups = 64;
shared float reduction[kMaxSubgroups];

/// Reductions over all invocations of the workgroup; each invocation receives the result.
float sum_over_group(float v) {
  const float part = subgroupAdd(v);
  sync_group();
  if (subgroupElect()) reduction[gl_SubgroupID] = part;
  sync_group();
  float sum = 0.0;
  for (uint i = 0; i < gl_NumSubgroups; ++i) sum += reduction[i];
  return sum;
}
float max_over_group(float v) {
  const float part = subgroupMax(v);
  sync_group();
  if (subgroupElect()) reduction[gl_SubgroupID] = part;
  sync_group();
  float highest = reduction[0];
  for (uint i = 1; i < gl_NumSubgroups; ++i) highest = max(highest, reduction[i]);
  return highest;
}
