#include "tessera/gguf/decoder.h"

#include <algorithm>
#include <optional>
#include <string>

#include "tessera/base/index.h"
#include "tessera/gguf/limits.h"

namespace tessera {

namespace {

// Minimum size of an element in bytes. A string has at least its length, an array its type and its length.
uint64_t min_element_bytes(GgufType type) {
  if (type == GgufType::string) return 8;
  if (type == GgufType::array) return 12;
  return scalar_bytes(type);
}

}  // namespace

// An array whose header has been read.
struct GgufDecoder::OpenArray {
  GgufType element_type;
  uint64_t n_elements;
  size_t begin;                       // offset of the first element
  std::vector<GgufValue> elements{};  // of an array of arrays: the completed elements
};

Result<uint64_t> GgufDecoder::count(std::string_view what, uint64_t min_item_bytes, uint64_t limit) {
  const size_t at = offset();
  TESSERA_ASSIGN(const uint64_t n, number<uint64_t>(what));
  const uint64_t n_fit = in_.remaining() / min_item_bytes;
  if (n > n_fit)
    return fail(ErrorCode::format,
                "offset {}: {}, got {}, limit {} in the {} bytes left: damaged, or truncated at byte {}", at, what, n,
                n_fit, in_.remaining(), bytes_.size());
  if (n > limit) return fail(ErrorCode::limit, "offset {}: {}, got {}, limit {}", at, what, n, limit);
  return n;
}

Result<std::string_view> GgufDecoder::string(std::string_view what, uint64_t max_bytes) {
  const size_t at = offset();
  TESSERA_ASSIGN(const uint64_t n, number<uint64_t>(what));
  if (n > max_bytes) return fail(ErrorCode::limit, "offset {}: length of {}, got {}, limit {}", at, what, n, max_bytes);
  TESSERA_ASSIGN(const std::span<const std::byte> bytes, take(what, n));
  return std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

Result<GgufValue> GgufDecoder::value(std::string_view what, GgufArrayStorage& storage) {
  TESSERA_ASSIGN(const GgufType value_type, type(what));
  if (value_type == GgufType::array) return array(what, storage);
  return scalar(value_type, what);
}

Result<GgufType> GgufDecoder::type(std::string_view what) {
  const size_t at = offset();
  TESSERA_ASSIGN(const int32_t id, number<int32_t>(what));
  const std::optional<GgufType> known = gguf_type_from_id(static_cast<uint32_t>(id));
  if (!known) return fail(ErrorCode::format, "offset {}: type of {}, got {}, limit 12", at, what, id);
  return *known;
}

Result<std::span<const std::byte>> GgufDecoder::take(std::string_view what, uint64_t n) {
  if (n > in_.remaining()) return truncated(what, n);
  return in_.take(n);
}

Result<GgufValue> GgufDecoder::scalar(GgufType type, std::string_view what) {
  if (type == GgufType::string) {
    TESSERA_ASSIGN(const std::string_view text, string(what, kGgufMaxStringBytes));
    return GgufValue::scalar(type, std::as_bytes(std::span(text)));
  }
  TESSERA_ASSIGN(const std::span<const std::byte> bytes, take(what, scalar_bytes(type)));
  if (type == GgufType::boolean) TESSERA_TRY(check_bools(bytes, what));
  return GgufValue::scalar(type, bytes);
}

Result<GgufValue> GgufDecoder::array(std::string_view what, GgufArrayStorage& storage) {
  std::vector<OpenArray> stack;
  TESSERA_ASSIGN(OpenArray outermost, open_array(what));
  stack.push_back(std::move(outermost));
  while (true) {
    OpenArray& top = stack.back();
    if (top.element_type == GgufType::array && top.elements.size() < top.n_elements) {
      if (stack.size() == kGgufMaxArrayNesting)
        return fail(ErrorCode::limit, "offset {}: nesting of {}, got {} or more, limit {}", offset(), what,
                    stack.size() + 1, kGgufMaxArrayNesting);
      if (++storage.n_nested_arrays > kGgufMaxNestedArrays)
        return fail(ErrorCode::limit, "offset {}: {}: arrays in arrays, limit {}", offset(), what,
                    kGgufMaxNestedArrays);
      TESSERA_ASSIGN(OpenArray inner, open_array(what));
      stack.push_back(std::move(inner));
      continue;
    }
    TESSERA_ASSIGN(const GgufValue complete, read_flat(top, what, storage));
    stack.pop_back();
    if (stack.empty()) return complete;
    stack.back().elements.push_back(complete);
  }
}

Result<GgufDecoder::OpenArray> GgufDecoder::open_array(std::string_view what) {
  TESSERA_ASSIGN(const GgufType element_type, type(what));
  const std::string what_count = "element count of " + std::string(what);
  TESSERA_ASSIGN(const uint64_t n, count(what_count, min_element_bytes(element_type), kGgufMaxArrayElements));
  return OpenArray{.element_type = element_type, .n_elements = n, .begin = offset()};
}

// The value of an array whose elements are next in the input, or whose inner arrays have all been read.
Result<GgufValue> GgufDecoder::read_flat(OpenArray& open, std::string_view what, GgufArrayStorage& storage) {
  if (open.element_type == GgufType::array) {
    storage.nested.push_back(std::move(open.elements));
    return GgufValue::arrays(since(open.begin), storage.nested.back());
  }
  if (open.element_type != GgufType::string) {
    const uint64_t n_bytes = open.n_elements * scalar_bytes(open.element_type);  // cannot overflow: count() checked it
    TESSERA_ASSIGN(const std::span<const std::byte> bytes, take(what, n_bytes));
    if (open.element_type == GgufType::boolean) TESSERA_TRY(check_bools(bytes, what));
    return GgufValue::scalars(open.element_type, bytes);
  }
  std::vector<uint64_t> starts;
  starts.reserve(open.n_elements + 1);
  for (uint64_t i = 0; i < open.n_elements; ++i) {
    starts.push_back(offset() - open.begin);
    TESSERA_TRY(string(what, kGgufMaxStringBytes));
  }
  starts.push_back(offset() - open.begin);
  storage.starts.push_back(std::move(starts));
  return GgufValue::strings(since(open.begin), storage.starts.back());
}

Result<> GgufDecoder::check_bools(std::span<const std::byte> bytes, std::string_view what) {
  const auto bad = std::ranges::find_if(bytes, [](std::byte b) { return b > std::byte{1}; });
  if (bad == bytes.end()) return {};
  const size_t at = offset() - to_size(bytes.end() - bad);
  return fail(ErrorCode::format, "offset {}: bool in {}, got {}, limit 1", at, what, static_cast<unsigned>(*bad));
}

std::unexpected<Error> GgufDecoder::truncated(std::string_view what, uint64_t n_wanted) const {
  return fail(ErrorCode::format, "offset {}: {}: truncated at byte {}: want {} bytes, {} left", offset(), what,
              bytes_.size(), n_wanted, in_.remaining());
}

}  // namespace tessera
