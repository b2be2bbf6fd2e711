// The JSON of the header is read event by event. No tree is built, so a header of many tensors costs little more than
// the tensors themselves.
#include "tessera/convert/source/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>

#include "tessera/base/checked.h"
#include "tessera/text/utf8.h"

namespace tessera::convert {

namespace {

using HeaderJson = nlohmann::json;

constexpr std::string_view kMetadata = "__metadata__";
constexpr size_t kLengthBytes = 8;
constexpr size_t kMaxMetadata = 10'000;

// The place of a tensor as the header has it, relative to the data.
struct Entry {
  StoredTensor tensor{};
  bool has_type = false, has_shape = false;
  std::vector<uint64_t> offsets{};
};

class HeaderReader final : public nlohmann::json_sax<HeaderJson> {
 public:
  bool null() override { return refuse("null"); }
  bool boolean(bool) override { return refuse("a boolean"); }
  bool number_integer(number_integer_t value) override { return refuse(fmt::format("{}", value)); }  // negative
  bool number_float(number_float_t, const string_t& text) override { return refuse(text); }
  bool binary(binary_t&) override { return refuse("binary data"); }

  bool number_unsigned(number_unsigned_t value) override {
    if (place_ == Place::shape) {
      if (entry_.tensor.shape.size() == kMaxStoredRank)
        return refuse_tensor(ErrorCode::limit, fmt::format("more than {} dimensions", kMaxStoredRank));
      const auto extent = checked_cast<int64_t>(value);
      if (!extent) return refuse(fmt::format("{}", value));
      entry_.tensor.shape.push_back(*extent);
      return true;
    }
    if (place_ != Place::offsets || entry_.offsets.size() == 2) return refuse(fmt::format("{}", value));
    entry_.offsets.push_back(value);
    return true;
  }

  bool string(string_t& value) override {
    if (place_ == Place::metadata) {
      metadata_.back().second = value;
      return true;
    }
    if (place_ != Place::tensor || key_ != "dtype") return refuse("a text");
    const auto type = find_element_type(value);
    if (!type)
      return refuse_tensor(ErrorCode::unsupported, fmt::format("elements of type {}", text::quote_text(value)));
    entry_.tensor.type = *type;
    entry_.has_type = true;
    return true;
  }

  bool start_object(size_t) override {
    switch (place_) {
      case Place::outside:
        place_ = Place::root;
        return true;
      case Place::root:
        place_ = key_ == kMetadata ? Place::metadata : Place::tensor;
        return true;
      default:
        return refuse("an object");
    }
  }

  bool end_object() override {
    if (place_ == Place::tensor) {
      if (!entry_.has_type || !entry_.has_shape || entry_.offsets.size() != 2)
        return refuse_tensor(ErrorCode::format, "want dtype, shape and two data_offsets");
      if (entries_.size() == kMaxStoredTensors)
        return refuse_tensor(ErrorCode::limit, fmt::format("more than {} tensors", kMaxStoredTensors));
      entries_.push_back(std::exchange(entry_, {}));
    }
    place_ = place_ == Place::root ? Place::outside : Place::root;
    return true;
  }

  bool start_array(size_t) override {
    if (place_ == Place::tensor && key_ == "shape" && !entry_.has_shape) {
      entry_.has_shape = true;
      place_ = Place::shape;
      return true;
    }
    if (place_ == Place::tensor && key_ == "data_offsets" && entry_.offsets.empty()) {
      place_ = Place::offsets;
      return true;
    }
    return refuse("a list");
  }

  bool end_array() override {
    place_ = Place::tensor;
    return true;
  }

  bool key(string_t& key) override {
    key_ = key;
    if (place_ == Place::root) entry_.tensor.name = key;
    if (place_ != Place::metadata) return true;
    if (metadata_.size() == kMaxMetadata) return refuse("more metadata than a model needs");
    metadata_.emplace_back(key, "");
    return true;
  }

  bool parse_error(size_t position, const std::string&, const nlohmann::detail::exception&) override {
    error_ = Error(ErrorCode::format, fmt::format("header: not JSON at byte {}", position));
    return false;
  }

  std::optional<Error> take_error() { return std::move(error_); }
  std::vector<Entry> take_entries() { return std::move(entries_); }
  std::vector<std::pair<std::string, std::string>> take_metadata() { return std::move(metadata_); }

 private:
  enum class Place : uint8_t { outside, root, metadata, tensor, shape, offsets };

  bool refuse(std::string_view found) {
    const std::string place = place_ == Place::tensor || place_ == Place::shape || place_ == Place::offsets
                                  ? fmt::format("tensor {}, {}", text::quote_text(entry_.tensor.name), key_)
                                  : fmt::format("header, {}", text::quote_text(key_));
    error_ = Error(ErrorCode::format, fmt::format("{}: {} is not expected here", place, text::quote_text(found)));
    return false;
  }
  bool refuse_tensor(ErrorCode code, std::string_view reason) {
    error_ = Error(code, fmt::format("tensor {}: {}", text::quote_text(entry_.tensor.name), reason));
    return false;
  }

  Place place_ = Place::outside;
  std::string key_;
  Entry entry_;
  std::vector<Entry> entries_;
  std::vector<std::pair<std::string, std::string>> metadata_;
  std::optional<Error> error_;
};

// Checks that data without holes and overlaps has room for each tensor, and turns offsets into those of the file.
Result<std::vector<StoredTensor>> place_tensors(std::vector<Entry> entries, uint64_t data_begin, uint64_t data_bytes) {
  std::ranges::stable_sort(entries, {},
                           [](const Entry& entry) { return std::pair(entry.offsets[0], entry.offsets[1]); });
  uint64_t end = 0;
  std::vector<StoredTensor> tensors;
  tensors.reserve(entries.size());
  for (Entry& entry : entries) {
    StoredTensor& tensor = entry.tensor;
    const auto refuse = [&](std::string_view reason) {
      return fail(ErrorCode::format, "tensor {}: {}", text::quote_text(tensor.name), reason);
    };
    const uint64_t begin = entry.offsets[0];
    const auto n_elements = count_elements(tensor.shape);
    if (!n_elements) return refuse(n_elements.error().message());
    const auto n_bytes = checked_mul<uint64_t>(static_cast<uint64_t>(*n_elements), element_bytes(tensor.type));
    if (!n_bytes) return refuse("more than 2^64 bytes");
    if (entry.offsets[1] < begin || entry.offsets[1] - begin != *n_bytes)
      return refuse(fmt::format("data_offsets {} to {}, want {} bytes", begin, entry.offsets[1], *n_bytes));
    if (begin != end) return refuse(fmt::format("begins at byte {} of the data, want {}", begin, end));
    if (*n_bytes > data_bytes - end) return refuse(fmt::format("ends after the data of {} bytes", data_bytes));
    end = entry.offsets[1];
    tensor.offset = data_begin + begin;
    tensors.push_back(std::move(tensor));
  }
  if (end != data_bytes) return fail(ErrorCode::format, "{} bytes after the last tensor", data_bytes - end);
  return tensors;
}

Result<> require_distinct_names(const std::vector<Entry>& entries) {
  std::vector<std::string_view> names;
  names.reserve(entries.size());
  for (const Entry& entry : entries) names.push_back(entry.tensor.name);
  std::ranges::sort(names);
  const auto twice = std::ranges::adjacent_find(names);
  if (twice != names.end()) return fail(ErrorCode::format, "two tensors {}", text::quote_text(*twice));
  return {};
}

}  // namespace

bool is_safetensors(std::string_view first_bytes, uint64_t file_bytes) {
  if (first_bytes.size() <= kLengthBytes || first_bytes[kLengthBytes] != '{') return false;
  uint64_t n_header = 0;
  std::memcpy(&n_header, first_bytes.data(), kLengthBytes);
  return n_header <= file_bytes - kLengthBytes;
}

Result<SafetensorsHeader> read_safetensors_header(const File& file) {
  const auto read = [&]() -> Result<SafetensorsHeader> {
    if (file.size() < kLengthBytes) return fail(ErrorCode::format, "{} bytes are no safetensors file", file.size());
    uint64_t n_header = 0;
    TESSERA_TRY(file.read_at(0, std::as_writable_bytes(std::span(&n_header, 1))));
    if (n_header > kMaxSafetensorsHeader)
      return fail(ErrorCode::limit, "a header of {} bytes, limit {}", n_header, kMaxSafetensorsHeader);
    if (n_header > file.size() - kLengthBytes)
      return fail(ErrorCode::format, "a header of {} bytes in a file of {}", n_header, file.size());
    std::string header(static_cast<size_t>(n_header), '\0');
    TESSERA_TRY(file.read_at(kLengthBytes, std::as_writable_bytes(std::span(header))));
    if (const size_t nul = header.find('\0'); nul != std::string::npos)
      return fail(ErrorCode::format, "header: a NUL byte at byte {}", nul);  // the parser takes it for the end
    HeaderReader reader;
    if (!HeaderJson::sax_parse(header, &reader)) return std::unexpected(*reader.take_error());
    std::vector<Entry> entries = reader.take_entries();
    TESSERA_TRY(require_distinct_names(entries));
    const uint64_t data_begin = kLengthBytes + n_header;
    SafetensorsHeader result{.metadata = reader.take_metadata()};
    TESSERA_ASSIGN(result.tensors, place_tensors(std::move(entries), data_begin, file.size() - data_begin));
    return result;
  };
  auto header = read();
  if (!header) return forward_error(header, file.path());
  return header;
}

}  // namespace tessera::convert
