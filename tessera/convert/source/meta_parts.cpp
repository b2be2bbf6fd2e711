#include "tessera/convert/source/meta_parts.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <unordered_map>
#include <utility>

#include "tessera/base/checked.h"
#include "tessera/base/index.h"
#include "tessera/text/utf8.h"

namespace tessera::convert {

namespace {

constexpr int64_t kMaxWidth = int64_t{1} << 24;
constexpr int64_t kMaxParamsCount = 1 << 14;  // of layers and heads

struct JoinedPart {
  StoredTensor tensor;
  std::span<const std::byte> bytes;
  const MappedFile* map;
  int64_t n_run;  // elements that lie one after another in the whole tensor
};

// Tensors side by side in a dimension. Each index of the dimensions before it has a run of every part.
class JoinedSource : public ElementSource {
 public:
  explicit JoinedSource(std::vector<JoinedPart> parts) : parts_(std::move(parts)) {
    for (const JoinedPart& part : parts_) n_row_ += part.n_run;
  }

  void read(int64_t first, std::span<std::byte> into) const override {
    const size_t width = element_bytes(parts_.front().tensor.type);
    int64_t row = n_row_ == 0 ? 0 : first / n_row_, begin = n_row_ == 0 ? 0 : first % n_row_;
    for (; !into.empty(); ++row) {
      for (const JoinedPart& part : parts_) {
        const auto n_left = static_cast<int64_t>(into.size() / width);
        const int64_t n = std::clamp<int64_t>(part.n_run - begin, 0, n_left);
        const size_t n_bytes = to_size(n) * width;
        if (n > 0) part.tensor.read(part.bytes, row * part.n_run + begin, into.first(n_bytes));
        into = into.subspan(n_bytes);
        begin = std::max<int64_t>(begin - part.n_run, 0);
      }
    }
  }

  void forget(int64_t first, int64_t n) const override {
    int64_t begin_in_row = 0;
    for (const JoinedPart& part : parts_) {
      const auto elements_before = [&](int64_t element) {
        return element / n_row_ * part.n_run + std::clamp<int64_t>(element % n_row_ - begin_in_row, 0, part.n_run);
      };
      const int64_t begin = elements_before(first), end = elements_before(first + n);
      if (part.map != nullptr && begin < end) part.tensor.forget(*part.map, begin, end - begin);
      begin_in_row += part.n_run;
    }
  }

 private:
  std::vector<JoinedPart> parts_;
  int64_t n_row_ = 0;
};

// The dimension in which the parts of a tensor are joined.
size_t joined_dimension(const StoredTensor& tensor, int64_t n_embd) {
  const std::string_view name = tensor.name;
  const bool has_columns = name.ends_with("attention.wo.weight") || name.ends_with("feed_forward.w2.weight");
  const bool is_narrow_table = name == "tok_embeddings.weight" && tensor.shape.back() != n_embd;
  return has_columns || is_narrow_table ? 1 : 0;
}

// A part must have the type of the first one, and its shape but for one dimension.
Result<> require_fit(const StoredTensor& part, const StoredTensor& first, std::optional<size_t> other_dimension) {
  std::vector<int64_t> shape = part.shape;
  if (other_dimension && shape.size() == first.shape.size()) shape[*other_dimension] = first.shape[*other_dimension];
  if (shape != first.shape || part.type != first.type)
    return fail(ErrorCode::format, "tensor {}: parts {} [{}] and {} [{}]", text::quote_text(first.name),
                element_name(first.type), fmt::join(first.shape, ", "), element_name(part.type),
                fmt::join(part.shape, ", "));
  return {};
}

Result<StoredTensor> joined(std::vector<JoinedPart> parts, int64_t n_embd) {
  StoredTensor result = parts.front().tensor;
  std::optional<size_t> dimension;
  if (result.shape.size() == 2) dimension = joined_dimension(result, n_embd);
  for (const JoinedPart& part : parts) TESSERA_TRY(require_fit(part.tensor, parts.front().tensor, dimension));
  if (!dimension) return result;
  int64_t extent = 0;
  for (JoinedPart& part : parts) {
    const auto sum = checked_add(extent, part.tensor.shape[*dimension]);
    if (!sum) return fail(ErrorCode::format, "tensor {}: more than 2^63 rows", text::quote_text(result.name));
    extent = *sum;
    part.n_run = *dimension == 0 ? part.tensor.n_elements() : part.tensor.shape[1];
  }
  result.shape[*dimension] = extent;
  TESSERA_TRY(count_elements(result.shape));
  result.strides.clear();
  result.offset = 0;
  result.elements = std::make_shared<JoinedSource>(std::move(parts));
  return result;
}

// Contexts of the families of llamas: with a large base of rope, those of code models and of Llama 3.
int64_t context_of(const BareModel& model) {
  if (model.rope_factor) return 131072;
  if (model.rope_theta >= 1e6) return 16384;
  if (model.rope_theta >= 5e5) return 8192;
  return model.norm_eps >= 1e-5 ? 4096 : 2048;
}

}  // namespace

Result<std::vector<StoredTensor>> join_parts(std::span<const FilePart> parts, int64_t n_embd) {
  std::vector<StoredTensor> result;
  std::unordered_map<std::string_view, std::vector<JoinedPart>> by_name;
  for (const FilePart& part : parts)
    for (const StoredTensor& tensor : part.tensors) by_name[tensor.name].push_back({tensor, part.bytes, part.map, 0});
  for (const auto& [name, found] : by_name)
    if (found.size() != parts.size())
      return fail(ErrorCode::format, "tensor {} is in {} of {} files", text::quote_text(name), found.size(),
                  parts.size());
  for (const StoredTensor& tensor : parts.front().tensors) {
    TESSERA_ASSIGN(StoredTensor whole, joined(std::move(by_name[tensor.name]), n_embd));
    result.push_back(std::move(whole));
  }
  return result;
}

Result<int64_t> width_of_params(const HubConfig& params) { return params.require_integer({"dim"}, 1, kMaxWidth); }

Result<BareModel> model_of_params(const HubConfig& params, std::span<const StoredTensor> tensors) {
  BareModel model;
  TESSERA_ASSIGN(model.n_embd, width_of_params(params));
  TESSERA_ASSIGN(model.n_layers, params.require_integer({"n_layers"}, 1, kMaxParamsCount));
  TESSERA_ASSIGN(model.n_heads, params.require_integer({"n_heads"}, 1, kMaxParamsCount));
  TESSERA_ASSIGN(const auto eps, params.number({"norm_eps"}));
  TESSERA_ASSIGN(const auto theta, params.number({"rope_theta"}));
  TESSERA_ASSIGN(const auto is_scaled, params.flag({"use_scaled_rope"}));
  model.norm_eps = eps.value_or(model.norm_eps);
  model.rope_theta = theta.value_or(model.rope_theta);
  // The factor is not in the file: small models have that of Llama 3.2, others that of 3.1.
  constexpr int64_t kMaxSmallWidth = 3072;
  if (is_scaled.value_or(false)) model.rope_factor = model.n_embd <= kMaxSmallWidth ? 32 : 8;
  model.n_context = context_of(model);
  const auto table = std::ranges::find(tensors, "tok_embeddings.weight", &StoredTensor::name);
  if (table == tensors.end() || table->shape.size() != 2)
    return fail(ErrorCode::format, "{}: no matrix tok_embeddings.weight", params.path());
  model.n_vocab = table->shape[0];
  auto extents = add_extents_of_layer(tensors, model);
  if (!extents) return forward_error(extents, params.path());
  return model;
}

}  // namespace tessera::convert
