// tessera models: lists the models in the cache of downloads, and removes them.
#include "tessera/cli/cached_models.h"
#include "tessera/cli/command.h"
#include "tessera/hub/settings.h"

namespace tessera::cli {

namespace {

class ModelsCommand final : public Command {
 public:
  FlagTable flags() override {
    FlagTable table;
    table.common("--remove", "NAME", "remove a model: user/repo, user/repo:TAG, user/repo@REVISION or a URL",
                 set_string(removed_));
    table.common("--json", "", "print a line of JSON per model", set_switch(json_));
    return table;
  }

  Result<> run(Context&) override {
    TESSERA_ASSIGN(const hub::Settings settings, hub::settings_from_environment());
    if (!removed_.empty()) return remove_cached_model(settings.cache_dir, removed_, json_);
    return print_cached_models(settings.cache_dir, "", json_);
  }

 private:
  std::string removed_;
  bool json_ = false;
};

}  // namespace

std::unique_ptr<Command> create_models_command() { return std::make_unique<ModelsCommand>(); }

}  // namespace tessera::cli
