#include <fmt/format.h>

#include "tessera/gguf/keys.h"
#include "tessera/gguf/printable.h"
#include "tessera/models/transformer.h"

namespace tessera {

#define TESSERA_MODEL(function, name) \
  Result<std::unique_ptr<Model>> create_##function(const ModelFiles& files, const RopeOverrides& rope);
#define TESSERA_TRAITS(name, ...)
#include "tessera/models/models.def"
#undef TESSERA_TRAITS
#undef TESSERA_MODEL

namespace {

struct Architecture {
  std::string_view name;
  Result<std::unique_ptr<Model>> (*create)(const ModelFiles&, const RopeOverrides&);  // null: a Transformer of traits
  TransformerTraits traits{};
};

constexpr Architecture kArchitectures[] = {
#define TESSERA_MODEL(function, name) {name, create_##function},
#define TESSERA_TRAITS(name, ...) {name, nullptr, {.architecture = name, __VA_ARGS__}},
#include "tessera/models/models.def"
#undef TESSERA_TRAITS
#undef TESSERA_MODEL
};

}  // namespace

Result<> Model::add_head() {
  return fail(ErrorCode::unsupported, "{}: prediction heads of the architecture {} are not supported",
              weights_.files().name(), info_.architecture);
}

Result<std::unique_ptr<Model>> create_model(const ModelFiles& files, const RopeOverrides& rope) {
  TESSERA_ASSIGN(const std::string_view wanted, files.metadata().get<std::string_view>(keys::kArchitecture));
  std::string known;
  for (const Architecture& architecture : kArchitectures) {
    if (architecture.name == wanted)
      return architecture.create != nullptr ? architecture.create(files, rope)
                                            : create_transformer<Transformer>(files, rope, architecture.traits);
    fmt::format_to(std::back_inserter(known), "{}{}", known.empty() ? "" : ", ", architecture.name);
  }
  return fail(ErrorCode::unsupported, "{}: architecture {} is not supported (supported: {})", files.name(),
              quote_name(wanted), known);
}

}  // namespace tessera
