// T5 and its relatives: an encoder, and a decoder that reads its output.
#include "tessera/convert/checkpoints/model_class.h"

namespace tessera::convert {

namespace {

constexpr TensorRule kT5Rules[] = {
    {"lm_head.weight", "output.weight"},
    {"encoder.embed_tokens.weight", "token_embd.weight"},
    {"shared.weight", "token_embd.weight", Change::spare},
    {"decoder.embed_tokens.weight", "token_embd.weight", Change::spare},
    {"encoder.final_layer_norm.weight", "enc.output_norm.weight"},
    {"encoder.block.{i}.layer.0.layer_norm.weight", "enc.blk.{i}.attn_norm.weight"},
    {"encoder.block.{i}.layer.0.SelfAttention.q.weight", "enc.blk.{i}.attn_q.weight"},
    {"encoder.block.{i}.layer.0.SelfAttention.k.weight", "enc.blk.{i}.attn_k.weight"},
    {"encoder.block.{i}.layer.0.SelfAttention.v.weight", "enc.blk.{i}.attn_v.weight"},
    {"encoder.block.{i}.layer.0.SelfAttention.o.weight", "enc.blk.{i}.attn_o.weight"},
    {"encoder.block.{i}.layer.0.SelfAttention.relative_attention_bias.weight", "enc.blk.{i}.attn_rel_b.weight"},
    {"encoder.block.{i}.layer.1.layer_norm.weight", "enc.blk.{i}.ffn_norm.weight"},
    {"encoder.block.{i}.layer.1.DenseReluDense.wi.weight", "enc.blk.{i}.ffn_up.weight"},
    {"encoder.block.{i}.layer.1.DenseReluDense.wi_0.weight", "enc.blk.{i}.ffn_gate.weight"},
    {"encoder.block.{i}.layer.1.DenseReluDense.wi_1.weight", "enc.blk.{i}.ffn_up.weight"},
    {"encoder.block.{i}.layer.1.DenseReluDense.wo.weight", "enc.blk.{i}.ffn_down.weight"},
    {"decoder.final_layer_norm.weight", "dec.output_norm.weight"},
    {"decoder.block.{i}.layer.0.layer_norm.weight", "dec.blk.{i}.attn_norm.weight"},
    {"decoder.block.{i}.layer.0.SelfAttention.q.weight", "dec.blk.{i}.attn_q.weight"},
    {"decoder.block.{i}.layer.0.SelfAttention.k.weight", "dec.blk.{i}.attn_k.weight"},
    {"decoder.block.{i}.layer.0.SelfAttention.v.weight", "dec.blk.{i}.attn_v.weight"},
    {"decoder.block.{i}.layer.0.SelfAttention.o.weight", "dec.blk.{i}.attn_o.weight"},
    {"decoder.block.{i}.layer.0.SelfAttention.relative_attention_bias.weight", "dec.blk.{i}.attn_rel_b.weight"},
    {"decoder.block.{i}.layer.1.layer_norm.weight", "dec.blk.{i}.cross_attn_norm.weight"},
    {"decoder.block.{i}.layer.1.EncDecAttention.q.weight", "dec.blk.{i}.cross_attn_q.weight"},
    {"decoder.block.{i}.layer.1.EncDecAttention.k.weight", "dec.blk.{i}.cross_attn_k.weight"},
    {"decoder.block.{i}.layer.1.EncDecAttention.v.weight", "dec.blk.{i}.cross_attn_v.weight"},
    {"decoder.block.{i}.layer.1.EncDecAttention.o.weight", "dec.blk.{i}.cross_attn_o.weight"},
    {"decoder.block.{i}.layer.1.EncDecAttention.relative_attention_bias.weight", "", Change::drop},
    {"decoder.block.{i}.layer.2.layer_norm.weight", "dec.blk.{i}.ffn_norm.weight"},
    {"decoder.block.{i}.layer.2.DenseReluDense.wi.weight", "dec.blk.{i}.ffn_up.weight"},
    {"decoder.block.{i}.layer.2.DenseReluDense.wi_0.weight", "dec.blk.{i}.ffn_gate.weight"},
    {"decoder.block.{i}.layer.2.DenseReluDense.wi_1.weight", "dec.blk.{i}.ffn_up.weight"},
    {"decoder.block.{i}.layer.2.DenseReluDense.wo.weight", "dec.blk.{i}.ffn_down.weight"},
};

constexpr KeyRow kT5EncoderKeys[] = {
    {"context_length", "n_positions", KeyType::u32, otherwise(512)},
    {"attention.head_count_kv", ""},
    {"attention.key_length", "d_kv", KeyType::u32, kRequired},
    {"attention.value_length", "d_kv", KeyType::u32, kRequired},
    {"attention.layer_norm_epsilon", "*", KeyType::f32, otherwise(1e-6)},
    {"attention.layer_norm_rms_epsilon", "layer_norm_epsilon", KeyType::f32, otherwise(1e-6)},
    {"attention.relative_buckets_count", "relative_attention_num_buckets", KeyType::u32, otherwise(32)},
};

constexpr KeyRow kT5Keys[] = {
    {"decoder_block_count", "num_decoder_layers num_layers"},
    {"decoder_start_token_id", "decoder_start_token_id pad_token_id", KeyType::u32, otherwise(0)},
};

constexpr ModelClass kT5Classes[] = {
    {.names = "T5ForConditionalGeneration T5WithLMHeadModel MT5ForConditionalGeneration UMT5ForConditionalGeneration",
     .architecture = "t5",
     .rules = kT5Rules,
     .keys = kT5Keys,
     .shared_keys = kT5EncoderKeys,
     .is_decoder = false,
     .scaling = RopeScaling::none},
    {.names = "T5EncoderModel MT5EncoderModel UMT5EncoderModel",
     .architecture = "t5encoder",
     .rules = kT5Rules,
     .keys = kT5EncoderKeys,
     .is_decoder = false,
     .scaling = RopeScaling::none},
};

}  // namespace

std::span<const ModelClass> t5_classes() { return kT5Classes; }

}  // namespace tessera::convert
