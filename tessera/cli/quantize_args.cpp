#include "tessera/cli/quantize_args.h"

#include <fmt/format.h>

#include <algorithm>

#include "tessera/base/cpu_info.h"
#include "tessera/cli/model_args.h"

namespace tessera::cli {

namespace {

constexpr std::string_view kCopy = "COPY";
constexpr std::string_view kBitsEnding = "bpw";

std::string to_upper(std::string_view text) {
  std::string upper(text);
  for (char& c : upper)
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  return upper;
}

bool is_digits(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

bool is_copy(std::string_view text) { return to_upper(text) == kCopy; }

std::unexpected<Error> unknown_name(std::string_view what, std::string_view text,
                                    std::span<const std::string_view> known) {
  const std::string_view near = nearest(to_upper(text), known);
  if (near.empty()) return fail(ErrorCode::invalid_argument, "'{}' is not {} (e.g. {})", text, what, known.front());
  return fail(ErrorCode::invalid_argument, "'{}' is not {}; did you mean {}?", text, what, near);
}

Result<DType> parse_weight_type(std::string_view text) {
  if (const auto type = convert::weight_type_from_name(text)) return *type;
  std::vector<std::string> names;
  for (const DTypeInfo& row : all_dtypes())
    if (convert::is_weight_type(row.dtype)) names.push_back(to_upper(row.name));
  const std::vector<std::string_view> known(names.begin(), names.end());
  return unknown_name("a type of weights", text, known);
}

Setter set_weight_type(std::optional<DType>& target) {
  return [&target](std::string_view text) -> Result<> {
    TESSERA_ASSIGN(target, parse_weight_type(text));
    return {};
  };
}

Setter add_text(std::vector<std::string>& target) {
  return [&target](std::string_view text) -> Result<> {
    if (text.empty()) return fail(ErrorCode::invalid_argument, "want a part of a name, got ''");
    target.emplace_back(text);
    return {};
  };
}

Result<SizeTarget> parse_size(std::string_view text) {
  if (!text.ends_with(kBitsEnding)) return parse_bytes(text);
  TESSERA_ASSIGN(const float bits, parse_real(text.substr(0, text.size() - kBitsEnding.size()), 0.1f, 32.0f));
  return static_cast<double>(bits);
}

}  // namespace

Result<convert::FileType> parse_file_type(std::string_view text) {
  if (const auto type = convert::file_type_from_name(text)) return *type;
  std::vector<std::string_view> known = {"Q4_K_M", kCopy};
  for (const convert::FileTypeInfo& row : convert::all_file_types()) known.push_back(row.name);
  return unknown_name("a file type", text, known);
}

QuantizeArgs::QuantizeArgs() { n_threads = default_thread_count(); }

void QuantizeArgs::add_mix_to(FlagTable& table) {
  convert::MixOptions& mix = options.mix;
  table.common("--imatrix", "FILE", "importance matrix: the importance of each column of the weights",
               set_string(imatrix_path));
  table.common("--size", "SIZE", "find the best mix of types for a file of this size, e.g. 4.5G, 700M, 4.5bpw",
               [this](std::string_view text) -> Result<> {
                 TESSERA_ASSIGN(size, parse_size(text));
                 return {};
               });
  table.common("--dry-run", "", "print types and sizes, write nothing", set_switch(dry_run));
  table.common("--json", "", "with --dry-run: print JSON", set_switch(json));
  table.common("--pure", "", "use the same type for all weights", set_switch(mix.pure));
  table.common("--tensor-type -tt", "REGEX=TYPE",
               "type of tensors whose name matches; may be repeated, the first match wins",
               [&mix](std::string_view text) -> Result<> {
                 const size_t equals = text.rfind('=');
                 if (equals == std::string_view::npos || equals == 0)
                   return fail(ErrorCode::invalid_argument, "'{}': want REGEX=TYPE, e.g. attn_v=q8_0", text);
                 TESSERA_ASSIGN(const DType type, parse_weight_type(text.substr(equals + 1)));
                 TESSERA_ASSIGN(auto pattern, TensorPattern::compile(text.substr(0, equals)));
                 mix.tensor_types.push_back({std::move(pattern), type});
                 return {};
               });
  table.common("--output-tensor-type", "TYPE", "type of output.weight", set_weight_type(mix.output_type));
  table.common("--token-embedding-type", "TYPE", "type of token_embd.weight", set_weight_type(mix.embedding_type));
  table.common("--leave-output-tensor", "", "keep output.weight as it is", set_switch(mix.keep_output));
}

void QuantizeArgs::add_rare_mix_to(FlagTable& table) {
  table.rare("--include-weights", "NAME", "use importance only for tensors whose name contains NAME; may be repeated",
             add_text(imatrix_filter.include));
  table.rare("--exclude-weights", "NAME", "ignore importance for tensors whose name contains NAME; may be repeated",
             add_text(imatrix_filter.exclude));
  table.rare(
      "--weighting", "KIND", "weighting of errors: error (by importance), magnitude (large weights count more)",
      [this](std::string_view text) -> Result<> {
        if (text != "error" && text != "magnitude")
          return fail(ErrorCode::invalid_argument, "'{}': want error or magnitude", text);
        options.encoder.weighting = text == "error" ? convert::Weighting::error : convert::Weighting::magnitude;
        return {};
      },
      "error");
  table.rare("--compat", "", "choose codes as ggml does, instead of those with the least error",
             [this](std::string_view) -> Result<> {
               options.encoder.kind = convert::EncoderKind::compatible;
               return {};
             });
}

void QuantizeArgs::add_to(FlagTable& table) {
  add_mix_to(table);
  add_rare_mix_to(table);
  table.rare("--keep-split", "", "write one output for each part of a split input", set_switch(options.keep_split));
  table.rare("--allow-requantize", "", "accepted for compatibility: quantized input is always allowed, with a warning",
             [](std::string_view) -> Result<> { return {}; });
  add_threads_flag(table, n_threads);
  add_numa_flag(table, numa);
  table.positional = "IN.gguf OUT.gguf TYPE [THREADS]";
  table.add_positional = [this](std::string_view text) -> Result<> {
    words_.emplace_back(text);
    return {};
  };
}

Result<> QuantizeArgs::check() {
  TESSERA_TRY(take_words());
  return check_mix();
}

Result<> QuantizeArgs::check_mix() {
  if (json && !dry_run) return fail(ErrorCode::invalid_argument, "--json requires --dry-run");
  if (!imatrix_filter.include.empty() && !imatrix_filter.exclude.empty())
    return fail(ErrorCode::invalid_argument, "--include-weights and --exclude-weights: give one of them");
  if (imatrix_path.empty() && !(imatrix_filter.include.empty() && imatrix_filter.exclude.empty()))
    return fail(ErrorCode::invalid_argument, "--include-weights and --exclude-weights require --imatrix");
  if (size && (options.mix.pure || options.mix.copy_all))
    return fail(ErrorCode::invalid_argument,
                "--size chooses a type for each tensor: it cannot be combined with --pure and COPY");
  options.mix.has_imatrix = !imatrix_path.empty();
  options.imatrix_path = imatrix_path;
  if (file_type) options.mix.file_type = *file_type;
  return {};
}

Result<> QuantizeArgs::take_words() {
  constexpr std::string_view kWanted = "want IN.gguf OUT.gguf TYPE [THREADS]";
  const std::span<const std::string> words(words_);
  if (words.empty()) return fail(ErrorCode::invalid_argument, "no model: {}", kWanted);
  input = words[0];
  size_t i = 1;
  const auto names_type = [](const std::string& word) { return is_copy(word) || convert::file_type_from_name(word); };
  const bool has_output = !dry_run || (i < words.size() && !names_type(words[i]));
  if (has_output && i == words.size() && !dry_run) return fail(ErrorCode::invalid_argument, "no output: {}", kWanted);
  if (has_output && i < words.size()) output = words[i++];
  // With --size, the type is optional and only names the mix. A last number is the number of threads.
  const bool has_type = i < words.size() && !(size && i + 1 == words.size() && is_digits(words[i]));
  if (!has_type && !size) return fail(ErrorCode::invalid_argument, "no type: {}", kWanted);
  if (has_type && is_copy(words[i])) {
    options.mix.copy_all = true;
    ++i;
  } else if (has_type) {
    TESSERA_ASSIGN(file_type, parse_file_type(words[i++]));
  }
  if (i < words.size()) {
    auto threads = parse_integer(words[i], 1, ThreadPool::kMaxThreads);
    if (!threads) return forward_error(threads, "THREADS");
    n_threads = static_cast<int32_t>(*threads);
    ++i;
  }
  if (i < words.size()) return fail(ErrorCode::invalid_argument, "unexpected argument '{}': {}", words[i], kWanted);
  return {};
}

}  // namespace tessera::cli
