// tessera inspect: prints the contents of a GGUF file, of all parts of a split one, or of a checkpoint. Every text of
// the file is made printable first.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tessera/cli/checkpoint_report.h"
#include "tessera/cli/console.h"
#include "tessera/cli/model_args.h"
#include "tessera/cli/model_facts.h"
#include "tessera/engine/metadata_json.h"
#include "tessera/engine/tensor_values.h"
#include "tessera/gguf/keys.h"
#include "tessera/gguf/printable.h"
#include "tessera/text/json_quoted.h"

namespace tessera::cli {

namespace {

uint64_t count_file_bytes(const ModelFiles& files) {
  uint64_t n = 0;
  for (const auto& file : files.files()) n += file->bytes().size();
  return n;
}

// Returns a key's text, or "". A value of another type appears only in the list of keys.
std::string_view text_of(const ModelFiles& files, std::string_view key) {
  return files.metadata().get<std::string_view>(key).value_or("");
}

std::string type_name(const GgufValue& value) {
  if (!value.is_array()) return std::string(to_string(value.type()));
  return fmt::format("{}[{}]", to_string(value.element_type()), value.size());
}

class InspectCommand final : public Command {
 public:
  FlagTable flags() override {
    FlagTable table;
    add_model_flag(table, path_);
    table.common("--json", "", "print JSON, with all elements of arrays", set_switch(json_));
    table.common("--keys", "", "print only the keys; of a checkpoint, its config.json", set_switch(keys_));
    table.common("--tensors", "", "print only the tensors", set_switch(tensors_));
    table.common("--dump", "TENSOR", "print the values of a tensor, one row per line", set_string(dump_));
    table.common("--raw", "", "with --dump: write little-endian 32-bit floats", set_switch(raw_));
    table.positional = "[FILE|DIR]";
    table.add_positional = [this, is_first = true](std::string_view text) mutable -> Result<> {
      if (!is_first) return fail(ErrorCode::invalid_argument, "unexpected argument '{}': one file at a time", text);
      is_first = false;
      path_ = text;
      return {};
    };
    return table;
  }

  Result<> check() override {
    TESSERA_TRY(require_model(path_));
    if (raw_ && dump_.empty()) return fail(ErrorCode::invalid_argument, "--raw: give a tensor with --dump TENSOR");
    if (!dump_.empty() && (json_ || keys_ || tensors_))
      return fail(ErrorCode::invalid_argument,
                  "--dump prints only values: it cannot be combined with --json, --keys and --tensors");
    return {};
  }

  Result<> run(Context& process) override {
    if (convert::is_checkpoint(path_)) return run_on_checkpoint(process);
    TESSERA_ASSIGN(const auto files, ModelFiles::open(path_));
    Output out;
    TESSERA_TRY(!dump_.empty() ? dump(*files, out, process)
                : json_        ? print_json(*files, out)
                               : print_plain(*files, out));
    return out.finish();
  }

 private:
  Result<> run_on_checkpoint(const Context& process) const {
    TESSERA_ASSIGN(const auto checkpoint, convert::Checkpoint::open(path_));
    const CheckpointParts parts{.summary = wants_summary(), .config = wants(keys_), .tensors = wants(tensors_)};
    Output out;
    TESSERA_TRY(!dump_.empty() ? dump_checkpoint_tensor(checkpoint, dump_, raw_, process.interrupt, out)
                : json_        ? print_checkpoint_json(checkpoint, parts, out)
                               : print_checkpoint(checkpoint, parts, out));
    return out.finish();
  }

  bool wants(bool asked_for) const { return asked_for || keys_ == tensors_; }
  bool wants_summary() const { return !keys_ && !tensors_; }

  Result<> dump(const ModelFiles& files, Output& out, const Context& process) const {
    const ModelFiles::Tensor* tensor = files.find_tensor(dump_);
    if (tensor == nullptr)
      return fail(ErrorCode::not_found, "{}: no tensor {} (--tensors lists them)", files.name(), quote_name(dump_));
    const int64_t n_row = tensor->info.shape[0];
    int64_t column = 0;
    return read_values(files, *tensor, [&](std::span<const float> values) -> Result<> {
      if (process.interrupt.cancelled()) return fail(ErrorCode::cancelled, "interrupted");
      if (raw_) return out.append({reinterpret_cast<const char*>(values.data()), values.size_bytes()});
      for (const float value : values) {
        column = (column + 1) % n_row;
        TESSERA_TRY(out.append(fmt::format("{}{}", value, column == 0 ? '\n' : ' ')));
      }
      return {};
    });
  }

  Result<> print_plain(const ModelFiles& files, Output& out) const {
    if (wants_summary()) TESSERA_TRY(out.append(summary(files) + "\nkeys\n"));
    if (wants(keys_)) {
      std::vector<std::vector<std::string>> rows;
      for (const Metadata::Entry& entry : files.metadata().entries())
        rows.push_back({std::string(entry.key), type_name(entry.value), to_string(entry.value)});
      TESSERA_TRY(out.append(format_table(rows, "lll")));
    }
    if (wants_summary()) TESSERA_TRY(out.append("\ntensors\n"));
    if (wants(tensors_)) {
      std::vector<std::vector<std::string>> rows;
      for (const ModelFiles::Tensor& tensor : files.tensors()) {
        rows.push_back({printable(tensor.info.name), std::string(info(tensor.info.dtype).name),
                        to_string(tensor.info.shape), std::to_string(tensor.info.n_bytes)});
        if (files.files().size() > 1) rows.back().push_back(fmt::format("part {}", tensor.file + 1));
      }
      TESSERA_TRY(out.append(format_table(rows, "lllrl")));
    }
    return {};
  }

  static std::string summary(const ModelFiles& files) {
    const GgufFile& first = *files.files().front();
    const uint64_t n_parameters = count_parameters(files), n_bytes = count_file_bytes(files);
    std::vector<std::vector<std::string>> rows;
    for (const auto& file : files.files()) rows.push_back({"file", printable(file->name(), 4096)});
    rows.push_back({"version", fmt::format("{}, alignment {}", first.version(), first.alignment())});
    rows.push_back({"architecture", printable(text_of(files, keys::kArchitecture))});
    rows.push_back({"name", printable(text_of(files, keys::kName))});
    rows.push_back(
        {"parameters", fmt::format("{} ({:.2f} million)", n_parameters, static_cast<double>(n_parameters) / 1e6)});
    rows.push_back({"size", fmt::format("{} bytes ({})", n_bytes, human_bytes(static_cast<double>(n_bytes)))});
    for (const auto& [dtype, share] : shares_of_formats(files))
      rows.push_back({"format", fmt::format("{}: {} tensors, {}", info(dtype).name, share.n_tensors,
                                            human_bytes(static_cast<double>(share.n_bytes)))});
    return format_table(rows, "ll");
  }

  Result<> print_json(const ModelFiles& files, Output& out) const {
    const auto append = [&](std::string_view text) { return out.append(text); };
    TESSERA_TRY(out.append("{"));
    if (wants_summary()) TESSERA_TRY(out.append(json_summary(files)));
    if (wants(keys_)) {
      TESSERA_TRY(out.append("\"keys\": {"));
      std::string_view separator = "\n";
      for (const Metadata::Entry& entry : files.metadata().entries()) {
        TESSERA_TRY(out.append(fmt::format("{}  {}: {{\"type\": \"{}\", \"value\": ", separator,
                                           text::json_quoted(entry.key), to_string(entry.value.type()))));
        TESSERA_TRY(write_json(entry.value, append));
        TESSERA_TRY(out.append("}"));
        separator = ",\n";
      }
      TESSERA_TRY(out.append(wants(tensors_) ? "\n},\n" : "\n}"));
    }
    if (wants(tensors_)) {
      TESSERA_TRY(out.append("\"tensors\": ["));
      std::string_view separator = "\n";
      for (const ModelFiles::Tensor& tensor : files.tensors()) {
        TESSERA_TRY(out.append(fmt::format(
            "{}  {{\"name\": {}, \"type\": \"{}\", \"shape\": {}, \"n_bytes\": {}, \"part\": {}, \"offset\": {}}}",
            separator, text::json_quoted(tensor.info.name), info(tensor.info.dtype).name, to_string(tensor.info.shape),
            tensor.info.n_bytes, tensor.file, tensor.info.file_offset)));
        separator = ",\n";
      }
      TESSERA_TRY(out.append("\n]"));
    }
    return out.append("}\n");
  }

  static std::string json_summary(const ModelFiles& files) {
    std::vector<std::string> names, formats;
    for (const auto& file : files.files()) names.push_back(text::json_quoted(file->name()));
    for (const auto& [dtype, share] : shares_of_formats(files))
      formats.push_back(fmt::format("\"{}\": {{\"n_tensors\": {}, \"n_bytes\": {}}}", info(dtype).name, share.n_tensors,
                                    share.n_bytes));
    const GgufFile& first = *files.files().front();
    return fmt::format(
        "\n\"files\": [{}],\n\"version\": {},\n\"alignment\": {},\n\"architecture\": {},\n\"name\": "
        "{},\n\"n_parameters\": {},\n"
        "\"n_bytes\": {},\n\"formats\": {{{}}},\n",
        fmt::join(names, ", "), first.version(), first.alignment(),
        text::json_quoted(text_of(files, keys::kArchitecture)), text::json_quoted(text_of(files, keys::kName)),
        count_parameters(files), count_file_bytes(files), fmt::join(formats, ", "));
  }

  std::string path_, dump_;
  bool json_ = false;
  bool keys_ = false;
  bool tensors_ = false;
  bool raw_ = false;
};

}  // namespace

std::unique_ptr<Command> create_inspect_command() { return std::make_unique<InspectCommand>(); }

}  // namespace tessera::cli
