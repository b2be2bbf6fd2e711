#include "tessera/backend/plugin.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <map>

#include "tessera/backend/plugin_device.h"
#include "tessera/backend/plugin_library.h"
#include "tessera/base/folder.h"

namespace tessera {

namespace {

namespace fs = std::filesystem;

bool is_plugin_name(std::string_view name) { return name.starts_with("libtessera-backend-") && name.ends_with(".so"); }

class PluginFinder {
 public:
  explicit PluginFinder(const PluginSearch& search) : search_(search) {}

  FoundDevices find() {
    for (const std::string& path : search_.paths) add_named(path);
    for (const std::string& folder : search_.folders) add_folder(folder);
    for (const auto& [name, library] : best_) open_devices(library);
    return {std::move(devices_), std::move(notes_)};
  }

 private:
  void note(const std::string& path, std::string_view why) {
    notes_.push_back(fmt::format("plugin {}: {}", path, why));
  }

  void add_named(const std::string& path) {
    std::error_code error;
    if (fs::is_directory(path, error))
      add_folder(path);
    else
      add_file(path);
  }

  void add_folder(const std::string& folder) {
    auto names = names_in_folder(folder, SIZE_MAX);
    if (!names && names.error().code() != ErrorCode::not_found)
      note(folder, without_path(names.error().message(), folder));
    if (!names) return;
    std::ranges::sort(*names);
    for (const std::string& name : *names)
      if (is_plugin_name(name)) add_file((fs::path(folder) / name).string());
  }

  void add_file(const std::string& path) {
    std::error_code error;
    const std::string real = fs::canonical(path, error).string();
    if (!error && std::ranges::find(seen_, real) != seen_.end()) return;
    seen_.push_back(real);
    auto opened = PluginLibrary::open(path);
    if (!opened) return note(path, without_path(opened.error().message(), path));
    std::shared_ptr<PluginLibrary> library = std::move(*opened);
    if (std::ranges::find(search_.reserved, library->name()) != search_.reserved.end())
      return note(path, fmt::format("not used: {} is the name of a backend of the program's own", library->name()));
    if (library->score() <= 0) return note(path, "not used: it cannot run on this machine");
    auto& best = best_[library->name()];
    if (best != nullptr && best->score() >= library->score()) return note_worse(*library, *best);
    if (best != nullptr) note_worse(*best, *library);
    best = std::move(library);
  }

  void note_worse(const PluginLibrary& worse, const PluginLibrary& better) {
    note(worse.path(), fmt::format("not used: its score is {}, that of {} is {}{}", worse.score(), better.path(),
                                   better.score(), worse.score() == better.score() ? " and it was found first" : ""));
  }

  static std::string without_path(const std::string& message, const std::string& path) {
    return message.starts_with(path + ": ") ? message.substr(path.size() + 2) : message;
  }

  void open_devices(const std::shared_ptr<PluginLibrary>& library) {
    library->keep();
    const uint32_t n = guarded(uint32_t{0}, [&] { return library->table().device_count(); });
    if (n > kMaxPluginDevices)
      return note(library->path(), fmt::format("not used: it has {} devices, the limit is {}", n, kMaxPluginDevices));
    for (uint32_t index = 0; index < n; ++index) {
      auto device = open_plugin_device(library, index);
      if (device)
        devices_.push_back(std::move(*device));
      else
        note(library->path(), device.error().message());
    }
    if (n == 0) note(library->path(), "not used: it finds no device");
  }

  const PluginSearch& search_;
  std::vector<std::string> seen_;
  std::map<std::string, std::shared_ptr<PluginLibrary>> best_;  // by name
  std::vector<std::unique_ptr<Device>> devices_;
  std::vector<std::string> notes_;
};

}  // namespace

FoundDevices find_plugins(const PluginSearch& search) { return PluginFinder(search).find(); }

}  // namespace tessera
