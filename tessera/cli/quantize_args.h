// The flags of tessera quantize, and their translation to options of the library.
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "tessera/base/numa.h"
#include "tessera/cli/args.h"
#include "tessera/convert/importance.h"
#include "tessera/convert/quantize.h"

namespace tessera::cli {

/// Largest size of the output: bytes, or bits per value of the model.
using SizeTarget = std::variant<uint64_t, double>;

struct QuantizeArgs {
  std::string input, output;
  std::optional<SizeTarget> size;
  std::optional<convert::FileType> file_type;  // may be absent with a size
  std::string imatrix_path;
  convert::ImatrixFilter imatrix_filter;
  convert::QuantizeOptions options;
  int32_t n_threads = 1;
  NumaPolicy numa = NumaPolicy::none;
  bool dry_run = false;
  bool json = false;

  QuantizeArgs();
  void add_to(FlagTable& table);
  /// Checks the flags and the positional arguments together. Errors: invalid_argument.
  Result<> check();

  // The same without what only `tessera quantize` has.
  void add_mix_to(FlagTable& table);
  void add_rare_mix_to(FlagTable& table);
  Result<> check_mix();

 private:
  Result<> take_words();

  std::vector<std::string> words_;
};

/// Errors: invalid_argument, with the nearest name of a type.
Result<convert::FileType> parse_file_type(std::string_view text);

}  // namespace tessera::cli
