// The precision of the products of attention, by model.
#pragma once

#include "tessera/engine/session_options.h"
#include "tessera/models/model.h"

namespace tessera {

/// The largest of the channels of K that scores from 16-bit integers admit, in medians of its head. The largest element
/// of a vector sets the unit of all its codes. With 128 elements and a channel as large as this, rounding moves a
/// median element by up to 1/256, like rounding to 8 bits does.
inline constexpr float kMostKeySpread = 32.0f;

/// Returns options.attention, or for AttentionPrecision::automatic what the model admits: int16 if the products with
/// the weights of K have 8-bit activations and no channel of K exceeds kMostKeySpread, else f32. This depends only on
/// the model's file and on the options, so that results do not depend on the machine.
AttentionPrecision attention_precision(const ModelInfo& model, const ModelFiles& files, const SessionOptions& options);

/// The largest channel of K over all layers and heads, in medians of its head: an estimate from samples of the rows of
/// the weights, biases and norms. Infinite if a layer's K is not the product of one quantized matrix, or is not stored
/// under the usual names.
float key_spread(const ModelInfo& model, const ModelFiles& files);

}  // namespace tessera
