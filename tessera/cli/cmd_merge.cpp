// tessera merge: joins the parts of a split model into one file.
#include "tessera/cli/console.h"
#include "tessera/cli/progress.h"
#include "tessera/cli/two_paths.h"
#include "tessera/convert/shards.h"

namespace tessera::cli {

namespace {

class MergeCommand final : public Command {
 public:
  FlagTable flags() override {
    FlagTable table;
    paths_.add_to(table, "FIRST.gguf", "OUT.gguf");
    return table;
  }

  Result<> check() override { return paths_.check(); }

  Result<> run(Context& process) override {
    TESSERA_ASSIGN(const auto files, ModelFiles::open(paths_.in));
    ProgressBar bar("merging", process.quiet);
    return convert::merge_shards(*files, paths_.out, [&](float share) {
      bar.update(share);
      return !process.interrupt.cancelled();
    });
  }

 private:
  TwoPaths paths_;
};

}  // namespace

std::unique_ptr<Command> create_merge_command() { return std::make_unique<MergeCommand>(); }

}  // namespace tessera::cli
