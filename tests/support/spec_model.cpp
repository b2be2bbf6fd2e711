#include "tests/support/spec_model.h"

#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <span>

#include "tessera/gguf/writer.h"
#include "tests/support/testing.h"

namespace tessera::testing {

namespace {

using nlohmann::json;

constexpr uint64_t kGamma = 0x9E3779B97F4A7C15;

// The finalizer of splitmix64 (Steele, Lea and Flood 2014).
uint64_t mix(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
  return z ^ (z >> 31);
}

uint64_t fnv1a(std::string_view text) {
  uint64_t hash = 0xCBF29CE484222325;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3;
  return hash;
}

/// The elements of an array, which may be written as {"repeat": [value, n]}.
template <class T>
std::vector<T> elements(const json& value) {
  if (!value.is_object()) return value.get<std::vector<T>>();
  const json& repeat = value.at("repeat");
  return std::vector<T>(repeat.at(1).get<size_t>(), repeat.at(0).get<T>());
}

Result<> set_key(GgufBuilder& builder, const std::string& key, const std::string& type, const json& value) {
  if (type == "bool")
    builder.set(key, value.get<bool>());
  else if (type == "u32")
    builder.set(key, value.get<uint32_t>());
  else if (type == "i32")
    builder.set(key, value.get<int32_t>());
  else if (type == "f32")
    builder.set(key, value.get<float>());
  else if (type == "str")
    builder.set(key, value.get<std::string>());
  else if (type == "u32[]")
    builder.set_array(key, elements<uint32_t>(value));
  else if (type == "i32[]")
    builder.set_array(key, elements<int32_t>(value));
  else if (type == "f32[]")
    builder.set_array(key, elements<float>(value));
  else if (type == "str[]")
    builder.set_array(key, elements<std::string>(value));
  else
    return fail(ErrorCode::unsupported, "key {}: type {}", key, type);
  return {};
}

// A tensor is [name, shape, mean, scale] or [name, shape, {"values": [...]}].
Result<std::vector<float>> add_tensor(GgufBuilder& builder, const json& tensor, uint64_t seed) {
  const auto name = tensor.at(0).get<std::string>();
  Shape shape;
  int rank = 0;
  for (const json& extent : tensor.at(1)) {
    if (rank == kMaxRank) return fail(ErrorCode::format, "tensor {}: more than {} dimensions", name, kMaxRank);
    shape[rank++] = extent.get<int64_t>();
  }
  TESSERA_TRY(builder.add_tensor(name, DType::f32, shape));
  const auto n = static_cast<size_t>(shape.n_elements());
  if (!tensor.at(2).is_object())
    return spec_weights(name, n, tensor.at(2).get<double>(), tensor.at(3).get<double>(), seed);
  auto values = tensor.at(2).at("values").get<std::vector<float>>();
  if (values.size() != n) return fail(ErrorCode::format, "tensor {}: {} values, want {}", name, values.size(), n);
  return values;
}

}  // namespace

std::vector<float> spec_weights(std::string_view name, size_t n, double mean, double scale, uint64_t seed) {
  const uint64_t start = fnv1a(name) ^ mix(seed + kGamma);
  std::vector<float> values(n);
  for (size_t i = 0; i < n; ++i) {
    const uint64_t bits = mix(start + (i + 1) * kGamma) >> 40;
    const double x = static_cast<double>(bits) / 8388608.0 - 1.0;  // 2^23: in [-1, 1)
    values[i] = static_cast<float>(mean + scale * x);
  }
  return values;
}

Result<> write_spec_model(const std::string& spec_path, const std::string& model_path) try {
  const json spec = json::parse(read_all(spec_path));
  const auto seed = spec.at("seed").get<uint64_t>();
  GgufBuilder builder;
  for (const json& key : spec.at("keys"))
    TESSERA_TRY(set_key(builder, key.at(0).get<std::string>(), key.at(1).get<std::string>(), key.at(2)));
  std::vector<std::vector<float>> tensors;
  for (const json& tensor : spec.at("tensors")) {
    TESSERA_ASSIGN(auto values, add_tensor(builder, tensor, seed));
    tensors.push_back(std::move(values));
  }
  TESSERA_ASSIGN(auto writer, GgufWriter::create(model_path, builder));
  for (const std::vector<float>& values : tensors) TESSERA_TRY(writer.append(std::as_bytes(std::span(values))));
  return writer.finish();
} catch (const json::exception& e) {
  return fail(ErrorCode::format, "{}: {}", spec_path, e.what());
}

std::string arch_model(const std::string& name) {
  static std::map<std::string, std::string> written;
  std::string& path = written[name];
  if (path.empty()) {
    path = temporary_path(name + ".gguf");
    EXPECT_OK(write_spec_model(data_path("arch_specs/" + name + ".json"), path));
  }
  return path;
}

std::string named_model(const std::string& name) { return name == "story" ? story_model() : arch_model(name); }

GoldenLogits arch_logits(const std::string& name) {
  const std::string bytes = read_all(data_path("arch_specs/" + name + ".logits"));
  GoldenLogits golden;
  uint32_t n_tokens = 0, n_vocab = 0;
  const size_t header = sizeof n_tokens + sizeof n_vocab;
  if (bytes.size() >= header) {
    std::memcpy(&n_tokens, bytes.data(), sizeof n_tokens);
    std::memcpy(&n_vocab, bytes.data() + sizeof n_tokens, sizeof n_vocab);
  }
  golden.tokens.resize(n_tokens);
  golden.logits.resize(size_t{n_tokens} * n_vocab);
  const size_t n_token_bytes = golden.tokens.size() * sizeof(int32_t);
  const size_t n_logit_bytes = golden.logits.size() * sizeof(float);
  if (n_tokens == 0 || bytes.size() != header + n_token_bytes + n_logit_bytes) {
    ADD_FAILURE() << name << ".logits: " << bytes.size() << " bytes, " << n_tokens << " tokens, " << n_vocab
                  << " logits each";
    return {};
  }
  std::memcpy(golden.tokens.data(), bytes.data() + header, n_token_bytes);
  std::memcpy(golden.logits.data(), bytes.data() + header + n_token_bytes, n_logit_bytes);
  return golden;
}

}  // namespace tessera::testing
