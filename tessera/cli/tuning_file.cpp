#include "tessera/cli/tuning_file.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "tessera/base/file.h"
#include "tessera/cli/state_file.h"
#include "tessera/json/reader.h"

namespace tessera::cli {

namespace {

constexpr uint64_t kMaxBytes = uint64_t{1} << 20;
constexpr size_t kMaxTunings = 1000;

Json to_json(const Tuning& tuning) {
  Json kinds = Json::array();
  for (const DraftKind kind : tuning.kinds) kinds.push_back(name_of(kind));
  return {{"threads", tuning.n_threads},    {"cpu_strict", tuning.has_cpu_each}, {"numa", tuning.is_distributed},
          {"ubatch_size", tuning.n_ubatch}, {"spec_type", std::move(kinds)},     {"date", tuning.date}};
}

template <class T>
Result<T> member(const Json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end()) return fail(ErrorCode::format, "no {}", key);
  bool is_right = false;
  if constexpr (std::is_same_v<T, bool>)
    is_right = found->is_boolean();
  else if constexpr (std::is_same_v<T, std::string>)
    is_right = found->is_string();
  else
    is_right = found->is_number_integer();
  if (!is_right) return fail(ErrorCode::format, "{} is of another type", key);
  return found->template get<T>();
}

Result<int64_t> number(const Json& object, const char* key, int64_t most) {
  TESSERA_ASSIGN(const auto value, member<int64_t>(object, key));
  if (value < 1 || value > most) return fail(ErrorCode::format, "{} is {}, not 1 to {}", key, value, most);
  return value;
}

Result<Tuning> to_tuning(const Json& object) {
  Tuning tuning;
  TESSERA_ASSIGN(const int64_t n_threads, number(object, "threads", ThreadPool::kMaxThreads));
  tuning.n_threads = static_cast<int32_t>(n_threads);
  TESSERA_ASSIGN(tuning.has_cpu_each, member<bool>(object, "cpu_strict"));
  TESSERA_ASSIGN(tuning.is_distributed, member<bool>(object, "numa"));
  TESSERA_ASSIGN(tuning.n_ubatch, number(object, "ubatch_size", kMaxUbatch));
  TESSERA_ASSIGN(tuning.date, member<std::string>(object, "date"));
  const auto kinds = object.find("spec_type");
  if (kinds == object.end() || !kinds->is_array()) return fail(ErrorCode::format, "no list spec_type");
  for (const Json& name : *kinds) {
    const auto kind = name.is_string() ? draft_kind_from_name(name.get_ref<const std::string&>()) : std::nullopt;
    if (!kind || *kind == DraftKind::model) return fail(ErrorCode::format, "spec_type has an unknown kind");
    tuning.kinds.push_back(*kind);
  }
  return tuning;
}

}  // namespace

std::string TuningFile::default_path() { return state_file_path("tuning.json"); }

Result<TuningFile> TuningFile::read(const std::string& path) {
  TuningFile file;
  auto text = read_file(path, kMaxBytes);
  if (!text && text.error().code() == ErrorCode::not_found) return file;
  if (!text) return forward_error(text);
  auto json = read_json(*text);
  if (!json) return forward_error(json, path);
  const auto list = json->is_object() ? json->find("tunings") : json->end();
  if (list == json->end() || !list->is_array()) return fail(ErrorCode::format, "{}: no list tunings", path);
  if (list->size() > kMaxTunings) return fail(ErrorCode::limit, "{}: more than {} tunings", path, kMaxTunings);
  for (const Json& entry : *list) {
    const std::string place = fmt::format("{}: tuning {}", path, file.tunings_.size());
    if (!entry.is_object()) return fail(ErrorCode::format, "{} is not an object", place);
    auto machine = member<std::string>(entry, "machine"), model = member<std::string>(entry, "model");
    if (!machine) return forward_error(machine, place);
    if (!model) return forward_error(model, place);
    auto tuning = to_tuning(entry);
    if (!tuning) return forward_error(tuning, place);
    file.tunings_.insert_or_assign({*std::move(machine), *std::move(model)}, *std::move(tuning));
  }
  return file;
}

const Tuning* TuningFile::find(std::string_view machine, std::string_view model) const {
  const auto found = tunings_.find(Key(machine, model));
  return found == tunings_.end() ? nullptr : &found->second;
}

Result<> TuningFile::write(const std::string& path) const {
  Json list = Json::array();
  for (const auto& [key, tuning] : tunings_) {
    Json entry{{"machine", key.first}, {"model", key.second}};
    entry.update(to_json(tuning));
    list.push_back(std::move(entry));
  }
  const std::string text = Json{{"tunings", std::move(list)}}.dump(2) + "\n";
  TESSERA_ASSIGN(AtomicFile file, AtomicFile::create(path));
  TESSERA_TRY(file.write(std::as_bytes(std::span(text))));
  return file.commit();
}

Result<hub::FileLock> TuningFile::lock(const std::string& path, const CancelToken& cancel) {
  const auto clock = hub::create_system_clock();
  return hub::FileLock::acquire(path + ".lock", *clock, cancel, {});
}

Result<> TuningFile::require_usable(const std::string& path, const CancelToken& cancel) {
  TESSERA_TRY(lock(path, cancel));
  TESSERA_TRY(read(path));
  return {};
}

Result<> TuningFile::keep(const std::string& path, std::string_view machine, std::string_view model,
                          const Tuning& tuning, const CancelToken& cancel) {
  TESSERA_ASSIGN(const hub::FileLock locked, lock(path, cancel));
  TESSERA_ASSIGN(TuningFile file, read(path));
  if (file.tunings_.size() >= kMaxTunings && file.find(machine, model) == nullptr)
    return fail(ErrorCode::limit, "{}: {} tunings, and no more are possible", path, kMaxTunings);
  file.tunings_.insert_or_assign(Key(machine, model), tuning);
  return file.write(path);
}

Result<bool> TuningFile::remove(const std::string& path, std::string_view machine, std::string_view model,
                                const CancelToken& cancel) {
  TESSERA_ASSIGN(const hub::FileLock locked, lock(path, cancel));
  TESSERA_ASSIGN(TuningFile file, read(path));
  if (file.tunings_.erase(Key(machine, model)) == 0) return false;
  TESSERA_TRY(file.write(path));
  return true;
}

}  // namespace tessera::cli
