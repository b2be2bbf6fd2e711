#include "tessera/convert/source/ggml_file.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <unordered_set>
#include <utility>

#include "tessera/base/checked.h"
#include "tessera/convert/source/number_reader.h"
#include "tessera/text/utf8.h"

namespace tessera::convert {

namespace {

constexpr uint32_t kGgml = 0x67676d6c, kGgmf = 0x67676d66, kGgjt = 0x67676a74;
constexpr uint32_t kVersionOfBlocks = 3;  // from which blocks are those of GGUF
constexpr uint64_t kAlignment = 32;
constexpr uint32_t kMaxGgmlNameBytes = 1024;

/// Properties of a file that follow from its magic number.
struct Form {
  bool has_version = false, has_scores = false, is_aligned = false;
  uint32_t last_version = 0;
};

std::optional<Form> form_of(uint32_t magic) {
  if (magic == kGgml) return Form{.last_version = 0};
  if (magic == kGgmf) return Form{.has_version = true, .has_scores = true, .last_version = 1};
  if (magic == kGgjt) return Form{.has_version = true, .has_scores = true, .is_aligned = true, .last_version = 3};
  return std::nullopt;
}

struct TypeId {
  uint32_t id;
  ElementType type;
};
constexpr TypeId kTypeIds[] = {
    {0, ElementType::f32},   {1, ElementType::f16},   {2, ElementType::q4_0},  {3, ElementType::q4_1},
    {6, ElementType::q5_0},  {7, ElementType::q5_1},  {8, ElementType::q8_0},  {10, ElementType::q2_k},
    {11, ElementType::q3_k}, {12, ElementType::q4_k}, {13, ElementType::q5_k}, {14, ElementType::q6_k},
};

Result<ElementType> type_of(uint32_t id, uint32_t version) {
  const auto* row = std::ranges::find(kTypeIds, id, &TypeId::id);
  if (row == std::end(kTypeIds)) return fail(ErrorCode::unsupported, "elements of type {}", id);
  if (block_format(row->type) && version < kVersionOfBlocks)
    return fail(ErrorCode::unsupported, "{} in version {}, whose blocks are others; want version {}",
                element_name(row->type), version, kVersionOfBlocks);
  return row->type;
}

Result<> read_tokens(const Form& form, NumberReader& reader, BareModel& model) {
  const uint64_t least_bytes = sizeof(uint32_t) + (form.has_scores ? sizeof(float) : 0);
  if (static_cast<uint64_t>(model.n_vocab) > reader.n_left() / least_bytes)
    return fail(ErrorCode::format, "{} tokens in {} bytes", model.n_vocab, reader.n_left());
  for (int64_t i = 0; i < model.n_vocab; ++i) {
    TESSERA_ASSIGN(const uint32_t n_bytes, reader.number<uint32_t>());
    TESSERA_ASSIGN(std::string token, reader.text(n_bytes));
    float score = 0;
    if (form.has_scores) {
      TESSERA_ASSIGN(score, reader.number<float>());
    }
    add_bare_token(std::move(token), score, model);
  }
  return {};
}

// Extents are stored innermost first, in values.
Result<std::vector<int64_t>> read_shape(uint32_t rank, NumberReader& reader) {
  std::vector<int64_t> shape(rank);
  for (int64_t& extent : shape) {
    TESSERA_ASSIGN(const uint32_t number, reader.number<uint32_t>());
    extent = number;
  }
  std::ranges::reverse(shape);
  return shape;
}

Result<StoredTensor> read_tensor(const Form& form, uint32_t version, NumberReader& reader) {
  StoredTensor tensor;
  TESSERA_ASSIGN(const uint32_t rank, reader.number<uint32_t>());
  TESSERA_ASSIGN(const uint32_t n_name, reader.number<uint32_t>());
  TESSERA_ASSIGN(const uint32_t type_id, reader.number<uint32_t>());
  if (rank < 1 || rank > kMaxStoredRank)
    return fail(ErrorCode::limit, "a tensor of {} dimensions, want 1 to {}", rank, kMaxStoredRank);
  if (n_name > kMaxGgmlNameBytes)
    return fail(ErrorCode::limit, "a name of {} bytes, limit {}", n_name, kMaxGgmlNameBytes);
  TESSERA_ASSIGN(tensor.shape, read_shape(rank, reader));
  TESSERA_ASSIGN(tensor.name, reader.text(n_name));
  const auto read_data = [&]() -> Result<> {
    TESSERA_ASSIGN(tensor.type, type_of(type_id, version));
    const int64_t n_values = element_values(tensor.type);
    if (tensor.shape.back() % n_values != 0)
      return fail(ErrorCode::format, "rows of {} values, want whole blocks of {}", tensor.shape.back(), n_values);
    tensor.shape.back() /= n_values;
    TESSERA_ASSIGN(const int64_t n_elements, count_elements(tensor.shape));
    const auto n_bytes = checked_mul<uint64_t>(static_cast<uint64_t>(n_elements), element_bytes(tensor.type));
    if (!n_bytes) return fail(ErrorCode::format, "more than 2^64 bytes");
    if (form.is_aligned) TESSERA_TRY(reader.skip(round_up(reader.position(), kAlignment) - reader.position()));
    tensor.offset = reader.position();
    return reader.skip(*n_bytes);
  };
  auto data = read_data();
  if (!data) return forward_error(data, "tensor " + text::quote_text(tensor.name));
  return tensor;
}

}  // namespace

bool is_ggml_file(std::span<const std::byte> first_bytes) {
  uint32_t magic = 0;
  if (first_bytes.size() < sizeof magic) return false;
  std::memcpy(&magic, first_bytes.data(), sizeof magic);
  return form_of(magic).has_value();
}

Result<BareFile> read_ggml_file(std::span<const std::byte> bytes) {
  NumberReader reader(bytes);
  TESSERA_ASSIGN(const uint32_t magic, reader.number<uint32_t>());
  const auto form = form_of(magic);
  if (!form) return fail(ErrorCode::format, "neither GGML nor GGMF nor GGJT");
  uint32_t version = 0;
  if (form->has_version) {
    TESSERA_ASSIGN(version, reader.number<uint32_t>());
    if (version < 1 || version > form->last_version)
      return fail(ErrorCode::unsupported, "version {}, want 1 to {}", version, form->last_version);
  }
  // n_vocab, n_embd, n_mult, n_head, n_layer, n_rot, ftype
  std::array<uint32_t, 7> numbers{};
  for (uint32_t& number : numbers) {
    TESSERA_ASSIGN(number, reader.number<uint32_t>());
  }
  BareFile file{.model = {.n_vocab = numbers[0], .n_embd = numbers[1], .n_layers = numbers[4], .n_heads = numbers[3]}};
  file.model.norm_eps = 5e-6;
  TESSERA_TRY(read_tokens(*form, reader, file.model));
  std::unordered_set<std::string> names;
  while (reader.n_left() > 0) {
    if (file.tensors.size() == kMaxStoredTensors)
      return fail(ErrorCode::limit, "more than {} tensors", kMaxStoredTensors);
    TESSERA_ASSIGN(StoredTensor tensor, read_tensor(*form, version, reader));
    if (!names.insert(tensor.name).second)
      return fail(ErrorCode::format, "two tensors {}", text::quote_text(tensor.name));
    file.tensors.push_back(std::move(tensor));
  }
  TESSERA_TRY(add_extents_of_layer(file.tensors, file.model));
  return file;
}

}  // namespace tessera::convert
