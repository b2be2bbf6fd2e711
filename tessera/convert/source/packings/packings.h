// Packed matrices of checkpoints as tensors that look like any other: of floats that are computed when they are read,
// or of blocks of a weight format that has the same values.
#pragma once

#include <vector>

#include "tessera/convert/source/checkpoint.h"
#include "tessera/convert/source/hub_config.h"
#include "tessera/convert/source/packings/packed_group.h"

namespace tessera::convert {

/// Replaces the parts of each packed tensor (packings.def) by what they stand for, named NAME.weight, as the method of
/// quantization_config packs them. Other tensors stay, and so does a checkpoint without that member. Factors that a
/// tensor of blocks has as a whole become further tensors, NAME.scale for the weights and NAME.input_scale for the
/// inputs of the product; scales of activations and caches are left out.
/// Errors: those of read_packing_config(); not_found (a part is missing); mismatch (types and shapes of parts that do
/// not belong together); unsupported (parts with strides); format (a group or a scale outside of its range).
Result<> unpack_tensors(Checkpoint& checkpoint, const HubConfig& config);

// The tensors that a group stands for: first the one of its name. Errors: those of unpack_tensors() for parts.
using PackedTensors = Result<std::vector<StoredTensor>>;
PackedTensors make_fp8(const PackedGroup& group, const PackingConfig& config);  // also with some weights of 4 bits
PackedTensors make_scaled(const PackedGroup& group, const PackingConfig& config);
PackedTensors make_packed_integers(const PackedGroup& group, const PackingConfig& config);
PackedTensors make_gptq(const PackedGroup& group, const PackingConfig& config);
PackedTensors make_awq(const PackedGroup& group, const PackingConfig& config);
PackedTensors make_bitnet(const PackedGroup& group, const PackingConfig& config);
PackedTensors make_mxfp4(const PackedGroup& group, const PackingConfig& config);
PackedTensors make_nvfp4(const PackedGroup& group, const PackingConfig& config);

}  // namespace tessera::convert
