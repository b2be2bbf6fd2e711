#include "tessera/vulkan/spirv.h"

#include <map>

namespace tessera::vulkan {

namespace {

constexpr uint32_t kMagic = 0x07230203;
constexpr size_t kHeaderWords = 5;
// Numbers of instructions (SPIR-V specification 3.49, SPV_KHR_cooperative_matrix).
constexpr uint32_t kTypeFloat = 22, kConstant = 43, kTypeVoid = 19, kTypeCooperativeMatrix = 4456;

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

}  // namespace

Result<std::vector<uint32_t>> with_value_types(Words module) {
  TESSERA_ASSIGN(const std::vector<Words> instructions, instructions_of(module));
  std::map<uint32_t, uint32_t> constants, floats;  // values by id, ids by bits
  std::vector<uint32_t> float_types;
  for (const Words one : instructions) {
    if (opcode_of(one) == kConstant && one.size() == 4) constants[one[2]] = one[3];
    if (opcode_of(one) != kTypeFloat || one.size() != 3) continue;
    floats[one[2]] = one[1];
    float_types.insert(float_types.end(), one.begin(), one.end());
  }
  std::vector<uint32_t> result(module.begin(), module.begin() + kHeaderWords);
  for (const Words one : instructions) {
    const size_t begin = result.size();
    if (opcode_of(one) == kTypeFloat) continue;
    result.insert(result.end(), one.begin(), one.end());
    // A type must come before its use, so the float types follow the first type, which is always void.
    if (opcode_of(one) == kTypeVoid) result.insert(result.end(), float_types.begin(), float_types.end());
    if (opcode_of(one) != kTypeCooperativeMatrix) continue;
    if (one.size() < 3) return bad_module("a matrix without a type of values");
    const auto bits = constants.find(one[2]);
    if (bits == constants.end()) return bad_module("no constant in place of the type of a matrix's values");
    const auto type = floats.find(bits->second);
    if (type == floats.end()) return bad_module("no float type of the bits of a matrix's values");
    result[begin + 2] = type->second;
  }
  return result;
}

}  // namespace tessera::vulkan
