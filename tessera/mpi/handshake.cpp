#include "tessera/mpi/handshake.h"

#include <unistd.h>

#include <array>
#include <utility>

#include "tessera/base/hash.h"
#include "tessera/graph/op_info.h"
#include "tessera/tensor/dtype.h"

namespace tessera::mpi {

namespace {

void add_op(Hash64& hash, std::string_view name, const OpParams& params) {
  hash.add(uint64_t{name.size()}).add(name);
  const ParamList list = list_params(params);
  for (const Param& param : list.all()) hash.add(std::string_view(param.name));
}

}  // namespace

uint64_t hash_of_tables() {
  Hash64 hash;
#define TESSERA_OP(name, family, parameters, devices) add_op(hash, #name, parameters{});
#include "tessera/graph/ops.def"
  for (const DTypeInfo& type : all_dtypes())
    hash.add(type.name)
        .add(static_cast<uint64_t>(type.dtype))
        .add(static_cast<uint64_t>(type.block_elements))
        .add(static_cast<uint64_t>(type.block_bytes));
  return hash.value();
}

Identity own_identity(std::string program) {
  std::array<char, 256> host{};
  if (gethostname(host.data(), host.size() - 1) != 0) host[0] = '\0';
  return {.program = std::move(program), .host = host[0] == '\0' ? "?" : host.data(), .tables = hash_of_tables()};
}

Result<> require_same(const Identity& here, const Identity& there) {
  if (here.program != there.program)
    return fail(ErrorCode::mismatch, "version {} on {}, {} on {}", here.program, here.host, there.program, there.host);
  if (here.tables != there.tables)
    return fail(ErrorCode::mismatch, "{} and {} have different operations or types, with the same version {}",
                here.host, there.host, here.program);
  return {};
}

}  // namespace tessera::mpi
