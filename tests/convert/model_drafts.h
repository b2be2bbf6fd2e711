// Models in the making of small checkpoints: the keys and tensors that a class of models makes of a config and of
// numbered elements.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "tessera/convert/checkpoints/model_class.h"
#include "tessera/convert/converted_rows.h"
#include "tessera/convert/source/packings/packings.h"
#include "tessera/gguf/split.h"
#include "tessera/quant/formats.h"
#include "tests/convert/hub_folder.h"
#include "tests/support/testing.h"

namespace tessera::testing {

struct DraftTensor {
  std::string name;
  std::vector<int64_t> shape;
};
using SmallFiles = std::vector<std::pair<std::string, std::string>>;

struct Drafted {
  std::string error{};
  std::string keys{};  // "KEY=VALUE " each
  std::vector<convert::ConvertedTensor> tensors{};
  std::vector<std::vector<float>> values{};  // of the tensors

  const std::vector<float>& of(const std::string& name) const {
    static const std::vector<float> kNone;
    for (size_t i = 0; i < tensors.size(); ++i)
      if (tensors[i].name == name) return values[i];
    return kNone;
  }
};

/// All values of a tensor.
inline std::vector<float> draft_values(const convert::ConvertedRows& rows, const convert::ConvertedTensor& tensor) {
  int64_t n = 1;
  for (const int64_t extent : tensor.shape) n *= extent;
  const auto format = tensor.parts.empty() ? std::nullopt : convert::block_format(tensor.parts[0].view.type);
  const int64_t n_values = format ? n * info(*format).block_elements : n;
  std::vector<float> values(static_cast<size_t>(n_values));
  const GgufTensor row{.name = tensor.name, .dtype = format.value_or(DType::f32), .shape = {n_values}};
  if (!format) {
    rows.read(row, 0, 1, std::as_writable_bytes(std::span(values)));
    return values;
  }
  std::vector<std::byte> blocks(static_cast<size_t>(n) * info(*format).block_bytes);
  rows.read(row, 0, 1, blocks);
  quant::find_format(*format)->dequantize_row(blocks.data(), n_values, values.data());
  return values;
}

/// The draft of a folder's model.
inline Drafted draft_folder(const std::string& path) {
  convert::Checkpoint checkpoint = convert::Checkpoint::open(path).value();
  const convert::HubConfig config = convert::HubConfig::read(checkpoint).value();
  const auto model_class = convert::find_model_class(config);
  if (!model_class) return {.error = model_class.error().message()};
  if (const Result<> unpacked = convert::unpack_tensors(checkpoint, config); !unpacked)
    return {.error = unpacked.error().message()};
  Drafted result;
  GgufBuilder builder;
  convert::ModelDraft made{checkpoint, config, (*model_class)->architecture, builder, result.tensors};
  if (const Result<> drafted = convert::draft_model(**model_class, checkpoint.tensors(), made); !drafted)
    return {.error = drafted.error().message()};
  const auto header = builder.header().value();
  const auto model = ModelFiles::parse_header(header, "draft").value();
  for (const Metadata::Entry& entry : model->metadata().entries())
    result.keys += std::string(entry.key) + "=" + to_string(entry.value) + " ";
  const convert::ConvertedRows rows(checkpoint, result.tensors);
  for (const convert::ConvertedTensor& tensor : result.tensors) result.values.push_back(draft_values(rows, tensor));
  return result;
}

// Elements are numbered from 0 on, through all tensors. members: of config.json, after the class.
inline Drafted draft(const std::string& name, const std::string& members, const std::vector<DraftTensor>& tensors,
                     const SmallFiles& files = {}) {
  HubFolder folder{.config = R"({"architectures": [")" + name + "\"]" + (members.empty() ? "" : ", ") + members + "}"};
  float next = 0;
  for (const DraftTensor& tensor : tensors) {
    folder.add(tensor.name, tensor.shape, "F32");
    std::vector<float> values(folder.tensors.back().bytes.size() / 4);
    for (float& value : values) value = next++;
    folder.tensors.back().bytes = hub_bytes(values, "F32");
  }
  const std::filesystem::path path = folder.write("draft");
  for (const auto& [file, text] : files) {
    std::filesystem::create_directories((path / file).parent_path());
    std::ofstream(path / file) << text;
  }
  return draft_folder(path.string());
}

inline void expect_in(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << text << "\nwant " << part;
}
inline void expect_not_in(const std::string& text, const std::string& part) {
  EXPECT_EQ(text.find(part), std::string::npos) << text << "\nwant no " << part;
}

using Floats = std::vector<float>;

}  // namespace tessera::testing
