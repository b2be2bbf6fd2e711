#include "tessera/server/api/ollama_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <mutex>
#include <nlohmann/json.hpp>
#include <utility>

#include "tessera/gguf/split.h"
#include "tessera/server/api/blob_upload.h"
#include "tessera/server/api/ollama_fields.h"
#include "tessera/server/api/ollama_format.h"
#include "tessera/server/api/ollama_models.h"
#include "tessera/server/api/route_adder.h"
#include "tessera/server/json/field_reader.h"
#include "tessera/server/json/writer.h"
#include "tessera/server/storage/directory.h"
#include "tessera/text/utf8.h"

namespace tessera::server {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kBlobs = "blobs";
constexpr std::string_view kDigestPrefix = "sha256:";
constexpr size_t kDigestDigits = 64;

FieldError not_supported(std::string message) {
  return {.status = 501, .type = "not_supported_error", .message = std::move(message)};
}

std::unexpected<FieldError> io_error(const Error& error) { return std::unexpected(field_error_of(error, {})); }

std::string_view without_latest(std::string_view name) {
  constexpr std::string_view kLatest = ":latest";
  return name.ends_with(kLatest) ? name.substr(0, name.size() - kLatest.size()) : name;
}

// "sha256:HEX" as the name of a file: "blobs/sha256-HEX".
FieldResult<std::string> blob_file(std::string_view digest) {
  const std::string_view digits = digest.starts_with(kDigestPrefix) ? digest.substr(kDigestPrefix.size()) : "";
  const auto is_digit = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); };
  if (digits.size() == kDigestDigits && std::ranges::all_of(digits, is_digit))
    return fmt::format("{}/sha256-{}", kBlobs, digits);
  return std::unexpected(FieldError{.message = fmt::format("digest {}: want sha256: and {} hexadecimal digits",
                                                           text::quote_text(digest), kDigestDigits)});
}

// Handles the requests that change names. They take turns, so one request at a time changes the directory.
class NameWriter {
 public:
  explicit NameWriter(ApiContext& context) : context_(context) {}

  FieldResult<> copy(const FieldReader& reader, Exchange& exchange);
  FieldResult<> create(const FieldReader& reader, Exchange& exchange);
  FieldResult<> erase(const FieldReader& reader, Exchange& exchange);
  std::expected<std::shared_ptr<BodySink>, BodyError> open_blob(const HttpRequest& request,
                                                                std::function<void()> resume) const;
  FieldResult<> find_blob(Exchange& exchange);

 private:
  const std::string& path() const { return context_.options().named_models; }
  FieldResult<Directory> open() const;
  FieldResult<ModelView> find(std::string_view name) const;
  FieldResult<NamedModel> named_of(const ModelView& view) const;
  FieldResult<std::string> new_name(std::string_view given, std::string_view field) const;
  FieldResult<> write(const std::string& name, const NamedModel& model) const;
  FieldResult<> erase_file(const Directory& directory, const std::string& file) const;
  FieldResult<> erase_own_name(const Directory& directory, const ModelView& view, const NamedModel& model) const;
  FieldResult<> erase_if_unnamed(const Directory& directory, const std::string& file) const;
  FieldResult<> reload() const;
  FieldResult<NamedModel> read_source(const FieldReader& reader) const;
  FieldResult<std::string> existing_blob(const FieldReader& files, std::string_view name) const;
  FieldResult<> read_settings(const FieldReader& reader, NamedModel& model) const;

  ApiContext& context_;
  std::mutex mutex_;
};

FieldResult<Directory> NameWriter::open() const {
  auto directory = Directory::open(path());
  if (!directory) return io_error(directory.error());
  return std::move(*directory);
}

FieldResult<ModelView> NameWriter::find(std::string_view name) const {
  const std::vector<ModelView> views = context_.models().views();
  const std::string_view wanted = without_latest(name);
  auto found = std::ranges::find_if(views, [&](const ModelView& view) { return view.entry.name == wanted; });
  if (found == views.end())
    found = std::ranges::find_if(views, [&](const ModelView& view) { return is_name_of(view.entry, wanted); });
  if (found == views.end()) return std::unexpected(model_not_found(name));
  return *found;
}

// A model's own name has no file, and no settings.
FieldResult<NamedModel> NameWriter::named_of(const ModelView& view) const {
  if (view.entry.named) return *view.entry.named;
  const fs::path file = fs::path(view.entry.path).lexically_relative(path());
  if (file.empty() || *file.begin() == "..")
    return std::unexpected(
        FieldError{.message = fmt::format("model '{}' is not in the directory of models", view.entry.name)});
  return NamedModel{.file = file.string()};
}

FieldResult<std::string> NameWriter::new_name(std::string_view given, std::string_view field) const {
  std::string name(without_latest(given));
  if (!is_model_name(name))
    return refuse_field({.name = field}, fmt::format("{}, want {}", text::quote_text(given), kModelNameForm));
  for (const ModelView& view : context_.models().views())
    if (view.entry.name == name && !view.entry.named)
      return refuse_field({.name = field}, fmt::format("'{}' is the name of a file of the server", name));
  return name;
}

FieldResult<> NameWriter::write(const std::string& name, const NamedModel& model) const {
  auto directory = open();
  if (!directory) return forward_error(directory);
  const std::string text = named_model_text(model);
  if (text.size() > kMaxNamedModelBytes)
    return std::unexpected(
        FieldError{.message = fmt::format("{} bytes of settings, want at most {}", text.size(), kMaxNamedModelBytes)});
  const std::array<std::span<const std::byte>, 1> parts = {std::as_bytes(std::span(text))};
  if (auto written = directory->write_file(name + ".json", parts); !written) return io_error(written.error());
  static_cast<void>(context_.models().unload(name));  // one that is loaded has the old settings
  return reload();
}

FieldResult<> NameWriter::reload() const {
  if (auto reloaded = context_.models().reload(); !reloaded) return io_error(reloaded.error());
  return {};
}

// --- copy

FieldResult<> NameWriter::copy(const FieldReader& reader, Exchange& exchange) {
  const auto source = reader.required_text("source"), destination = reader.required_text("destination");
  for (const auto* text : {&source, &destination})
    if (!*text) return std::unexpected(text->error());
  const std::lock_guard lock(mutex_);
  auto view = find(*source);
  if (!view) return forward_error(view);
  auto name = new_name(*destination, "destination");
  if (!name) return forward_error(name);
  auto model = named_of(*view);
  if (!model) return forward_error(model);
  TESSERA_READ(write(*name, *model));
  exchange.answer({});
  return {};
}

// --- create

FieldResult<std::string> NameWriter::existing_blob(const FieldReader& files, std::string_view name) const {
  const auto digest = files.required_text(name);
  if (!digest) return std::unexpected(digest.error());
  auto file = blob_file(*digest);
  if (!file) return file;
  auto directory = open();
  if (!directory) return forward_error(directory);
  if (!directory->info(*file))
    return refuse_field(files.path_of(name), fmt::format("there is no blob {}", text::quote_text(*digest)));
  return file;
}

// The model of `from`, or that of one file in `files`.
FieldResult<NamedModel> NameWriter::read_source(const FieldReader& reader) const {
  const auto from = reader.text("from");
  if (!from) return std::unexpected(from.error());
  if (*from) {
    auto view = find(**from);
    if (!view) return forward_error(view);
    return named_of(*view);
  }
  const Json* files = reader.find("files");
  if (files == nullptr)
    return std::unexpected(FieldError{.message = "Field 'from': missing, want a model, or 'files'", .param = "from"});
  auto of_files = FieldReader::create(*files, "files");
  if (!of_files) return forward_error(of_files);
  for (const auto& [name, digest] : files->items())
    if (!name.ends_with(".gguf"))
      return std::unexpected(not_supported("files other than GGUF (safetensors) are not converted"));
  if (files->size() != 1) return refuse_field({.name = "files"}, fmt::format("{} files, want one", files->size()));
  auto file = existing_blob(*of_files, files->begin().key());
  if (!file) return forward_error(file);
  return NamedModel{.file = std::move(*file)};
}

FieldResult<> NameWriter::read_settings(const FieldReader& reader, NamedModel& model) const {
  const auto system = reader.text("system"), own_template = reader.text("template"), quantize = reader.text("quantize");
  for (const auto* text : {&system, &own_template, &quantize})
    if (!*text) return std::unexpected(text->error());
  if (!quantize->value_or("").empty()) return std::unexpected(not_supported("models are not quantized here"));
  if (!own_template->value_or("").empty()) return refuse_field({.name = "template"}, "templates of Go are not run");
  if (*system) model.system = std::string(**system);
  if (const Json* messages = reader.find("messages"); messages != nullptr) {
    TESSERA_READ(check_ollama_messages(*messages));
    model.messages = messages->empty() ? "" : json_text(*messages);
  }
  if (const Json* parameters = reader.find("parameters"); parameters != nullptr) {
    TESSERA_READ(check_ollama_options(*parameters, "parameters"));
    model.options = json_text(*parameters);
  }
  const auto adapters = reader.object("adapters");
  if (!adapters) return std::unexpected(adapters.error());
  if (!*adapters) return {};
  model.adapters.clear();
  for (const auto& [name, digest] : reader.find("adapters")->items()) {
    if (model.adapters.size() >= kMostNamedAdapters)
      return refuse_field({.name = "adapters"}, fmt::format("more than {}", kMostNamedAdapters));
    auto file = existing_blob(**adapters, name);
    if (!file) return forward_error(file);
    model.adapters.push_back(std::move(*file));
  }
  return {};
}

FieldResult<> NameWriter::create(const FieldReader& reader, Exchange& exchange) {
  const auto given = required_ollama_name(reader);
  if (!given) return std::unexpected(given.error());
  const auto streams = reader.boolean("stream");
  if (!streams) return std::unexpected(streams.error());
  const std::lock_guard lock(mutex_);
  auto name = new_name(*given, "model");
  if (!name) return forward_error(name);
  auto model = read_source(reader);
  if (!model) return forward_error(model);
  TESSERA_READ(read_settings(reader, *model));
  TESSERA_READ(write(*name, *model));
  constexpr std::string_view kSuccess = R"({"status":"success"})";
  if (!streams->value_or(true)) {
    exchange.answer({.body = std::string(kSuccess)});
  } else {
    exchange.answer({.body = fmt::format("{{\"status\":\"writing manifest\"}}\n{}\n", kSuccess),
                     .content_type = std::string(kLinesOfJsonType)});
  }
  return {};
}

// --- delete

FieldResult<> NameWriter::erase_file(const Directory& directory, const std::string& file) const {
  const bool is_blob = file.starts_with(fmt::format("{}/", kBlobs));
  if ((!is_blob && file.contains('/')) || parse_split_path(file))
    return std::unexpected(
        FieldError{.message = fmt::format("{}: a model of several files is removed by hand", text::quote_text(file))});
  if (auto removed = directory.remove_file(file); !removed) return io_error(removed.error());
  return {};
}

// The file goes with its last name. Until then the name of the file is hidden.
FieldResult<> NameWriter::erase_own_name(const Directory& directory, const ModelView& view,
                                         const NamedModel& model) const {
  const std::vector<ModelView> views = context_.models().views();
  const bool has_others = std::ranges::any_of(
      views, [&](const ModelView& one) { return one.entry.named && one.entry.named->file == model.file; });
  if (!has_others) return erase_file(directory, model.file);
  if (!is_model_name(view.entry.name))
    return std::unexpected(
        FieldError{.message = fmt::format("model '{}': other names need its file", view.entry.name)});
  return write(view.entry.name, {.file = model.file, .is_hidden = true});
}

FieldResult<> NameWriter::erase_if_unnamed(const Directory& directory, const std::string& file) const {
  const auto names = read_named_models(path(), kMaxCatalogEntries);
  if (!names) return io_error(names.error());
  bool has_own_name = !file.starts_with(fmt::format("{}/", kBlobs));
  std::string hidden;
  for (const auto& [name, model] : *names) {
    if (model.file != file) continue;
    if (!model.is_hidden) return {};
    has_own_name = false;
    hidden = name;
  }
  if (has_own_name) return {};
  TESSERA_READ(erase_file(directory, file));
  if (hidden.empty()) return {};
  if (auto removed = directory.remove_file(hidden + ".json"); !removed) return io_error(removed.error());
  return {};
}

FieldResult<> NameWriter::erase(const FieldReader& reader, Exchange& exchange) {
  const auto name = required_ollama_name(reader);
  if (!name) return std::unexpected(name.error());
  const std::lock_guard lock(mutex_);
  auto view = find(*name);
  if (!view) return forward_error(view);
  auto model = named_of(*view);
  if (!model) return forward_error(model);
  auto directory = open();
  if (!directory) return forward_error(directory);
  static_cast<void>(context_.models().unload(view->entry.name));  // if it is loaded
  if (view->entry.named) {
    if (auto removed = directory->remove_file(view->entry.name + ".json"); !removed) return io_error(removed.error());
    TESSERA_READ(erase_if_unnamed(*directory, model->file));
  } else {
    TESSERA_READ(erase_own_name(*directory, *view, *model));
  }
  TESSERA_READ(reload());
  exchange.answer({});
  return {};
}

// --- blobs

std::expected<std::shared_ptr<BodySink>, BodyError> NameWriter::open_blob(const HttpRequest& request,
                                                                          std::function<void()> resume) const {
  const std::string& digest = request.path_segments.front();
  const auto file = blob_file(digest);
  if (!file) return std::unexpected(BodyError{file.error().status, file.error().message});
  return std::make_shared<BlobUpload>(*context_.disk_thread(),
                                      BlobTarget{.directory = path(),
                                                 .folder = std::string(kBlobs),
                                                 .file = *file,
                                                 .sha256 = digest.substr(kDigestPrefix.size())},
                                      std::move(resume));
}

FieldResult<> NameWriter::find_blob(Exchange& exchange) {
  auto file = blob_file(exchange.request().path_segments.front());
  if (!file) return forward_error(file);
  auto directory = open();
  if (!directory) return forward_error(directory);
  if (!directory->info(*file))
    return std::unexpected(FieldError{.status = 404, .type = "not_found_error", .message = "there is no such blob"});
  exchange.answer({});
  return {};
}

}  // namespace

void add_ollama_name_routes(Router& router, ApiContext& context) {
  const auto names = std::make_shared<NameWriter>(context);
  RouteAdder routes(router, context);
  using Part = FieldResult<> (NameWriter::*)(const FieldReader&, Exchange&);
  const auto add_with_fields = [&](std::string_view method, std::string_view path, Part part) {
    routes.add_free(method, {path}, [names, part](const auto& exchange) -> FieldResult<> {
      auto reader = FieldReader::parse(exchange->take_body());
      if (!reader) return forward_error(reader);
      return ((*names).*part)(*reader, *exchange);
    });
  };
  add_with_fields("POST", "/api/copy", &NameWriter::copy);
  add_with_fields("POST", "/api/create", &NameWriter::create);
  add_with_fields("DELETE", "/api/delete", &NameWriter::erase);
  router.add({.method = "POST",
              .path = "/api/blobs/{}",
              .handler = finish_blob,
              .open_body = [names](const HttpRequest& request, std::function<void()> resume) {
                return names->open_blob(request, std::move(resume));
              }});
  routes.add_free("HEAD", {"/api/blobs/{}"}, [names](const auto& exchange) { return names->find_blob(*exchange); });
}

}  // namespace tessera::server
