#include "tessera/vulkan/spirv.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>

namespace tessera::vulkan {

namespace {

constexpr uint32_t kMagic = 0x07230203;
constexpr size_t kHeaderWords = 5, kBoundWord = 3;

// Numbers of the SPIR-V specification and of its extensions for cooperative matrices.
enum Opcode : uint32_t {
  kExtension = 10,
  kCapability = 17,
  kTypeInt = 21,
  kConstantTrue = 41,
  kConstantFalse = 42,
  kConstant = 43,
  kAddFloats = 129,
  kMultiplyFloats = 133,
  kTypeMatrixKhr = 4456,
  kLoadKhr = 4457,
  kStoreKhr = 4458,
  kMultiplyAddKhr = 4459,
  kTypeMatrixNv = 5358,
  kLoadNv = 5359,
  kStoreNv = 5360,
  kMultiplyAddNv = 5361,
};
constexpr uint32_t kCapabilityNv = 5357, kCapabilityKhr = 6022;
constexpr std::string_view kExtensionNv = "SPV_NV_cooperative_matrix", kExtensionKhr = "SPV_KHR_cooperative_matrix";

using Words = std::span<const uint32_t>;

std::unexpected<Error> bad_module(const char* reason) {
  return fail(ErrorCode::invalid_argument, "SPIR-V: {}", reason);
}

uint32_t opcode_of(Words instruction) { return instruction[0] & 0xffffu; }

Result<std::vector<Words>> instructions_of(Words module) {
  if (module.size() < kHeaderWords || module[0] != kMagic) return bad_module("no module");
  std::vector<Words> instructions;
  for (size_t at = kHeaderWords; at < module.size();) {
    const size_t n = module[at] >> 16;
    if (n == 0 || n > module.size() - at) return bad_module("an instruction without an end");
    instructions.push_back(module.subspan(at, n));
    at += n;
  }
  return instructions;
}

class Translation {
 public:
  explicit Translation(Words module)
      : first_id_(module[kBoundWord]), words_(module.begin(), module.begin() + kHeaderWords) {
    words_[kBoundWord] += kNewConstants;
  }

  Result<> add(Words one) {
    if (one.size() > 2 && one[1] == sums_type_) sums_.insert(one[2]);
    switch (opcode_of(one)) {
      case kTypeInt:
        add_same(one);
        if (one.size() == 4 && one[2] == 32 && one[3] == 0) add_constants(one[1]);
        return {};
      case kConstant:
        if (one.size() == 4) values_[one[2]] = one[3];
        break;
      case kConstantTrue:
      case kConstantFalse:
        if (one.size() == 3) layouts_[one[2]] = opcode_of(one) == kConstantTrue ? 1 : 0;
        break;
      case kCapability:
        if (one.size() == 2 && one[1] == kCapabilityNv) return put(kCapability, {kCapabilityKhr});
        break;
      case kExtension:
        return add_extension(one);
      case kTypeMatrixNv:
        return add_type(one);
      case kLoadNv:  // type, result, pointer, stride, layout
        if (one.size() < 6 || !layouts_.contains(one[5])) return bad_module("a load of a matrix");
        return put(kLoadKhr, {one[1], one[2], one[3], layout_of(one[5]), one[4]}, one.subspan(6));
      case kStoreNv:  // pointer, matrix, stride, layout
        if (one.size() < 5 || !layouts_.contains(one[4])) return bad_module("a store of a matrix");
        return put(kStoreKhr, {one[1], one[2], layout_of(one[4]), one[3]}, one.subspan(5));
      case kMultiplyAddNv:
        return add_product(one);
      default:
        break;
    }
    add_same(one);
    return {};
  }

  std::vector<uint32_t> take() { return std::move(words_); }

 private:
  // Constants that the module may lack: the uses and layouts 0, 1 and 2, then the extent.
  static constexpr uint32_t kNewConstants = 4, kExtent = 16;
  uint32_t id_of(uint32_t number) const { return first_id_ + number; }
  uint32_t layout_of(uint32_t is_column_major) const { return id_of(layouts_.at(is_column_major)); }

  void add_same(Words one) { words_.insert(words_.end(), one.begin(), one.end()); }

  Result<> put(Opcode opcode, std::initializer_list<uint32_t> operands, Words more = {}) {
    words_.push_back(static_cast<uint32_t>(1 + operands.size() + more.size()) << 16 | opcode);
    words_.insert(words_.end(), operands);
    add_same(more);
    return {};
  }

  void add_constants(uint32_t uint_type) {
    for (const uint32_t number : {0u, 1u, 2u, 3u})
      static_cast<void>(put(kConstant, {uint_type, id_of(number), number == 3 ? kExtent : number}));
  }

  Result<> add_extension(Words one) {
    const auto text = std::as_bytes(one.subspan(1));
    std::string name(text.size(), '\0');
    std::memcpy(name.data(), text.data(), text.size());
    if (name.substr(0, name.find('\0')) != kExtensionNv) {
      add_same(one);
      return {};
    }
    std::vector<uint32_t> padded(kExtensionKhr.size() / 4 + 1);
    std::memcpy(padded.data(), kExtensionKhr.data(), kExtensionKhr.size());
    return put(kExtension, {}, padded);
  }

  Result<> add_type(Words one) {  // result, type of values, scope, rows, columns
    if (one.size() != 6) return bad_module("a type of matrices");
    const std::pair<uint32_t, uint32_t> extents{value_of(one[4]), value_of(one[5])};
    static constexpr std::pair<uint32_t, uint32_t> kExtents[] = {{18, 17}, {17, 18}, {18, 18}};  // by use
    const auto* const use = std::ranges::find(kExtents, extents);
    if (use == std::end(kExtents)) return bad_module("extents of a matrix without a meaning");
    if (use == std::end(kExtents) - 1) sums_type_ = one[1];
    return put(kTypeMatrixKhr,
               {one[1], one[2], one[3], id_of(3), id_of(3), id_of(static_cast<uint32_t>(use - std::begin(kExtents)))});
  }

  Result<> add_product(Words one) {  // type, result, left, right, sum
    if (one.size() != 6) return bad_module("a product of matrices");
    if (!sums_.contains(one[3])) return put(kMultiplyAddKhr, {}, one.subspan(1));
    const uint32_t product = words_[kBoundWord]++;
    TESSERA_TRY(put(kMultiplyFloats, {one[1], product, one[3], one[4]}));
    return put(kAddFloats, {one[1], one[2], one[5], product});
  }

  uint32_t value_of(uint32_t constant) const {
    const auto found = values_.find(constant);
    return found == values_.end() ? 0 : found->second;
  }

  uint32_t first_id_;
  std::map<uint32_t, uint32_t> values_, layouts_;  // of constants, by id
  uint32_t sums_type_ = 0;                         // 0: not yet known
  std::set<uint32_t> sums_;                        // ids of values
  std::vector<uint32_t> words_;
};

}  // namespace

Result<std::vector<uint32_t>> to_khr_matrices(Words module) {
  TESSERA_ASSIGN(const std::vector<Words> instructions, instructions_of(module));
  Translation translation(module);
  for (const Words one : instructions) TESSERA_TRY(translation.add(one));
  return translation.take();
}

}  // namespace tessera::vulkan
