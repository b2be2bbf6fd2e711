#include "tessera/convert/source/llama2c_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <utility>

#include "tessera/base/checked.h"
#include "tessera/convert/source/number_reader.h"
#include "tessera/convert/source/packings/packings.h"

namespace tessera::convert {

namespace {

constexpr uint32_t kMagic = 0x616b3432;  // "ak42"
constexpr uint64_t kVersionedHeader = 256;
constexpr int64_t kMaxNumber = int64_t{1} << 30;
constexpr int64_t kMaxLayers = 1 << 14;

struct Header {
  int32_t version = 0;
  int64_t n_embd = 0, n_ff = 0, n_layers = 0, n_heads = 0, n_kv_heads = 0, n_vocab = 0, n_context = 0;
  bool has_output = false;  // of its own
  int64_t n_group = 0;      // values with one scale, in version 2
  uint64_t n_bytes = 0;     // of the header
};

enum class Extent : uint8_t { none, embd, kv, ff, vocab, context, half_head };

/// Tensors of all layers, one after another, or one that is in no layer. An empty name: left out.
struct TensorRow {
  std::string_view name;
  bool is_of_layers;
  Extent rows, columns;
};
constexpr TensorRow kTable = {"tok_embeddings.weight", false, Extent::vocab, Extent::embd};
constexpr TensorRow kAttentionNorm = {"attention_norm.weight", true, Extent::none, Extent::embd};
constexpr TensorRow kQ = {"attention.wq.weight", true, Extent::embd, Extent::embd};
constexpr TensorRow kK = {"attention.wk.weight", true, Extent::kv, Extent::embd};
constexpr TensorRow kV = {"attention.wv.weight", true, Extent::kv, Extent::embd};
constexpr TensorRow kO = {"attention.wo.weight", true, Extent::embd, Extent::embd};
constexpr TensorRow kFfnNorm = {"ffn_norm.weight", true, Extent::none, Extent::embd};
constexpr TensorRow kW1 = {"feed_forward.w1.weight", true, Extent::ff, Extent::embd};
constexpr TensorRow kW2 = {"feed_forward.w2.weight", true, Extent::embd, Extent::ff};
constexpr TensorRow kW3 = {"feed_forward.w3.weight", true, Extent::ff, Extent::embd};
constexpr TensorRow kNorm = {"norm.weight", false, Extent::none, Extent::embd};
constexpr TensorRow kRope = {"", false, Extent::context, Extent::half_head};  // cosines, and then sines
constexpr TensorRow kOutput = {"output.weight", false, Extent::vocab, Extent::embd};

// The output is there only if it is no copy of the token table.
constexpr TensorRow kFirstOrder[] = {kTable, kAttentionNorm, kQ,    kK,    kV,     kO, kFfnNorm, kW1, kW2,
                                     kW3,    kNorm,          kRope, kRope, kOutput};
constexpr TensorRow kVersionedOrder[] = {kAttentionNorm, kFfnNorm, kNorm, kTable, kQ, kK, kV, kO, kW1, kW2, kW3,
                                         kOutput};

int64_t extent_of(Extent extent, const Header& header) {
  const int64_t n_head = header.n_embd / header.n_heads;
  switch (extent) {
    case Extent::none:
      return 1;
    case Extent::embd:
      return header.n_embd;
    case Extent::kv:
      return n_head * header.n_kv_heads;
    case Extent::ff:
      return header.n_ff;
    case Extent::vocab:
      return header.n_vocab;
    case Extent::context:
      return header.n_context;
    case Extent::half_head:
      return n_head / 2;
  }
  return 0;
}

Result<> check_header(const Header& header) {
  for (const int64_t number : {header.n_embd, header.n_ff, header.n_layers, header.n_heads, header.n_kv_heads,
                               header.n_vocab, header.n_context})
    if (number < 1 || number > kMaxNumber)
      return fail(ErrorCode::format, "header: {}, want numbers from 1 to {}", number, kMaxNumber);
  if (header.n_layers > kMaxLayers)
    return fail(ErrorCode::limit, "header: {} layers, limit {}", header.n_layers, kMaxLayers);
  if (header.n_embd % header.n_heads != 0 || header.n_heads % header.n_kv_heads != 0)
    return fail(ErrorCode::format, "header: a width of {}, {} heads and {} KV heads do not divide one another",
                header.n_embd, header.n_heads, header.n_kv_heads);
  if (header.version == 2 && (header.n_group < 1 || header.n_group > kMaxNumber))
    return fail(ErrorCode::format, "header: groups of {}", header.n_group);
  return {};
}

Result<Header> read_header(std::span<const std::byte> bytes) {
  NumberReader reader(bytes);
  Header header;
  TESSERA_ASSIGN(const uint32_t magic, reader.number<uint32_t>());
  const bool is_versioned = magic == kMagic;
  if (is_versioned) {
    TESSERA_ASSIGN(header.version, reader.number<int32_t>());
    if (header.version != 1 && header.version != 2)
      return fail(ErrorCode::unsupported, "version {}, want 1 or 2", header.version);
  } else {
    reader = NumberReader(bytes);
  }
  for (int64_t* number : {&header.n_embd, &header.n_ff, &header.n_layers, &header.n_heads, &header.n_kv_heads,
                          &header.n_vocab, &header.n_context}) {
    TESSERA_ASSIGN(*number, reader.number<int32_t>());
  }
  header.n_bytes = reader.position();
  if (is_versioned) {
    TESSERA_ASSIGN(const auto is_shared, reader.number<uint8_t>());
    header.has_output = is_shared == 0;
    TESSERA_ASSIGN(header.n_group, reader.number<int32_t>());
    header.n_bytes = kVersionedHeader;
  } else if (header.n_vocab < 0) {
    header.has_output = true;
    header.n_vocab = -header.n_vocab;
  }
  TESSERA_TRY(check_header(header));
  return header;
}

std::span<const TensorRow> order_of(const Header& header) {
  const std::span<const TensorRow> order =
      header.version == 0 ? std::span<const TensorRow>(kFirstOrder) : std::span<const TensorRow>(kVersionedOrder);
  return order.first(order.size() - (header.has_output ? 0 : 1));
}

bool has_groups(const TensorRow& row, const Header& header) { return header.version == 2 && row.rows != Extent::none; }

// Bytes of one tensor of a row; nothing if they are too many, or no whole groups.
std::optional<uint64_t> bytes_of_row(const TensorRow& row, const Header& header) {
  const auto n = checked_mul(extent_of(row.rows, header), extent_of(row.columns, header));
  if (!n) return std::nullopt;
  const auto n_values = static_cast<uint64_t>(*n);
  if (!has_groups(row, header)) return checked_mul<uint64_t>(n_values, sizeof(float));
  if (*n % header.n_group != 0) return std::nullopt;
  return n_values + n_values / static_cast<uint64_t>(header.n_group) * sizeof(float);
}

// Bytes of the whole file.
std::optional<uint64_t> bytes_of_file(const Header& header) {
  std::optional<uint64_t> n_bytes = header.n_bytes;
  for (const TensorRow& row : order_of(header)) {
    const auto one = bytes_of_row(row, header);
    const auto all =
        one ? checked_mul<uint64_t>(*one, row.is_of_layers ? static_cast<uint64_t>(header.n_layers) : 1) : std::nullopt;
    n_bytes = all ? checked_add(*n_bytes, *all) : std::nullopt;
    if (!n_bytes) return std::nullopt;
  }
  return n_bytes;
}

// Integers of a matrix, then the scales of their groups. Groups go on over the ends of rows.
Result<> add_elements_of_groups(std::span<const std::byte> bytes, int64_t n_group, StoredTensor& tensor) {
  const int64_t n = tensor.n_elements();
  const std::byte* data = bytes.data() + tensor.offset;
  PackedGroup group{.name = tensor.name};
  group.weight = PackedPart{.name = tensor.name, .type = ElementType::i8, .shape = {1, n}, .data = data};
  group.scale = PackedPart{.name = tensor.name, .type = ElementType::f32, .shape = {1, n / n_group}, .data = data + n};
  TESSERA_ASSIGN(auto made, make_scaled(group, {.schemes = {{.bits = 8, .block_columns = n_group}}}));
  tensor.elements = made.front().elements;
  tensor.offset = 0;
  return {};
}

}  // namespace

bool is_llama2c_file(std::span<const std::byte> first_bytes, uint64_t file_bytes) {
  uint32_t magic = 0;
  if (first_bytes.size() < sizeof magic) return false;
  std::memcpy(&magic, first_bytes.data(), sizeof magic);
  const auto header = read_header(first_bytes);
  return magic == kMagic || (header && bytes_of_file(*header) == file_bytes);
}

Result<BareFile> read_llama2c_file(std::span<const std::byte> bytes) {
  TESSERA_ASSIGN(const Header header, read_header(bytes));
  const auto n_bytes = bytes_of_file(header);
  if (n_bytes != bytes.size())
    return fail(ErrorCode::format, "{} bytes, want {}", bytes.size(),
                n_bytes ? fmt::format("{}", *n_bytes) : "matrices of whole groups below 2^64 bytes");
  BareFile file{.model = {.n_vocab = header.n_vocab,
                          .n_embd = header.n_embd,
                          .n_layers = header.n_layers,
                          .n_heads = header.n_heads,
                          .n_kv_heads = header.n_kv_heads,
                          .n_ff = header.n_ff,
                          .n_context = header.n_context}};
  uint64_t offset = header.n_bytes;
  for (const TensorRow& row : order_of(header)) {
    const uint64_t n_row_bytes = bytes_of_row(row, header).value_or(0);
    for (int64_t layer = 0; layer < (row.is_of_layers ? header.n_layers : 1); ++layer, offset += n_row_bytes) {
      if (row.name.empty()) continue;
      StoredTensor tensor{
          .name = row.is_of_layers ? fmt::format("layers.{}.{}", layer, row.name) : std::string(row.name),
          .shape = {extent_of(row.columns, header)},
          .offset = offset};
      if (row.rows != Extent::none) tensor.shape.insert(tensor.shape.begin(), extent_of(row.rows, header));
      if (has_groups(row, header)) TESSERA_TRY(add_elements_of_groups(bytes, header.n_group, tensor));
      file.tensors.push_back(std::move(tensor));
    }
  }
  if (!header.has_output) {
    StoredTensor output = *std::ranges::find(file.tensors, kTable.name, &StoredTensor::name);
    output.name = kOutput.name;
    file.tensors.push_back(std::move(output));
  }
  return file;
}

// The first number is the length of the longest token.
Result<> read_llama2c_tokens(std::span<const std::byte> bytes, BareModel& model) {
  NumberReader reader(bytes);
  TESSERA_TRY(reader.skip(sizeof(int32_t)));
  for (int64_t i = 0; i < model.n_vocab; ++i) {
    TESSERA_ASSIGN(const auto score, reader.number<float>());
    TESSERA_ASSIGN(const auto n_bytes, reader.number<int32_t>());
    if (n_bytes < 0) return fail(ErrorCode::format, "token {}: {} bytes", i, n_bytes);
    TESSERA_ASSIGN(std::string token, reader.text(static_cast<uint64_t>(n_bytes)));
    add_bare_token(std::move(token), score, model);
  }
  if (reader.n_left() > 0) return fail(ErrorCode::format, "{} bytes after {} tokens", reader.n_left(), model.n_vocab);
  return {};
}

}  // namespace tessera::convert
