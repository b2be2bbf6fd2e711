#include "tessera/cli/checkpoint_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <vector>

#include "tessera/base/counted.h"
#include "tessera/base/index.h"
#include "tessera/convert/source/to_floats.h"
#include "tessera/gguf/printable.h"
#include "tessera/json/json.h"

namespace tessera::cli {

namespace {

using convert::Checkpoint;
using convert::CheckpointTensor;

constexpr size_t kMaxValueBytes = 120;    // of a member of config.json in a table
constexpr int64_t kDumpValues = 1 << 16;  // read at a time; whole blocks of any type

struct FormatShare {
  uint64_t n_tensors = 0, n_bytes = 0;
};

struct CheckpointSummary {
  uint64_t n_parameters = 0, n_bytes = 0;
  std::map<convert::ElementType, FormatShare> formats;
};

uint64_t bytes_of(const CheckpointTensor& tensor) {
  return static_cast<uint64_t>(tensor.tensor.n_elements()) * convert::element_bytes(tensor.tensor.type);
}

// In values, also where elements are blocks of them.
std::vector<int64_t> shape_of(const convert::StoredTensor& tensor) {
  std::vector<int64_t> shape = tensor.shape;
  if (!shape.empty()) shape.back() *= convert::element_values(tensor.type);
  return shape;
}

CheckpointSummary summary_of(const Checkpoint& checkpoint) {
  CheckpointSummary summary;
  for (const CheckpointTensor& tensor : checkpoint.tensors()) {
    FormatShare& share = summary.formats[tensor.tensor.type];
    ++share.n_tensors;
    share.n_bytes += bytes_of(tensor);
    summary.n_bytes += bytes_of(tensor);
    summary.n_parameters += static_cast<uint64_t>(tensor.tensor.n_values());
  }
  return summary;
}

// The class in config.json, or "".
std::string architecture_of(const Json* config) {
  if (!config || !config->is_object()) return "";
  const auto classes = config->find("architectures");
  if (classes == config->end() || !classes->is_array() || classes->empty() || !classes->front().is_string()) return "";
  return classes->front().get<std::string>();
}

/// A file that says what the tensors of a folder are.
struct Config {
  const char* file;
  JsonTree json;
};

// The config of a model, or the settings of an adapter.
Result<Config> config_of(const Checkpoint& checkpoint) {
  TESSERA_ASSIGN(JsonTree model, checkpoint.config());
  if (model) return Config{"config.json", std::move(model)};
  TESSERA_ASSIGN(JsonTree adapter, checkpoint.read_json_file(convert::kAdapterConfigFile));
  return Config{convert::kAdapterConfigFile, std::move(adapter)};
}

// In ASCII, so that it is safe to print.
std::string value_of(const Json& value) {
  constexpr bool kInAscii = true;
  std::string text = value.dump(-1, ' ', kInAscii, Json::error_handler_t::replace);
  if (text.size() > kMaxValueBytes) text = text.substr(0, kMaxValueBytes) + "...";
  return text;
}

std::string summary_table(const Checkpoint& checkpoint, const Json* config) {
  const CheckpointSummary summary = summary_of(checkpoint);
  std::vector<std::vector<std::string>> rows;
  for (const std::string& path : checkpoint.paths()) rows.push_back({"file", printable(path, 4096)});
  if (const std::string name = architecture_of(config); !name.empty())
    rows.push_back({"architecture", printable(name)});
  rows.push_back({"parameters", fmt::format("{} ({:.2f} million)", summary.n_parameters,
                                            static_cast<double>(summary.n_parameters) / 1e6)});
  rows.push_back(
      {"size", fmt::format("{} bytes ({})", summary.n_bytes, human_bytes(static_cast<double>(summary.n_bytes)))});
  for (const auto& [type, share] : summary.formats)
    rows.push_back({"format", fmt::format("{}: {}, {}", convert::element_name(type), counted(share.n_tensors, "tensor"),
                                          human_bytes(static_cast<double>(share.n_bytes)))});
  return format_table(rows, "ll");
}

std::string config_table(const Json* config) {
  std::vector<std::vector<std::string>> rows;
  if (config && config->is_object())
    for (const auto& [name, value] : config->items())
      rows.push_back({printable(name), value.type_name(), value_of(value)});
  return format_table(rows, "lll");
}

std::string tensor_table(const Checkpoint& checkpoint) {
  const bool has_files = checkpoint.paths().size() > 1;
  std::vector<std::vector<std::string>> rows;
  for (const CheckpointTensor& tensor : checkpoint.tensors()) {
    rows.push_back({printable(tensor.tensor.name), std::string(convert::element_name(tensor.tensor.type)),
                    fmt::format("[{}]", fmt::join(shape_of(tensor.tensor), ", ")), std::to_string(bytes_of(tensor))});
    if (has_files) rows.back().push_back(fmt::format("file {}", tensor.file + 1));
  }
  return format_table(rows, "lllrl");
}

}  // namespace

Result<> print_checkpoint(const Checkpoint& checkpoint, const CheckpointParts& parts, Output& out) {
  TESSERA_ASSIGN(const Config config, config_of(checkpoint));
  if (parts.summary) TESSERA_TRY(out.append(summary_table(checkpoint, config.json.get())));
  if (parts.config && config.json) {
    if (parts.summary) TESSERA_TRY(out.append(fmt::format("\n{}\n", config.file)));
    TESSERA_TRY(out.append(config_table(config.json.get())));
  }
  if (!parts.tensors) return {};
  if (parts.summary) TESSERA_TRY(out.append("\ntensors\n"));
  return out.append(tensor_table(checkpoint));
}

Result<> print_checkpoint_json(const Checkpoint& checkpoint, const CheckpointParts& parts, Output& out) {
  TESSERA_ASSIGN(Config config, config_of(checkpoint));
  Json report = Json::object();
  if (parts.summary) {
    const CheckpointSummary summary = summary_of(checkpoint);
    report["files"] = checkpoint.paths();
    report["architecture"] = architecture_of(config.json.get());
    report["n_parameters"] = summary.n_parameters;
    report["n_bytes"] = summary.n_bytes;
    for (const auto& [type, share] : summary.formats)
      report["formats"][std::string(convert::element_name(type))] = {{"n_tensors", share.n_tensors},
                                                                     {"n_bytes", share.n_bytes}};
  }
  if (parts.config) report["config"] = config.json ? std::move(*config.json) : Json(nullptr);
  if (parts.tensors) {
    Json& tensors = report["tensors"] = Json::array();
    for (const CheckpointTensor& tensor : checkpoint.tensors())
      tensors.push_back({{"name", tensor.tensor.name},
                         {"type", convert::element_name(tensor.tensor.type)},
                         {"shape", shape_of(tensor.tensor)},
                         {"n_bytes", bytes_of(tensor)},
                         {"file", tensor.file},
                         {"offset", tensor.tensor.offset}});
  }
  return out.append(report.dump(1, ' ', false, Json::error_handler_t::replace) + "\n");
}

Result<> dump_checkpoint_tensor(const Checkpoint& checkpoint, const std::string& name, bool is_raw,
                                const CancelToken& cancel, Output& out) {
  const CheckpointTensor* found = checkpoint.find(name);
  if (found == nullptr)
    return fail(ErrorCode::not_found, "{}: no tensor {} (--tensors lists them)", checkpoint.folder(), quote_name(name));
  const convert::StoredTensor& tensor = found->tensor;
  const int64_t n_values = tensor.n_values(), n_row = tensor.shape.empty() ? 1 : shape_of(tensor).back();
  const int64_t n_element = convert::element_values(tensor.type);
  std::vector<std::byte> bytes;
  std::vector<float> values;
  for (int64_t first = 0; first < n_values; first += kDumpValues) {
    if (cancel.cancelled()) return fail(ErrorCode::cancelled, "interrupted");
    values.resize(to_size(std::min(kDumpValues, n_values - first)));
    bytes.resize(values.size() / to_size(n_element) * convert::element_bytes(tensor.type));
    checkpoint.read(*found, first / n_element, bytes);
    convert::to_floats(tensor.type, bytes, values);
    if (is_raw) {
      TESSERA_TRY(out.append({reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)}));
      continue;
    }
    for (size_t i = 0; i < values.size(); ++i) {
      const bool ends_row = (first + static_cast<int64_t>(i) + 1) % n_row == 0;
      TESSERA_TRY(out.append(fmt::format("{}{}", values[i], ends_row ? '\n' : ' ')));
    }
  }
  return {};
}

}  // namespace tessera::cli
