#include "tessera/mpi/op_params.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "tessera/graph/op_info.h"

namespace tessera::mpi {

namespace {

// The values by name. What is absent or does not fit becomes 0: read_params() compares the result with the list.
class ParamReader {
 public:
  ParamReader(DType result, std::span<const NamedParam> params) : result_(result), params_(params) {}

  DType result() const { return result_; }
  int64_t integer(std::string_view name, int64_t absent = 0) const {
    const NamedParam* param = find(name);
    return param == nullptr ? absent : param->integer;
  }
  bool flag(std::string_view name) const { return integer(name) != 0; }
  float number(std::string_view name) const {
    const NamedParam* param = find(name);
    if (param == nullptr) return 0;
    const bool fits = !std::isfinite(param->number) || std::abs(param->number) <= std::numeric_limits<float>::max();
    return fits ? static_cast<float>(param->number) : 0.0f;
  }
  std::array<int64_t, kMaxRank> extents(const std::array<const char*, kMaxRank>& names) const {
    std::array<int64_t, kMaxRank> values{};
    std::ranges::transform(names, values.begin(), [&](const char* name) { return integer(name); });
    return values;
  }
  Shape shape() const { return shape_of({"ne0", "ne1", "ne2", "ne3"}); }
  Shape shape_of(const std::array<const char*, kMaxRank>& names) const {
    Shape shape;
    shape.ne = extents(names);
    return shape;
  }

 private:
  const NamedParam* find(std::string_view name) const {
    const auto found = std::ranges::find(params_, name, &NamedParam::name);
    return found == params_.end() ? nullptr : &*found;
  }

  DType result_;
  std::span<const NamedParam> params_;
};

void read(const ParamReader&, NoParams&) {}
void read(const ParamReader& in, ShapeParams& p) { p.shape = in.shape(); }
void read(const ParamReader& in, PlaceParams& p) {
  p.shape = in.shape();
  p.at = {in.shape_of({"at_ne0", "at_ne1", "at_ne2", "at_ne3"}), in.extents({"at_nb0", "at_nb1", "at_nb2", "at_nb3"})};
  p.offset = to_size(in.integer("offset"));
}
void read(const ParamReader& in, CastParams& p) { p.dtype = in.result(); }
void read(const ParamReader& in, ScatterRowsParams& p) { p.n_rows = in.integer("n_rows"); }
void read(const ParamReader& in, AddScaledParams& p) { p = {in.number("factor"), in.integer("n_experts")}; }
void read(const ParamReader& in, ScaleParams& p) { p.factor = in.number("factor"); }
void read(const ParamReader& in, SoftCapParams& p) { p.cap = in.number("cap"); }
void read(const ParamReader& in, ClampParams& p) { p = {in.number("min"), in.number("max")}; }
void read(const ParamReader& in, XieluParams& p) {
  p = {in.number("square"), in.number("exponential"), in.number("linear"), in.number("bound")};
}
void read(const ParamReader& in, NormParams& p) { p.eps = in.number("eps"); }
void read(const ParamReader& in, TemperatureParams& p) {
  p = {in.number("beta"), in.integer("length"), in.integer("offset")};
}
void read(const ParamReader& in, RopeTableParams& p) {
  p = {in.integer("n_rot"),   in.number("freq_base"), in.number("freq_scale"), in.number("yarn_ext"),
       in.number("yarn_low"), in.number("yarn_high"), in.number("magnitude")};
}
void read(const ParamReader& in, RopeParams& p) {
  p = {in.flag("halves") ? RopePairs::halves : RopePairs::adjacent, in.flag("inverse")};
}
void read(const ParamReader& in, KvParams& p) { p.side = in.flag("v") ? KvSide::v : KvSide::k; }
void read(const ParamReader& in, KeyChoiceParams& p) {
  p = {in.integer("n_chosen"), in.integer("unit"), in.integer("n_local")};
}
void read(const ParamReader& in, KeyWindowParams& p) {
  p = {in.integer("window"), in.integer("ratio"), in.integer("n_entry_blocks")};
}
void read(const ParamReader& in, CompressionParams& p) { p = {in.integer("ratio"), in.flag("overlaps")}; }
void read(const ParamReader& in, AttentionParams& p) {
  p = {.scale = in.number("scale"),
       .causal = in.flag("causal"),
       .window = in.integer("window"),
       .chunked = in.flag("chunked"),
       .soft_cap = in.number("soft_cap"),
       .max_alibi = in.number("max_alibi"),
       .latent_v = in.integer("latent_v"),
       .int16 = in.flag("int16")};
}
void read(const ParamReader& in, StreamParams& p) {
  p = {in.integer("n_streams"), in.integer("n_iterations"), in.number("eps")};
}
void read(const ParamReader& in, DeltaNetParams& p) {
  p = {in.flag("tiled") ? KeyHeads::tiled : KeyHeads::grouped, in.number("scale")};
}
void read(const ParamReader& in, Rwkv7Params& p) { p.read = in.flag("before") ? StateRead::before : StateRead::after; }
void read(const ParamReader& in, TopKParams& p) { p = {in.integer("k"), in.integer("divisor", 1)}; }
void read(const ParamReader& in, TopGroupsParams& p) { p = {in.integer("n_groups"), in.integer("n_used")}; }
void read(const ParamReader& in, ExpertWeightsParams& p) { p = {in.flag("normalize"), in.number("scale")}; }
void read(const ParamReader& in, ExpertRoutesParams& p) { p = {in.integer("n_experts"), in.integer("n_tokens")}; }
void read(const ParamReader& in, ExpertProductParams& p) {
  p = {in.integer("n_experts"), in.flag("routed") ? ExpertInput::routed : ExpertInput::tokens};
}
void read(const ParamReader& in, DescendParams& p) { p.decays = in.flag("decays"); }

template <class Params>
OpParams read_as(const ParamReader& in) {
  Params params;
  read(in, params);
  return params;
}

constexpr OpParams (*kReaders[])(const ParamReader&) = {
#define TESSERA_OP(name, family, parameters, devices) read_as<parameters>,
#include "tessera/graph/ops.def"
};

bool is_same(const Param& a, const NamedParam& b) {
  return a.name == b.name && a.integer == b.integer &&
         std::bit_cast<uint64_t>(a.number) == std::bit_cast<uint64_t>(b.number);
}

}  // namespace

Result<OpParams> read_params(Op op, DType result, std::span<const NamedParam> params) {
  OpParams made = kReaders[to_size(op)](ParamReader(result, params));
  const ParamList list = list_params(made);
  // Whatever was not read, or was read as something else, is missing here or has another value.
  if (std::ranges::equal(list.all(), params, is_same)) return made;
  for (const NamedParam& param : params)
    if (std::ranges::none_of(list.all(), [&](const Param& known) { return is_same(known, param); }))
      return fail(ErrorCode::unsupported, "{} has no parameter {} of {}", info(op).name, param.name, param.number);
  return fail(ErrorCode::unsupported, "{} has {} parameters, in another order or number: {}", info(op).name,
              list.all().size(), params.size());
}

}  // namespace tessera::mpi
