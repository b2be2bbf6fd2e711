#include "tessera/cli/text_args.h"

#include "tessera/base/file.h"

namespace tessera::cli {

Result<std::string> read_text(const std::string& path, const Context& process) {
  constexpr uint64_t kMaxTextBytes = uint64_t{64} << 20;
  return read_file(path.empty() ? "/dev/stdin" : path, kMaxTextBytes, &process.interrupt);
}

void TextArgs::add_to(FlagTable& table) {
  table.common("--prompt -p", "TEXT", "the text", [this](std::string_view given) -> Result<> {
    text = given;
    return {};
  });
  table.common("--file -f", "FILE", "file with the text; default without -p: stdin", set_string(file));
}

Result<> TextArgs::check() const {
  if (text && !file.empty()) return fail(ErrorCode::invalid_argument, "--prompt and --file: give one of them");
  return {};
}

Result<std::string> TextArgs::read(const Context& process) const {
  if (text) return *text;
  return read_text(file, process);
}

}  // namespace tessera::cli
