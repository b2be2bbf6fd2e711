// The names of GPT-2, which many models of its form took over.
#pragma once

#include "tessera/convert/checkpoints/tensor_rules.h"

namespace tessera::convert {

inline constexpr TensorRule kGptRules[] = {
    {"lm_head.weight", "output.weight"},
    {"wte.weight", "token_embd.weight"},
    {"wpe.weight", "position_embd.weight"},
    {"ln_f.{}", "output_norm.{}"},
    {"h.{i}.ln_1.{}", "blk.{i}.attn_norm.{}"},
    {"h.{i}.ln_2.{}", "blk.{i}.ffn_norm.{}"},
    {"h.{i}.attn.c_attn.{}", "blk.{i}.attn_qkv.{}"},
    {"h.{i}.attn.c_proj.{}", "blk.{i}.attn_output.{}"},
    {"h.{i}.mlp.c_fc.{}", "blk.{i}.ffn_up.{}"},
    {"h.{i}.mlp.c_proj.{}", "blk.{i}.ffn_down.{}"},
};

}  // namespace tessera::convert
